"""What napari calls, and what the command line calls to show things in napari."""

from napari_decant.plugin._demo import run_demo
from napari_decant.plugin._reader import get_reader, sample_data
from napari_decant.plugin._view import view

__all__ = ["get_reader", "run_demo", "sample_data", "view"]
