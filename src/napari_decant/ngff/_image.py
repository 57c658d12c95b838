"""`NgffImage`: the immutable description of one multiscale image."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, TypeVar
from urllib.parse import unquote

from napari_decant.errors import ChoiceNeeded, FormatError, UnsafeInput, UnsupportedOperation
from napari_decant.ngff._axes import Axis
from napari_decant.ngff._level import NgffLevel
from napari_decant.ngff._listing import ImageEntry, ListLimits, list_entries
from napari_decant.ngff._load import Description, NgffLimits, describe, multiscales_of
from napari_decant.ngff._node import Node, read_nodes
from napari_decant.ngff._omero import Channel, LabelInfo
from napari_decant.stores import (
    FileMetadataReader,
    MetadataBudget,
    Store,
    find_roots,
    open_store,
    unsafe_name_reason,
)

__all__ = ["NgffImage", "Query", "image_name", "list_images"]

Result = TypeVar("Result", covariant=True)
_SUFFIX = re.compile(r"(?:\.ome)?(?:\.zarr)?(?:\.zip|\.ozx)?$", re.IGNORECASE)


class Query(Protocol[Result]):
    """What `NgffImage.resolve` takes: a spatial or index query."""

    def resolve(self, image: NgffImage, shape: tuple[int, ...]) -> Result:
        """Resolve against an image for an output of ``shape``."""


def image_name(location: str) -> str:
    """Name of a location for people: its last component without ``.ome.zarr.zip`` and the like."""
    last = location.replace("\\", "/").rstrip("/").rpartition("/")[2]
    if "://" in location:
        last = unquote(last)
    return _SUFFIX.sub("", last) or last or "image"


@dataclass(frozen=True, init=False, repr=False, eq=False)
class NgffImage:
    """One multiscale image: axes, levels, channels. It holds no handle, pickles, and never changes.

    OME-Zarr 0.5 (Zarr v3) and 0.4 (Zarr v2) follow the section "NGFF interpretation" of the spatial
    queries; earlier versions and plain Zarr arrays open for viewing. What does not follow the
    specification is tolerated, noted in ``warnings``, and refused by spatial queries only (``strict_error``).

    Parameters
    ----------
    location : str, path or Store
        A folder, zip file or address, see `open_store`; a store that is given stays open.
    reader : FileMetadataReader, optional
        Reads the documents; one reader may serve any number of images.
    multiscale_index : int, optional
        Which entry of ``multiscales``.
    path : str, optional
        Path of the image within the store, see `list_images`. Without it the store's one image is opened.
    limits : NgffLimits, optional
        Caps on levels and on bytes of metadata.

    Attributes
    ----------
    uri : str
        Reopens the store.
    path : str
        Of the image within the store.
    name : str
        For people.
    zarr_format : int
        2 or 3.
    version : str or None
        OME-Zarr version as declared.
    axes : tuple of Axis
        One per dimension.
    levels : tuple of NgffLevel
        In declared order; level 0 is the reference.
    channels : tuple of Channel
        As declared under ``omero``; may be shorter or longer than the channel axis.
    label : LabelInfo or None
        Set if the image holds labels.
    labels : tuple of str
        Names of the label images that belong to it, at ``PATH/labels/NAME``.
    decant : dict
        The ``decant`` attribute of our archives; empty otherwise.
    default_t, default_z : int or None
        Where a viewer starts.
    warnings : tuple of str
        What was tolerated.
    strict_error : str or None
        Why spatial queries refuse the image.

    Raises
    ------
    ChoiceNeeded
        The store holds several images and ``path`` names none.
    FormatError
        There is no image, or its metadata are damaged.
    UnsafeInput
        A path leaves the store, or a document is made to exhaust memory.
    UnsupportedOperation
        Its data type or codec is not read.
    BudgetExceeded
        More levels or metadata than ``limits`` allow.
    StorageError
        The location cannot be read.
    """

    uri: str
    path: str
    name: str
    multiscale_index: int
    zarr_format: int
    version: str | None
    axes: tuple[Axis, ...]
    levels: tuple[NgffLevel, ...]
    channels: tuple[Channel, ...] = ()
    label: LabelInfo | None = None
    labels: tuple[str, ...] = ()
    decant: dict[str, Any] = field(default_factory=dict)
    default_t: int | None = None
    default_z: int | None = None
    warnings: tuple[str, ...] = ()
    strict_error: str | None = None

    def __init__(
        self,
        location: str | os.PathLike[str] | Store,
        *,
        reader: FileMetadataReader | None = None,
        multiscale_index: int = 0,
        path: str = "",
        limits: NgffLimits | None = None,
    ) -> None:
        reader, limits = reader or FileMetadataReader(), limits or NgffLimits()
        store = open_store(location)
        try:
            found, extra = _find(store, path.rstrip("/"), reader, limits, multiscale_index)
        finally:
            if store is not location:
                store.close()
        values: dict[str, Any] = {
            f.name: getattr(found, f.name) for f in fields(self) if hasattr(found, f.name)
        }
        values |= {"uri": store.uri, "multiscale_index": multiscale_index}
        values["name"] = found.name or image_name(found.path or store.uri)
        values["warnings"] = extra + found.warnings
        for key, value in values.items():
            object.__setattr__(self, key, value)

    def __repr__(self) -> str:
        where = f"{self.uri}/{self.path}" if self.path else self.uri
        axes = "".join(axis.name for axis in self.axes)
        return (
            f"<NgffImage {where}: {axes} {self.levels[0].shape} {self.levels[0].dtype},"
            f" {len(self.levels)} levels>"
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Voxels of level 0 along each axis."""
        return self.levels[0].shape

    @property
    def is_label(self) -> bool:
        """Whether values are labels: resampled by nearest only, shown in label colours."""
        return self.label is not None

    def require_strict(self) -> None:
        """Raise `UnsupportedOperation` if the image does not follow the rules of spatial queries."""
        if self.strict_error is not None:
            raise UnsupportedOperation(f"a spatial query cannot use this image: {self.strict_error}")

    def resolve(self, query: Query[Result], *, shape: tuple[int, ...]) -> Result:
        """Resolve a query for an output of ``shape``; no I/O, from any thread.

        Parameters
        ----------
        query : SpatialQuery or IndexQuery
            What is wanted.
        shape : tuple of int
            Shape of the output, one extent per axis.
        """
        return query.resolve(self, tuple(shape))


def _find(
    store: Store, path: str, reader: FileMetadataReader, limits: NgffLimits, multiscale_index: int
) -> tuple[Description, tuple[str, ...]]:
    """Describe the image at ``path``, or the one image below it."""
    if path and (reason := unsafe_name_reason(path)) is not None:
        raise UnsafeInput(f"the image path {path[:200]!r} {reason}; it is not opened")
    budget = MetadataBudget(limits.max_metadata_bytes)
    node = read_nodes(store, [path], reader, budget).get(path)
    extra: tuple[str, ...] = ()
    if node is None and not path:
        roots = find_roots(store)
        if len(roots) == 1 and roots[0]:
            extra = (f"the image lies in the folder {roots[0]!r} of {store.uri}, not at its root",)
            node = read_nodes(store, roots, reader, budget).get(roots[0])
    if node is None or not _is_image(node):
        node, more = _only_image(store, node.path if node is not None else path, reader, budget)
        extra += more
    return describe(store, node, reader, budget, limits, multiscale_index), extra


def _is_image(node: Node) -> bool:
    return node.array is not None or bool(multiscales_of(node))


def _only_image(
    store: Store, path: str, reader: FileMetadataReader, budget: MetadataBudget
) -> tuple[Node, tuple[str, ...]]:
    entries = list_entries(store, path, reader, ListLimits(max_metadata_bytes=max(1, budget.limit * 16)))
    opens = {entry.path: entry for entry in entries if entry.error is None}
    # An image's own labels come with it and are no second candidate.
    groups = {
        p: entry
        for p, entry in opens.items()
        if p.partition("/labels/")[0] not in opens or "/labels/" not in p
    }
    where = f"{store.uri}/{path}" if path else store.uri
    if not groups:
        wrong = next((entry.error for entry in entries if entry.error), None)
        raise FormatError(f"{where} holds no image" + (f" that opens: {wrong}" if wrong else ""))
    if len(groups) > 1:
        names = ", ".join(repr(entry.path) for entry in list(groups.values())[:5])
        raise ChoiceNeeded(
            f"{where} holds {len(groups):,} images ({names}{', ...' if len(groups) > 5 else ''}); name"
            " one of them",
            tuple(entries),
        )
    node = read_nodes(store, list(groups), reader, budget)[next(iter(groups))]
    return node, (f"the one image of {where} lies at {node.path!r}",)


def list_images(
    location: str | os.PathLike[str] | Store,
    path: str = "",
    *,
    reader: FileMetadataReader | None = None,
    limits: ListLimits | None = None,
) -> list[ImageEntry]:
    """List every image of a store without reading a pixel.

    Single images with their labels, bioformats2raw series, plates with wells and fields, and, where
    nothing is declared, whatever images and arrays the groups hold.

    Parameters
    ----------
    location : str, path or Store
        See `open_store`; a store that is given stays open.
    path : str, optional
        List below this group only.
    reader : FileMetadataReader, optional
        Reads the documents.
    limits : ListLimits, optional
        How far to go.

    Returns
    -------
    list of ImageEntry
        In declared order. What cannot be opened is listed with its reason.

    Raises
    ------
    BudgetExceeded
        There is more than ``limits`` allow.
    FormatError, UnsafeInput, StorageError
        The store itself cannot be read, or its metadata point out of it.
    """
    path = path.rstrip("/")
    if path and (reason := unsafe_name_reason(path)) is not None:
        raise UnsafeInput(f"the path {path[:200]!r} {reason}; it is not listed")
    store = open_store(location)
    try:
        return list_entries(store, path, reader or FileMetadataReader(), limits)
    finally:
        if store is not location:
            store.close()
