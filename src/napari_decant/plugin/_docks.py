"""Our widgets in the docks of a viewer's window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qtpy.QtWidgets import QWidget

__all__ = ["show_dock"]


def show_dock(viewer: Any, title: str, make: Callable[[], QWidget], *, tabify: bool = True) -> Any:
    """Show a widget of ours in the window, the one that is there or a new one.

    Parameters
    ----------
    viewer : napari.Viewer
    title : str
        The widget's name in the manifest; the entry of the Plugins menu shows and hides the same dock.
    make : callable
        Makes the widget.
    tabify : bool
        Put a new one behind what is docked at its side.

    Returns
    -------
    QWidget
        The widget, visible.
    """
    # As napari names what it docks from its menu, and from `add_plugin_dock_widget`.
    name, other = f"{title} (Decant)", f"{title} (napari-decant)"
    docks = viewer.window.dock_widgets
    widget = docks.get(name) or docks.get(other)
    if widget is None:
        widget = make()
        viewer.window.add_dock_widget(widget, name=name, area="right", tabify=tabify)
    dock = widget.parent()
    dock.show()
    dock.raise_()
    return widget
