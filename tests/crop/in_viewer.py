"""What a person does with the crop tool in a napari window: the mouse on the canvas, and images to cut."""

from __future__ import annotations

import time

import numpy as np
from qtpy.QtCore import QEvent, QPoint, QPointF, Qt
from qtpy.QtGui import QMouseEvent
from qtpy.QtWidgets import QApplication
from tests.crop.helpers import blob, mean_pyramid, pyramid_transforms
from tests.plugin.helpers import write_folder
from tests.support.ngff import image_keys

from napari_decant.plugin._open import read_layers
from napari_decant.plugin._screenshots import settle
from napari_decant.plugin._watch import watch
from napari_decant.plugin.crop import is_box_layer

SCALE, ORIGIN, SPOT = (2.0, 0.5, 0.5), (-3.0, 10.0, 4.0), (12.0, 30.0, 40.0)
PHYSICAL = np.array([s * (a - 0.5) + o for s, a, o in zip(SCALE, SPOT, ORIGIN, strict=True)])


def ready(qtbot, widget):
    """Everything that follows from the last change is done."""
    QApplication.processEvents()
    qtbot.waitUntil(lambda: widget.settled and not widget._soon and not widget.busy, timeout=20_000)


def run(qtbot, viewer, widget):
    before = set(viewer.layers)
    widget.footer.add.click()
    qtbot.waitUntil(lambda: not widget.busy, timeout=20_000)
    ready(qtbot, widget)
    return [layer for layer in viewer.layers if layer not in before and not is_box_layer(layer)]


def boxes(viewer):
    return [layer for layer in viewer.layers if is_box_layer(layer)]


def matrix_of(layer):
    zero = np.array(layer.data_to_world((0.0,) * layer.ndim))
    columns = [np.array(layer.data_to_world(tuple(row))) - zero for row in np.eye(layer.ndim)]
    return np.column_stack([np.stack(columns, 1), zero])


def canvas_of(viewer):
    return viewer.window._qt_viewer.canvas


def to_canvas(viewer, world):
    """Where a point of the world is on the canvas, in pixels, once the window is laid out."""
    before = None
    for _ in range(50):
        settle(viewer, 0.03)
        view = canvas_of(viewer).view
        shown = np.array(world, float)[list(viewer.dims.displayed)][::-1]
        at = np.asarray((view.transform * view.scene.transform).map(list(shown)))
        if before is not None and np.abs(at - before).max() < 0.5:
            return QPoint(*(round(float(v)) for v in at[:2] / at[3]))
        before = at
    raise AssertionError("the canvas does not come to rest")


def drag(viewer, begin, end, steps=6, keys=Qt.KeyboardModifier.NoModifier):
    """Press, move and release the mouse on the canvas, as a hand does."""
    native = canvas_of(viewer).native
    left, none = Qt.MouseButton.LeftButton, Qt.MouseButton.NoButton

    def send(kind, at, button, buttons):
        QApplication.sendEvent(
            native, QMouseEvent(kind, QPointF(at), native.mapToGlobal(QPointF(at)), button, buttons, keys)
        )
        QApplication.processEvents()

    send(QEvent.Type.MouseMove, begin, none, none)
    send(QEvent.Type.MouseButtonPress, begin, left, left)
    for step in range(1, steps + 1):
        part = step / steps
        at = QPoint(*(round(a + (b - a) * part) for a, b in ((begin.x(), end.x()), (begin.y(), end.y()))))
        time.sleep(0.012)  # moves that follow within a hundredth of a second are left out
        send(QEvent.Type.MouseMove, at, none, left)
    send(QEvent.Type.MouseButtonRelease, end, left, none)


def handle(widget, kind, **wanted):
    return next(
        h for h in widget._host.box.handles
        if h.kind == kind and all(getattr(h, name) == value for name, value in wanted.items())
    )  # fmt: skip


def flat_image(viewer):
    data = blob((120, 160), (60.0, 80.0), 8.0)
    layer = viewer.add_image(data, scale=(0.5, 0.5), translate=(10.0, -3.0), name="spot", colormap="magma")
    viewer.reset_view()
    settle(viewer, 0.05)
    return layer


def volume(viewer, tmp_path, name="cells", levels=2):
    """A volume of ours with several levels and anisotropic voxels."""
    data = blob((24, 64, 80), SPOT, (1.6, 4.0, 4.0))
    return _opened(viewer, tmp_path / f"{name}.zarr", data, "zyx", levels)


def sheet(viewer, tmp_path):
    """A flat image of ours with three levels."""
    return _opened(viewer, tmp_path / "sheet.zarr", blob((64, 80), SPOT[1:], 4.0), "yx", 3)


def _opened(viewer, path, data, axes, levels):
    from napari.layers import Layer

    scales, shifts = pyramid_transforms(SCALE[-len(axes) :], ORIGIN[-len(axes) :], levels)
    chunks = (8, 32, 32)[-len(axes) :]
    keys = image_keys(mean_pyramid(data, levels), axes, scales=scales, translations=shifts, chunks=chunks)
    watch(viewer)  # as our reader does
    layer = viewer.add_layer(Layer.create(*read_layers(str(write_folder(path, keys)))[0]))
    viewer.reset_view()
    settle(viewer, 0.05)
    return layer
