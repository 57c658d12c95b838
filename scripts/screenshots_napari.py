"""Make the pictures of napari for the documentation: the list of images in a file, and a panel.

Usage: python scripts/screenshots_napari.py [FOLDER]   (docs/images by default; screenshots.py runs this, too)
"""

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
import zarr

from napari_decant._resources import sample_path

ROOT = Path(__file__).resolve().parent.parent
WINDOW = (1280, 760)
WELLS = ("A/1", "A/2", "B/1", "B/2")
COLORS = ("00FFFF", "FF00FF", "FFFF00")


def make_plate(folder: Path) -> Path:
    """A plate of four wells with two fields each, written with zarr alone."""
    cell = tifffile.imread(sample_path())
    plate = zarr.create_group(str(folder))
    wells: Any = [
        {"path": well, "rowIndex": "AB".index(well[0]), "columnIndex": int(well[2]) - 1} for well in WELLS
    ]
    columns: Any = [{"name": "1"}, {"name": "2"}]
    rows: Any = [{"name": "A"}, {"name": "B"}]
    plate.attrs["ome"] = {
        "version": "0.5",
        "plate": {"name": "plate", "columns": columns, "rows": rows, "wells": wells},
    }
    for number, well in enumerate(WELLS):
        group = plate.create_group(well)
        group.attrs["ome"] = {"version": "0.5", "well": {"images": [{"path": "0"}, {"path": "1"}]}}
        for field in range(2):
            image = group.create_group(str(field))
            image.create_array(
                "0", data=np.roll(cell, 60 * (2 * number + field), axis=2), chunks=(1, 350, 350)
            )
            image.attrs["ome"] = {
                "version": "0.5",
                "multiscales": [multiscale()],
                "omero": {"channels": look(cell)},
            }
    return folder


def multiscale() -> Any:
    """Metadata of one field."""
    axes = [{"name": "c", "type": "channel"}] + [
        {"name": name, "type": "space", "unit": "micrometer"} for name in "yx"
    ]
    scale = [{"type": "scale", "scale": [1.0, 0.1325, 0.1325]}]
    return {"axes": axes, "datasets": [{"path": "0", "coordinateTransformations": scale}]}


def look(cell: Any) -> Any:
    """How the channels are shown."""
    return [
        {
            "label": name,
            "color": color,
            "window": {
                "start": int(np.percentile(plane, 20)),
                "end": int(np.percentile(plane, 99.8)),
                "min": 0,
                "max": 65535,
            },
        }
        for name, color, plane in zip(("DNA", "microtubules", "actin"), COLORS, cell, strict=True)
    ]


def main(folder: Path) -> None:
    """Make the pictures."""
    os.environ["NAPARI_ASYNC"] = "0"
    with tempfile.TemporaryDirectory() as name:
        os.environ["NAPARI_CONFIG"] = str(Path(name) / "settings.yaml")
        shoot(folder, make_plate(Path(name) / "plate.zarr"))


def shoot(folder: Path, plate: Path) -> None:
    """Open the plate, some of its fields, and the panel that packs; take pictures in both themes."""
    import napari
    from qtpy.QtWidgets import QApplication

    from napari_decant.plugin._screenshots import settle

    viewer = napari.Viewer()
    viewer.window.resize(*WINDOW)
    viewer.open(str(plate), plugin="napari-decant")
    chooser = next(
        dock for name, dock in viewer.window.dock_widgets.items() if name.startswith("Images in a file")
    )
    for row in (0, 3):
        chooser.list.setCurrentIndex(chooser.list.model().index(row, 1))
        chooser.open.click()
        end = time.monotonic() + 60
        while len(viewer.layers) < (3 if row == 0 else 6) and time.monotonic() < end:
            QApplication.processEvents()
            time.sleep(0.01)
    for layer in viewer.layers[3:]:
        layer.visible = False
    for theme in ("light", "dark"):
        viewer.theme = theme
        settle(viewer, 0.5)
        viewer.reset_view()
        settle(viewer, 0.5)
        viewer.screenshot(path=str(folder / f"napari-chooser-{theme}.png"), canvas_only=False, flash=False)
    dock, panel = viewer.window.add_plugin_dock_widget("napari-decant", "Pack TIFFs", tabify=True)
    dock.raise_()
    panel.add([sample_path()])
    end = time.monotonic() + 60
    while not panel.rows.root.children and time.monotonic() < end:
        QApplication.processEvents()
        time.sleep(0.01)
    for theme in ("light", "dark"):
        viewer.theme = theme
        settle(viewer, 0.5)
        viewer.screenshot(path=str(folder / f"napari-pack-{theme}.png"), canvas_only=False, flash=False)
    viewer.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images")
