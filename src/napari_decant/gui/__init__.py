"""The window: Qt widgets for archiving that napari can dock too. Nothing here imports napari."""
