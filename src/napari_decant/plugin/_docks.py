"""Our widgets in the docks of a viewer's window."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from qtpy.QtCore import QEvent
from qtpy.QtWidgets import QWidget

__all__ = ["OneDock", "show_dock"]


class OneDock:
    """A widget that a viewer has once; mixed into it, and what it is constructed with is the viewer.

    Napari tells docks apart by their names, and has two for one widget: that of its menu and that of
    `add_plugin_dock_widget`. Whoever makes the widget anew gets the one that is docked, with all that is in
    it, out of its dock and ready for the next one. `__init__` runs again then, and returns if ``docked``.
    """

    docked = False
    """Whether this one was made before."""

    def __new__(cls, napari_viewer: Any, *args: Any, **kwargs: Any) -> Any:
        viewer = getattr(napari_viewer, "__wrapped__", napari_viewer)  # napari hands out a proxy
        window: Any = getattr(viewer, "window", None)  # a viewer model has none
        docks = window.dock_widgets if window is not None else {}
        there: Any = next((each for each in docks.values() if type(each) is cls), None)
        if there is None:
            return super().__new__(cls)
        there._moving = True
        window.remove_dock_widget(there.parent())
        there._moving = False
        there.docked = True
        return there

    _moving = False

    @abstractmethod
    def undocked(self) -> None:
        """Stop what runs, and go: napari has taken the widget out of its dock."""

    def event(self, event: Any) -> bool:
        """Notice that the dock was closed, which is the widget's end."""
        widget: Any = self
        handled = bool(super().event(event))  # type: ignore[misc]
        if event.type() == QEvent.Type.ParentChange and widget.parent() is None and not self._moving:
            self.undocked()
        return handled


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
