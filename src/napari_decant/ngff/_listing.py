"""Which images a store holds: one, a series, a plate, labels, or plain arrays."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import unescape
from typing import Any

from napari_decant.errors import BudgetExceeded, DecantError, FormatError, UnsafeInput
from napari_decant.ngff._load import Description, NgffLimits, describe, multiscales_of
from napari_decant.ngff._node import Node, read_nodes
from napari_decant.stores import (
    FileMetadataReader,
    MetadataBudget,
    Store,
    find_roots,
    join_key,
    unsafe_name_reason,
)

__all__ = ["ImageEntry", "ListLimits", "list_entries"]

_IMAGE_NAME = re.compile(rb"<(?:\w+:)?Image\b[^<>]*?\sName=(?:\"([^\"<]*)\"|'([^'<]*)')")
_IMAGE = re.compile(rb"<(?:\w+:)?Image\b[^<>]*>")
_MAX_DEPTH = 8


@dataclass(frozen=True, slots=True)
class ImageEntry:
    """One image of a store; pass ``path`` and ``multiscale_index`` to `NgffImage`.

    Attributes
    ----------
    name : str
        For people.
    path : str
        Within the store.
    kind : str
        ``"image"``, ``"labels"``, or ``"array"`` for an array without OME metadata.
    shape, dtype, axes : tuple of int, str, str
        Of level 0, with the names of its axes joined; ``()`` and ``""`` where ``error`` is set or they
        were not read.
    levels : int
        How many.
    multiscale_index : int
        Which of several multiscales of the same group.
    error : str or None
        Why it cannot be opened.
    """

    name: str
    path: str
    kind: str = "image"
    shape: tuple[int, ...] = ()
    dtype: str = ""
    axes: str = ""
    levels: int = 0
    multiscale_index: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ListLimits:
    """How far listing goes.

    Attributes
    ----------
    max_images : int
        Images listed; more raise `BudgetExceeded`.
    max_described : int
        Images whose arrays are read for shape and dtype; later ones have a name and a path only.
    max_groups : int
        Groups looked through where nothing says what they hold.
    max_metadata_bytes : int
        Sum of the sizes of all JSON documents that are read.
    """

    max_images: int = 100_000
    max_described: int = 1_000
    max_groups: int = 10_000
    max_metadata_bytes: int = 256 << 20


def list_entries(
    store: Store, path: str, reader: FileMetadataReader, limits: ListLimits | None = None
) -> list[ImageEntry]:
    """List the images at and below ``path``; see `list_images`."""
    lister = _Lister(store, reader, limits or ListLimits())
    roots = [path] if path else find_roots(store) or [""]
    for root in roots:
        lister.visit_root(root)
    return lister.found


class _Lister:
    def __init__(self, store: Store, reader: FileMetadataReader, limits: ListLimits) -> None:
        self.store, self.reader, self.limits = store, reader, limits
        self.budget = MetadataBudget(limits.max_metadata_bytes)
        self.found: list[ImageEntry] = []
        self.depth = 0

    def nodes(self, paths: Iterable[str], zarr_format: int | None = None) -> dict[str, Node]:
        return read_nodes(self.store, paths, self.reader, self.budget, zarr_format)

    def visit_root(self, path: str) -> None:
        node = self.nodes([path]).get(path)
        if node is None or not self.visit(node, "", ""):
            self.walk(path)

    def visit(self, node: Node, name: str, kind: str) -> bool:
        """List what one node is known to hold; False if it says nothing of it."""
        if self.depth > _MAX_DEPTH:
            raise UnsafeInput(
                f"{self.store.uri} nests images deeper than {_MAX_DEPTH} groups; they are not listed"
            )
        self.depth += 1
        try:
            return self.dispatch(node, name, kind)
        finally:
            self.depth -= 1

    def dispatch(self, node: Node, name: str, kind: str) -> bool:
        ome = node.ome
        if node.array is not None:
            self.describe(node, name, kind or "array")
        elif multiscales_of(node):
            for i in range(len(multiscales_of(node))):
                self.describe(node, name, kind, i)
        elif isinstance(ome.get("plate"), dict):
            self.visit_plate(node, ome["plate"])
        elif isinstance(ome.get("well"), dict):
            self.visit_children(node, _paths(ome["well"].get("images")), name)
        elif "bioformats2raw.layout" in ome or "bioformats2raw.layout" in node.attributes:
            self.visit_series(node)
        elif isinstance(ome.get("labels"), list) and node.path.rpartition("/")[2] == "labels":
            self.visit_children(node, _safe(ome["labels"]), name, "labels")
        else:
            return False
        return True

    def add(self, entry: ImageEntry) -> None:
        if len(self.found) >= self.limits.max_images:
            raise BudgetExceeded(
                "max_images", len(self.found) + 1, self.limits.max_images, f"listing {self.store.uri}"
            )
        self.found.append(entry)

    def describe(self, node: Node, name: str, kind: str, index: int = 0) -> None:
        if len(self.found) >= self.limits.max_described:
            self.add(ImageEntry(name or node.path, node.path, kind or "image", multiscale_index=index))
            return
        limits = NgffLimits(max_levels=1_000, max_metadata_bytes=self.limits.max_metadata_bytes)
        try:
            found = describe(self.store, node, self.reader, self.budget, limits, index)
        except BudgetExceeded:
            raise
        except DecantError as error:
            shown = name or node.path or "image"
            self.add(ImageEntry(shown, node.path, kind or "image", multiscale_index=index, error=str(error)))
            return
        shown = name or found.name or node.path or "image"
        if name and found.name and not name.endswith(found.name):
            shown = f"{name} - {found.name}"
        if found.multiscales > 1 and not found.name:
            shown = f"{shown} ({index})"
        self.add(_entry(found, shown, kind or ("labels" if found.label else "image"), index))
        if index == 0 and kind != "labels" and found.labels:
            where = {join_key(node.path, "labels", label): label for label in found.labels}
            for path, child in self.nodes(where, node.zarr_format).items():
                self.visit(child, f"{name}/{where[path]}" if name else where[path], "labels")

    def visit_children(self, node: Node, paths: list[str], name: str, kind: str = "") -> None:
        where = [join_key(node.path, path) for path in paths]
        nodes = self.nodes(where, node.zarr_format)
        for path, full in zip(paths, where, strict=True):
            shown = f"{name}/{path}" if name else path
            if full in nodes:
                self.visit(nodes[full], shown, kind)
            else:
                self.add(
                    ImageEntry(shown, full, kind or "image", error=f"there is no Zarr group at {full!r}")
                )

    def visit_plate(self, node: Node, plate: dict[str, Any]) -> None:
        paths = _paths(plate.get("wells"))
        wells = self.nodes((join_key(node.path, path) for path in paths), node.zarr_format)
        for path in paths:
            well = wells.get(join_key(node.path, path))
            if well is None:
                error = f"the plate lists the well {path!r}, which is not there"
                self.add(ImageEntry(path, join_key(node.path, path), error=error))
            elif not self.visit(well, path, ""):
                before = len(self.found)
                self.walk(well.path, path)  # a well without its own list may still hold its fields
                if len(self.found) == before:
                    self.add(ImageEntry(path, well.path, error=f"{well.where} describes no well"))

    def visit_series(self, node: Node) -> None:
        """bioformats2raw.layout 3: a plate, the listed series, or groups numbered from 0."""
        ome_group = self.nodes([join_key(node.path, "OME")], node.zarr_format).get(join_key(node.path, "OME"))
        listed = ome_group.ome.get("series") if ome_group is not None else None
        paths = _safe(listed)
        if not paths:
            paths = []
            while self.nodes([join_key(node.path, str(len(paths)))], node.zarr_format):
                paths.append(str(len(paths)))
                if len(paths) > self.limits.max_groups:
                    break
        titles = self.series_names(join_key(node.path, "OME", "METADATA.ome.xml"))
        nodes = self.nodes((join_key(node.path, path) for path in paths), node.zarr_format)
        for i, path in enumerate(paths):
            title = titles[i] if len(titles) == len(paths) and titles[i] else ""
            child = nodes.get(join_key(node.path, path))
            shown = f"{path} - {title}" if title else path
            if child is None:
                full = join_key(node.path, path)
                self.add(ImageEntry(shown, full, error=f"the series {path!r} is listed, but not there"))
            elif not self.visit(child, shown, ""):
                self.add(ImageEntry(shown, child.path, error=f"{child.where} describes no image"))

    def series_names(self, key: str) -> list[str]:
        """Names of the images in OME-XML, for display only; no XML parser sees the untrusted text."""
        raw = self.reader.read(self.store, key, self.budget)
        if raw is None or b"<!DOCTYPE" in raw or b"<!ENTITY" in raw:
            return []
        names = []
        for match in _IMAGE.finditer(raw):
            named = _IMAGE_NAME.match(match.group())
            text = (named.group(1) or named.group(2) or b"") if named else b""
            names.append(unescape(text.decode("utf-8", "replace"))[:200])
        return names

    def walk(self, path: str, name: str = "") -> None:
        """Look through groups that say nothing of their contents; images end the way down."""
        if not self.store.listable:
            return
        level, seen = [path], 0
        while level:
            below = []
            for group in level:
                seen += 1
                if seen > self.limits.max_groups:
                    raise BudgetExceeded(
                        "max_groups", seen, self.limits.max_groups, f"listing {self.store.uri}"
                    )
                names = [n for n in self.store.list_dir(group)[0] if not n.startswith((".", "__MACOSX"))]
                where = [join_key(group, n) for n in names]
                for child, node in self.quiet_nodes(where).items():
                    shown = join_key(name, child.removeprefix(f"{path}/") if path else child)
                    if node is None or not self.visit(node, shown, ""):
                        below.append(child)
            level = below

    def quiet_nodes(self, paths: list[str]) -> dict[str, Node | None]:
        """Read many nodes at once; a broken one is listed with its reason and does not hide the others."""
        try:
            nodes = self.nodes(paths)
            return {path: nodes.get(path) for path in paths}
        except BudgetExceeded:
            raise
        except FormatError as error:
            if len(paths) > 1:
                return {path: node for one in paths for path, node in self.quiet_nodes([one]).items()}
            self.add(ImageEntry(paths[0], paths[0], error=str(error)))
            return {}


def _entry(found: Description, name: str, kind: str, index: int) -> ImageEntry:
    level = found.levels[0]
    axes = [axis.name for axis in found.axes]
    joined = "".join(axes) if all(len(n) == 1 for n in axes) else ",".join(axes)
    return ImageEntry(name, found.path, kind, level.shape, level.dtype.name, joined, len(found.levels), index)


def _paths(value: Any) -> list[str]:
    """Paths of the objects in a list of wells or fields."""
    return _safe(
        [item.get("path") for item in value if isinstance(item, dict)] if isinstance(value, list) else None
    )


def _safe(value: Any) -> list[str]:
    names = [name for name in value if isinstance(name, str)] if isinstance(value, list) else []
    for name in names:
        reason = unsafe_name_reason(name)
        if reason is not None:
            raise UnsafeInput(
                f"the metadata name the path {name[:200]!r}, which {reason}; it is not followed"
            )
    return list(dict.fromkeys(names))
