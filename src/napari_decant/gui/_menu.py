"""A menu of actions at a place on the screen."""

from __future__ import annotations

from collections.abc import Sequence

from qtpy.QtCore import QPoint
from qtpy.QtWidgets import QMenu, QWidget

from napari_decant.gui._theme import Look
from napari_decant.gui._widgets import Action

__all__ = ["pop_up"]


def pop_up(parent: QWidget, look: Look, actions: Sequence[Action], point: QPoint) -> QMenu:
    """Show a menu; it goes when it is closed.

    Parameters
    ----------
    parent : QWidget
    look : Look
    actions : sequence of Action
        An entry each.
    point : QPoint
        On the screen.
    """
    menu = QMenu(parent)
    menu.setToolTipsVisible(True)
    for action in actions:
        made = menu.addAction(look.icon(action.icon), action.text)
        made.setToolTip(action.tip)
        made.triggered.connect(lambda checked=False, run=action.run: run())
    menu.aboutToHide.connect(menu.deleteLater)
    menu.popup(point)
    return menu
