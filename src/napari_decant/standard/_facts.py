"""What a store says of one image, read tolerantly: a fault in one place does not hide the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from napari_decant.engine import ZarrArray
from napari_decant.errors import DecantError
from napari_decant.ngff import ArrayMeta, ImageEntry, labels_place, parse_array_meta
from napari_decant.ngff._node import Node, read_nodes
from napari_decant.stores import FileMetadataReader, Store, join_key, unsafe_name_reason

__all__ = ["SPACE", "ImageFacts", "LevelFacts", "collect_facts", "numbers", "read_each"]

SPACE = ("z", "y", "x")
_MAX_LEVELS = 64
_TYPES = {"t": "time", "c": "channel", "z": "space", "y": "space", "x": "space"}
_IMPLIED = ("0.1", "0.2")  # versions whose axes are these five, in this order


@dataclass(eq=False)
class LevelFacts:
    """One level of an image.

    Attributes
    ----------
    index : int
        Position in ``datasets``.
    path : str
        Of its array within the store.
    raw : dict or None
        The array's own document; None where there is none.
    meta : ArrayMeta or None
        None where the document is not valid; ``error`` says why.
    error : str
        Empty if all is well.
    scale, translation : tuple of float, or None
        As declared for this level.
    not_finite : bool
        Whether its document has a bare NaN or Infinity.
    absent : bool
        Whether there is no array at all.
    """

    index: int
    path: str
    raw: dict[str, Any] | None = None
    meta: ArrayMeta | None = None
    error: str = ""
    scale: tuple[float, ...] | None = None
    translation: tuple[float, ...] | None = None
    not_finite: bool = False
    absent: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Declared shape; empty where it is no list of numbers."""
        if self.meta is not None:
            return self.meta.shape
        return numbers(self.raw.get("shape")) if self.raw else ()


@dataclass(eq=False)
class ImageFacts:
    """One image: its group, its axes and its levels.

    Attributes
    ----------
    store : Store
    path : str
        Of the group, or of a plain array.
    node : Node or None
        None where nothing can be read.
    kind : str
        ``"image"``, ``"labels"`` or ``"array"``.
    standard : str
        Which version is checked.
    pixels : bool
        Whether chunks may be read for this image.
    whole : bool
        Whether every chunk is decoded instead of a sample.
    step : callable
        Called before each stored object with the level's path, its number and how many are looked at; may
        raise to stop.
    entry : dict
        The multiscales entry; empty for a plain array.
    axes : list of dict
        As declared.
    levels : list of LevelFacts
        In declared order.
    error : str
        Why the image as a whole cannot be looked at.
    """

    store: Store
    path: str
    kind: str
    standard: str
    node: Node | None = None
    pixels: bool = True
    whole: bool = False
    step: Callable[[str, int, int], None] = field(default=lambda path, number, count: None, repr=False)
    entry: dict[str, Any] = field(default_factory=dict)
    axes: list[dict[str, Any]] = field(default_factory=list)
    levels: list[LevelFacts] = field(default_factory=list)
    error: str = ""

    @property
    def version(self) -> str | None:
        """OME-Zarr version as declared."""
        if self.node is None:
            return None
        value = self.node.ome.get("version", self.entry.get("version"))
        return str(value)[:40] if isinstance(value, str | int | float) else None

    @property
    def is_labels(self) -> bool:
        """Whether values are labels."""
        return self.kind == "labels"

    @property
    def in_labels_group(self) -> bool:
        """Whether the image stands in a group 'labels'."""
        return labels_place(self.path) is not None

    @property
    def names(self) -> list[str]:
        """Names of the axes as declared; those that have none are '?'."""
        return [str(axis.get("name", "?"))[:40] for axis in self.axes]

    def axis_kind(self, i: int) -> str:
        """Type of the axis at a position: as declared, else by its name."""
        if i >= len(self.axes):
            return ""
        declared = self.axes[i].get("type")
        return declared if isinstance(declared, str) else _TYPES.get(self.names[i].lower(), "")

    def spatial(self, rank: int) -> list[int]:
        """Positions of the spatial axes among ``rank``; the last three where nothing is declared."""
        if len(self.axes) == rank:
            return [i for i in range(rank) if self.axis_kind(i) == "space"]
        return list(range(max(0, rank - 3), rank))

    def axis_of(self, name: str, rank: int) -> int | None:
        """Position of one of t, c, z, y, x by name, or by place in a full order of five."""
        if len(self.axes) == rank:
            lower = [n.lower() for n in self.names]
            return lower.index(name) if name in lower else None
        return "tczyx".index(name) if rank == 5 else None

    @cached_property
    def ordered(self) -> list[LevelFacts]:
        """Levels that are valid arrays of level 0's rank, finest first."""
        good = [level for level in self.levels if level.meta is not None]
        if not good:
            return []
        rank = len(good[0].shape)
        return sorted((v for v in good if len(v.shape) == rank), key=lambda v: -_product(v.shape))

    @cached_property
    def arrays(self) -> dict[str, ZarrArray]:
        """Readers of the valid levels by path."""
        return {level.path: ZarrArray(self.store, level.meta, level.path) for level in self.ordered}

    @property
    def base(self) -> LevelFacts | None:
        """The finest valid level."""
        return self.ordered[0] if self.ordered else None


def _product(values: Sequence[int]) -> int:
    result = 1
    for value in values:
        result *= value
    return result


def numbers(value: Any) -> tuple[int, ...]:
    """A list of whole numbers as a tuple; empty for anything else."""
    if isinstance(value, list) and value and all(type(n) is int for n in value):
        return tuple(value)
    return ()


def _vector(steps: Any, kind: str) -> tuple[float, ...] | None:
    """The first ``kind`` of a list of transformations, if it is a list of finite numbers."""
    if not isinstance(steps, list):
        return None
    for step in steps[:16]:
        values = step.get(kind) if isinstance(step, dict) and step.get("type") == kind else None
        if isinstance(values, list) and values and all(_is_number(v) for v in values):
            return tuple(float(v) for v in values)
    return None


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < 1e300


def collect_facts(
    store: Store,
    entry: ImageEntry,
    standard: str,
    *,
    reader: FileMetadataReader | None = None,
    pixels: bool = True,
    whole: bool = False,
) -> ImageFacts:
    """Read the documents of one image; nothing is refused, what is wrong is noted in its place.

    Parameters
    ----------
    store : Store
    entry : ImageEntry
        Which image.
    standard : str
        Kept for the rules.
    reader : FileMetadataReader, optional
    pixels, whole : bool
        Kept for the rules.
    """
    reader = reader or FileMetadataReader()
    facts = ImageFacts(store, entry.path, entry.kind, standard, pixels=pixels, whole=whole)
    try:
        facts.node = read_nodes(store, [entry.path], reader).get(entry.path)
    except DecantError as error:
        facts.error = str(error)
        return facts
    if facts.node is None:
        facts.error = entry.error or f"there is no Zarr group or array at {entry.path or '/'!r}"
    elif facts.node.array is not None:
        facts.levels = [_level(0, entry.path, facts.node)]
        names = facts.levels[0].meta.dimension_names if facts.levels[0].meta else None
        facts.axes = [{"name": n, "type": _TYPES.get(n or "")} for n in names] if names else []
    else:
        _read_multiscales(facts, facts.node, entry, reader)
    return facts


def _read_multiscales(facts: ImageFacts, node: Node, entry: ImageEntry, reader: FileMetadataReader) -> None:
    listed = node.ome.get("multiscales")
    chosen = listed[entry.multiscale_index] if isinstance(listed, list) and listed else None
    if not isinstance(chosen, dict):
        facts.error = f"{node.where} describes no image: its multiscales hold no object"
        return
    facts.entry = chosen
    if "image-label" in node.ome or labels_place(node.path) is not None:
        facts.kind = "labels"
    axes = chosen.get("axes")
    if isinstance(axes, list):
        facts.axes = [
            {"name": a, "type": _TYPES.get(a)} if isinstance(a, str) else a if isinstance(a, dict) else {}
            for a in axes[:64]
        ]
    elif axes is None and facts.version in _IMPLIED:
        facts.axes = [{"name": name, "type": kind} for name, kind in _TYPES.items()]
    datasets = chosen.get("datasets")
    places: list[tuple[int, str, dict[str, Any]]] = []
    for i, item in enumerate(datasets[:_MAX_LEVELS] if isinstance(datasets, list) else []):
        path = item.get("path") if isinstance(item, dict) else None
        if isinstance(path, int) and not isinstance(path, bool):
            path = str(path)
        reason = unsafe_name_reason(path) if isinstance(path, str) else "is no text"
        if reason is not None or not isinstance(path, str):
            facts.levels.append(LevelFacts(i, "", error=f"the path {str(path)[:80]!r} of level {i} {reason}"))
            continue
        places.append((i, join_key(node.path, path), item))
    nodes = read_each(facts.store, [path for _, path, _ in places], node.zarr_format, reader)
    for i, path, item in places:
        found = nodes[path]
        level = LevelFacts(i, path, error=found) if isinstance(found, str) else _level(i, path, found)
        steps = item.get("coordinateTransformations")
        level.scale, level.translation = _vector(steps, "scale"), _vector(steps, "translation")
        facts.levels.append(level)
    facts.levels.sort(key=lambda level: level.index)
    if not facts.levels:
        facts.error = f"{node.where} lists no levels: datasets is empty, or no list"


def read_each(
    store: Store, paths: list[str], zarr_format: int | None, reader: FileMetadataReader
) -> dict[str, Node | str | None]:
    """Read array documents in one go; where one is damaged, its reason stands in its place."""
    try:
        found = read_nodes(store, paths, reader, None, zarr_format)
        return {path: found.get(path) for path in paths}
    except DecantError as error:
        if len(paths) == 1:
            return {paths[0]: str(error)}
        return {
            path: node for one in paths for path, node in read_each(store, [one], zarr_format, reader).items()
        }


def _level(index: int, path: str, node: Node | None) -> LevelFacts:
    if node is None or node.array is None:
        return LevelFacts(index, path, error=f"there is no array at {path!r}", absent=True)
    level = LevelFacts(index, path, node.array, not_finite=node.not_finite)
    try:
        level.meta = parse_array_meta(node.array, node.zarr_format, where=node.where)
    except DecantError as error:
        level.error = str(error)
    return level
