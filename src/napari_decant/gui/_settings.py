"""What the user chose: one place for it, kept by whatever program shows our widgets."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Protocol

from psygnal import EmissionInfo, SignalGroupDescriptor

__all__ = ["MemoryStore", "Settings", "SettingsStore", "chosen_folder", "open_settings"]


class SettingsStore(Protocol):
    """Keeps settings from one start of the program to the next."""

    def load(self) -> dict[str, Any]:
        """What was kept; of any type, and possibly of another version of the program."""

    def save(self, name: str, value: Any) -> None:
        """Keep one value."""


class MemoryStore:
    """Keeps settings as long as the program runs."""

    def __init__(self, **values: Any) -> None:
        self.values = values

    def load(self) -> dict[str, Any]:
        """See `SettingsStore.load`."""
        return dict(self.values)

    def save(self, name: str, value: Any) -> None:
        """See `SettingsStore.save`."""
        self.values[name] = value


@dataclass
class Settings:
    """The choices; ``events`` tells of every change.

    Attributes
    ----------
    output_folder : str
        Where archives go; empty for beside each original.
    series : bool
        A folder becomes one archive, not one archive a file.
    pattern : str
        How file names of a series give axes; empty to find out.
    codec : {"default", "fast"}
    pyramid : bool
        Archives get smaller copies for viewing.
    workers : int
        Threads a file; 0 for one a core.
    replace : bool
        Existing archives are replaced.
    offer_delete : bool
        At the end of a run, ask about deleting the originals.
    quick : bool
        Verify structure only.
    restore_folder : str
        Where originals were restored to last.
    export_folder : str
        Where exports go; empty for beside each image.
    export_kind : {".zarr", ".ozx"}
    replace_exports : bool
        Existing exports are replaced.
    quantize : bool
        Exports store as uint16 what is neither uint8 nor uint16.
    standard : {"dca-0.1", "dca-0.2"}
        Version of the array standard that images are checked against.
    whole : bool
        A check decodes every chunk.
    busy_folders : str
        Folders being written to, one a line: what is still there at the next start was interrupted.
    """

    events: ClassVar[SignalGroupDescriptor] = SignalGroupDescriptor()

    output_folder: str = ""
    series: bool = False
    pattern: str = ""
    codec: str = "default"
    pyramid: bool = False
    workers: int = 0
    replace: bool = False
    offer_delete: bool = False
    quick: bool = False
    restore_folder: str = ""
    export_folder: str = ""
    export_kind: str = ".zarr"
    replace_exports: bool = False
    quantize: bool = False
    standard: str = "dca-0.1"
    whole: bool = False
    busy_folders: str = ""


def chosen_folder(text: str) -> Path | None:
    """The folder that a setting names, in full, with ``~`` as the home folder; None for none."""
    return Path(os.path.abspath(os.path.expanduser(text))) if text else None


def open_settings(store: SettingsStore) -> Settings:
    """Settings that load from a store and write every change back to it."""
    kept = store.load()
    defaults = asdict(Settings())
    values = {}
    for name, default in defaults.items():
        if name in kept:
            values[name] = _as(type(default), kept[name], default)
    settings = Settings(**values)
    names = {field.name for field in fields(Settings)}

    def write(info: EmissionInfo) -> None:
        if info.signal.name in names:
            store.save(info.signal.name, info.args[0])

    settings.events.connect(write)
    return settings


def _as[T](kind: type[T], value: Any, default: T) -> T:
    """A kept value as its type: some stores give everything back as text."""
    if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    if kind is bool and isinstance(value, str):
        return value.lower() == "true"  # type: ignore[return-value]
    if kind is int and isinstance(value, str) and value.lstrip("-").isdigit():
        return int(value)  # type: ignore[return-value]
    return default
