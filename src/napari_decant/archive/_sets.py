"""Which files belong together: the set of one file, and the series of a tree of folders."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from napari_decant.archive._names import natural_key
from napari_decant.archive._place_micromanager import INDEX_NAME, METADATA_NAME
from napari_decant.archive._place_ome import COMPANIONS
from napari_decant.archive._series import cannot_read, is_ours, list_folder
from napari_decant.archive._source import Source
from napari_decant.errors import DecantError, FormatError
from napari_decant.stores._atomic import require_path
from napari_decant.tiff._ifd import NotTiff, read_first
from napari_decant.tiff.dialects import OmeDocument, clean, ome_text_of, read_index, read_ome_set

__all__ = ["LEFTOVERS", "Group", "find_set", "group_files", "group_folder"]

logger = logging.getLogger(__name__)

_DESCRIPTION = 270
_TIFFS = (".tif", ".tiff", ".btf", ".tf2", ".tf8")
_STACK = re.compile(r"(.*MMStack)(?:[_.].*)?\.(?:tiff?|txt)", re.IGNORECASE)
_NDTIFF = re.compile(r"(.*NDTiffStack)(?:_\d+)?\.tiff?", re.IGNORECASE)
_PLANE = re.compile(r"img_(?:\d{9}_.*_\d{3}|(?:channel|position|time|z)\d{3}.*)\.tiff?", re.IGNORECASE)
_BESIDE = frozenset(
    {"display_settings.txt", "DisplaySettings.json", "display_and_comments.txt", "comments.txt"}
)
_REPORTS = {f"{prefix}{name}" for prefix in ("", "decant-") for name in ("report.json", "sha256sums")}
LEFTOVERS = frozenset({*_REPORTS, ".ds_store", "thumbs.db", "desktop.ini"})
"""Files, in lower case, that programs leave in any folder, this one too; nobody misses them."""
_MAX_PAGES = 1 << 18
_MAX_COMPANIONS = 20


def find_set(path: str | Path) -> list[Path] | None:
    """Find the files that make up an acquisition together with this one.

    OME-TIFF sets (by the names in their OME-XML, in a member or in a companion file), Micro-Manager's
    MMStack files, NDTiff, and single planes with a ``metadata.txt``.

    Parameters
    ----------
    path : str or Path
        Any file of the set.

    Returns
    -------
    list of Path or None
        The files of the set that exist in the same folder, in natural order of their names; None if
        the file belongs to no other. Links are never among them, nor is anything outside the folder.

    Raises
    ------
    UsageError
        There is no such file.
    StorageError
        It, or its folder, cannot be read.
    """
    path = Path(path)
    require_path(path)
    return None if path.is_dir() else _Folder(path.parent).set_of(path.name)


class _Folder:
    """A folder, listed once, and the OME documents in it that were read already."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._companions: dict[str, OmeDocument | None] = {}
        try:
            with os.scandir(folder) as entries:
                self.names = {
                    e.name for e in entries if e.is_file(follow_symlinks=False) and not is_ours(e.name)
                }
        except OSError as error:
            cannot_read(error)
            raise

    def set_of(self, name: str) -> list[Path] | None:
        """Files that belong together with the one of this name; see `find_set`."""
        found = (self._ome_names(name) | self._micromanager_names(name)) & self.names | {name}
        if len(found) < 2:
            return None
        return [self._folder / each for each in sorted(found, key=natural_key)]

    def _ome_names(self, name: str) -> set[str]:
        """Names that the OME-XML of a file, or the file that it points to, speaks of."""
        document = _document(self._folder / name)
        if document is None:
            return set()
        if not document.companion:
            return _named(document)
        companion = document.companion.replace("\\", "/").rpartition("/")[2]
        if companion in self.names:
            master = self._companion(companion)
            return {companion} | (_named(master) if master else set())
        # it may have been renamed
        for other in sorted(each for each in self.names if each.lower().endswith(COMPANIONS))[
            :_MAX_COMPANIONS
        ]:
            found = self._companion(other)
            if found is not None and name in _named(found):
                return {other} | _named(found)
        return set()

    def _companion(self, name: str) -> OmeDocument | None:
        if name not in self._companions:
            self._companions[name] = _document(self._folder / name)
        return self._companions[name]

    def _micromanager_names(self, name: str) -> set[str]:
        """Names of a Micro-Manager acquisition: a common prefix, or what its index lists."""
        beside = self.names & _BESIDE
        if match := _STACK.fullmatch(name):
            return self._alike(_STACK, match[1]) | beside
        if name == INDEX_NAME or _NDTIFF.fullmatch(name):
            listed = self._index_names()
            if name in listed:
                return listed | beside
        if match := _NDTIFF.fullmatch(name):
            return self._alike(_NDTIFF, match[1])
        if METADATA_NAME in self.names and (name == METADATA_NAME or _PLANE.fullmatch(name)):
            return {each for each in self.names if _PLANE.fullmatch(each)} | {METADATA_NAME} | beside
        return set()

    def _alike(self, expression: re.Pattern[str], prefix: str) -> set[str]:
        return {name for name in self.names if (found := expression.fullmatch(name)) and found[1] == prefix}

    def _index_names(self) -> set[str]:
        """Names that ``NDTiff.index`` lists, and its own."""
        if INDEX_NAME not in self.names:
            return set()
        path = self._folder / INDEX_NAME
        try:
            with Source(path) as source:
                return {name for _, name, _ in read_index(source.read_at, source.size)} | {INDEX_NAME}
        except FormatError as error:
            logger.warning("%s could not be read: %s", path, clean(str(error)))
            return {name for name in self.names if _NDTIFF.fullmatch(name)} | {INDEX_NAME}


def _named(document: OmeDocument) -> set[str]:
    """Plain names in a document; a path leads elsewhere."""
    return {name for name in document.set_rows.names if name and "/" not in name and "\\" not in name}


def _document(path: Path) -> OmeDocument | None:
    """OME-XML of a TIFF or a companion file; None if it has none that can be read."""
    companion = path.name.lower().endswith(COMPANIONS)
    if not companion and not path.name.lower().endswith(_TIFFS):
        return None
    try:
        with Source(path) as source:
            if companion:
                found = read_ome_set(source.read_at, source.size, _MAX_PAGES)
                return found if found.is_ome else None
            first = read_first(source.read_at, source.size)
            text = first and ome_text_of(source.read_at, first[1].tags.get(_DESCRIPTION))
            if not text:
                return None
            found = read_ome_set(*text, _MAX_PAGES)
            return found if found.is_ome else None
    except NotTiff:
        return None
    except DecantError as error:
        logger.warning("the OME metadata of %s could not be read: %s", path, clean(str(error)))
        return None


@dataclass(frozen=True, slots=True)
class Group:
    """Files that become one series.

    Attributes
    ----------
    base : Path
        Folder that their names are relative to.
    files : tuple of Path
    name : str
        Of a set that is only a part of its folder; empty for the folder's own name.
    relative : str
        POSIX path of the folder below the one that was given; empty for that one.
    passed : tuple of Path
        Archives that were passed by.
    """

    base: Path
    files: tuple[Path, ...]
    name: str = ""
    relative: str = ""
    passed: tuple[Path, ...] = ()


def group_files(files: Sequence[Path]) -> list[Group]:
    """Group files that were given one by one: each with its set, and the rest together.

    Parameters
    ----------
    files : sequence of Path
        Absolute paths, at least one.
    """
    folders: dict[Path, _Folder] = {}
    sets: list[list[Path]] = []
    rest: list[Path] = []
    taken: set[Path] = set()
    for file in sorted(files, key=lambda path: natural_key(path.as_posix())):
        if file in taken:
            continue
        folder = folders.get(file.parent)
        if folder is None:
            folder = folders[file.parent] = _Folder(file.parent)
        found = folder.set_of(file.name)
        if found is None:
            rest.append(file)
        else:
            sets.append(found)
            taken.update(found)
    rest = [file for file in rest if file not in taken]
    if len(sets) == 1 and all(file.parent == sets[0][0].parent for file in rest):
        sets[0] += rest  # what was chosen along with a set goes with it
        rest = []
    groups = [_set_group(each) for each in sets]
    if rest:
        groups.append(Group(Path(os.path.commonpath([path.parent for path in rest])), tuple(rest)))
    return groups


def _set_group(files: Sequence[Path]) -> Group:
    base = files[0].parent
    names = [file.name for file in files]
    if set(names) >= _Folder(base).names:
        return Group(base, tuple(files))
    stems = [name.partition(".")[0] for name in names if name.lower().endswith(_TIFFS)] or names[:1]
    same = takewhile(lambda letters: len(set(letters)) == 1, zip(*stems, strict=False))
    common = "".join(letters[0] for letters in same)
    name = common.rstrip("0123456789").rstrip("_- ") if len(stems) > 1 else common
    return Group(base, tuple(files), name or stems[0])


def group_folder(folder: Path) -> list[Group]:
    """Find the series of a folder.

    A folder that holds files is one series, with everything below it. One that holds only folders is
    a tree of series: the folders below it are looked at in turn, in natural order. What systems and
    reports leave behind (``Thumbs.db``, ``report.json``) does not count, and folders of a tree without
    any TIFF are left out.

    Raises
    ------
    UnsupportedOperation
        There are links.
    StorageError
        A folder cannot be read.
    """
    bases = _bases(folder)
    groups = []
    for base in bases:
        files, passed = list_folder(base)
        if base != folder and not any(
            file.name.lower().endswith((*_TIFFS, ".stk", ".lsm")) for file in files
        ):
            continue
        relative = "" if base == folder else base.relative_to(folder).as_posix()
        groups.append(Group(base, tuple(files), "", relative, tuple(passed)))
    if groups:
        return groups
    files, passed = list_folder(folder)
    return [Group(folder, tuple(files), passed=tuple(passed))]


def _bases(folder: Path) -> list[Path]:
    """The first folders on the way down that hold files."""
    try:
        with os.scandir(folder) as entries:
            listed = [(e.name, e.is_dir(follow_symlinks=False)) for e in entries if not is_ours(e.name)]
    except OSError as error:
        cannot_read(error)
        raise
    below = sorted((name for name, is_folder in listed if is_folder), key=natural_key)
    if not below or any(not is_folder and name.casefold() not in LEFTOVERS for name, is_folder in listed):
        return [folder]
    return [base for name in below for base in _bases(folder / name)]
