"""The window's panels as dock widgets: with napari's colours, settings, notices and activity dock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import napari
from napari.settings import get_plugin_settings
from napari.utils.notifications import show_error, show_info, show_warning
from napari.utils.theme import get_theme
from qtpy.QtWidgets import QApplication, QSizePolicy, QWidget

from napari_decant.errors import DecantError
from napari_decant.gui import (
    DARK,
    LIGHT,
    CheckPanel,
    Desk,
    ExportPanel,
    InspectPanel,
    Look,
    PackPanel,
    RestorePanel,
    Settings,
    Theme,
    VerifyPanel,
    open_settings,
)
from napari_decant.gui.jobs import JobState
from napari_decant.plugin._docks import OneDock, show_dock
from napari_decant.plugin._jobs import DockBar
from napari_decant.plugin._leaving import Work, guard
from napari_decant.plugin._view import add_to_viewer
from napari_decant.plugin._watch import watch

__all__ = [
    "CheckWidget",
    "ExportWidget",
    "InspectWidget",
    "NapariStore",
    "PackWidget",
    "RestoreWidget",
    "VerifyWidget",
    "napari_theme",
]

_PLUGIN = "napari-decant"
_TITLES = {
    "pack": "Pack TIFFs",
    "verify": "Verify archives",
    "restore": "Restore originals",
    "inspect": "Inspect a file",
    "export": "Export to OME-Zarr",
    "check": "Check against the array standard",
}
_STEPS = 100


def napari_theme(name: str) -> Theme:
    """Napari's theme of that name as ours; marks keep colours that stand out on it."""
    theirs = get_theme(name)
    dark = theirs.type == "dark"
    base = DARK if dark else LIGHT

    def color(role: str) -> str:
        return str(getattr(theirs, role).as_hex(format="long"))

    return Theme(
        dark=dark,
        window=color("background"),
        surface=color("background"),
        raised=color("foreground"),
        text=color("text"),
        muted=base.muted if dark else color("icon"),
        border=color("primary"),
        accent=base.accent,
        on_accent=base.on_accent,
        good=base.good,
        bad=base.bad,
        warn=base.warn,
    )


class NapariStore:
    """Settings where napari keeps those of its plugins; they stand in its Preferences."""

    def __init__(self) -> None:
        self._group = get_plugin_settings(_PLUGIN).archiving
        self._hidden: dict[str, Any] = {}  # what is no choice of the user's

    def load(self) -> dict[str, Any]:
        """See `SettingsStore.load`."""
        return dict(self._group.model_dump())

    def save(self, name: str, value: Any) -> None:
        """See `SettingsStore.save`."""
        if name in type(self._group).model_fields:
            if getattr(self._group, name) != value:
                setattr(self._group, name, value)
        else:
            self._hidden[name] = value

    def follow(self, settings: Settings) -> None:
        """Take over what is changed in the Preferences."""

        def changed(event: Any) -> None:
            name = event.type
            if name in type(self._group).model_fields and getattr(settings, name) != event.value:
                setattr(settings, name, event.value)

        self._group.events.connect(changed)
        self._changed = changed  # napari holds callbacks weakly


class _Seat:
    """The desk of one viewer, as long as a panel of ours is open in it."""

    def __init__(self, viewer: Any) -> None:
        self.viewer = viewer
        self.panels: list[Any] = []
        store = NapariStore()
        settings = open_settings(store)
        store.follow(settings)
        self._store = store
        self.look = Look(napari_theme(viewer.theme))
        self.desk = Desk(settings, self.look, open_images=self.open, say=self._say)
        self.desk.warm()
        viewer.events.theme.connect(self._retheme)
        runner = self.desk.runner
        self._unguard = guard(viewer, Work(lambda: self.desk.at_work, self._cancel, lambda: runner.busy))

    def open(self, paths: Sequence[Path]) -> None:
        """Add images to the viewer: archives, and files that napari would not give to our reader."""
        for path in paths:
            try:
                add_to_viewer(self.viewer, path)
            except DecantError as error:
                show_error(str(error))
        watch(self.viewer)

    @staticmethod
    def _say(sentence: str, good: bool) -> None:
        (show_info if good else show_warning)(sentence)

    def _retheme(self, event: Any = None) -> None:
        self.look.set_theme(napari_theme(self.viewer.theme))

    def _cancel(self) -> None:
        for panel in self.panels:
            if hasattr(panel, "cancel"):
                panel.cancel()
        self.desk.runner.cancel_all()

    def close(self) -> None:
        """Stop what runs; in the background, since cleaning up may take a moment."""
        self._unguard()
        self.viewer.events.theme.disconnect(self._retheme)
        self.desk.bridge.close()
        thread = threading.Thread(target=self.desk.runner.close, name="decant-close")
        thread.start()


_seats: dict[int, _Seat] = {}


def _seat_of(viewer: Any) -> tuple[_Seat, int]:
    viewer = getattr(viewer, "__wrapped__", viewer)  # napari hands out a proxy
    key = id(viewer)
    if key not in _seats:
        _seats[key] = _Seat(viewer)
    return _seats[key], key


def _leave(key: int, panel: Any) -> None:
    seat = _seats.get(key)
    if seat is None or panel not in seat.panels:
        return
    seat.panels.remove(panel)
    if not seat.panels:
        del _seats[key]
        seat.close()


class _Docked(OneDock):
    """What all panels need to live in napari; mixed into a panel."""

    WORKING: ClassVar[str] = ""
    """What the activity dock says while it works; empty for a panel that does not."""

    _key: int | None = None

    def __init__(self, napari_viewer: napari.viewer.Viewer, parent: QWidget | None = None) -> None:
        if self.docked:
            return
        seat, key = _seat_of(napari_viewer)
        super().__init__(seat.desk, parent)  # type: ignore[call-arg]
        panel: Any = self
        panel.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        panel.handed.connect(panel._hand_on)
        self._seat, self._key = seat, key
        seat.panels.append(panel)
        panel.destroyed.connect(partial(_leave, key, panel))  # with its whole window
        app = QApplication.instance()
        if app is not None:
            app.aboutToQuit.connect(panel.undocked)
        self._activity = _Activity(panel, self.WORKING) if self.WORKING else None

    def _hand_on(self, to: str, paths: list[Path]) -> None:
        """Dock the panel that paths are for, and give them to it."""
        viewer = self._seat.viewer
        show_dock(viewer, _TITLES[to], lambda: _PANELS[to](viewer)).add(paths)

    def undocked(self) -> None:
        """See `OneDock.undocked`."""
        if self._key is not None:
            key, self._key = self._key, None
            panel: Any = self
            panel.leave()
            if self._activity is not None:
                self._activity.close()
            _leave(key, panel)
            panel.deleteLater()


class _Activity:
    """Shows the progress of a panel's runs in napari's activity dock, where they can be cancelled, too."""

    def __init__(self, panel: Any, title: str) -> None:
        self._panel, self._title = panel, title
        self._bar: DockBar | None = None
        self._making = False
        panel.progressed.connect(self.update)
        panel.footer._timer.timeout.connect(self.update)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            bar, self._bar = self._bar, None
            bar.close()

    def update(self) -> None:
        """Move the bar, make it or take it away."""
        batch = self._panel.batch
        if batch is None:
            self.close()
            return
        if self._making or self._panel._key is None:  # napari handles events while it makes a bar
            return
        if self._bar is None:
            self._making = True
            self._bar = DockBar(self._title, self._panel.cancel, unit="%")
            self._making = False
        over = batch.count(JobState.DONE, JobState.FAILED, JobState.CANCELLED)
        words = f"{self._title} {min(over + 1, len(batch)):,} of {len(batch):,}"
        self._bar.show(_STEPS * batch.fraction, _STEPS, words)


class PackWidget(_Docked, PackPanel):
    """Pack TIFFs, docked in napari."""

    WORKING = "Packing"


class VerifyWidget(_Docked, VerifyPanel):
    """Verify archives, docked in napari."""

    WORKING = "Verifying"


class RestoreWidget(_Docked, RestorePanel):
    """Restore originals, docked in napari."""

    WORKING = "Restoring"


class ExportWidget(_Docked, ExportPanel):
    """Write OME-Zarr 0.5, docked in napari."""

    WORKING = "Exporting"


class CheckWidget(_Docked, CheckPanel):
    """Check against the array standard, docked in napari."""

    WORKING = "Checking"


class InspectWidget(_Docked, InspectPanel):
    """Look inside a file, docked in napari."""


_PANELS: dict[str, Callable[[Any], Any]] = {
    "pack": PackWidget,
    "verify": VerifyWidget,
    "restore": RestoreWidget,
    "inspect": InspectWidget,
    "export": ExportWidget,
    "check": CheckWidget,
}
