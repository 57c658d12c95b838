"""From documents to the description of one image."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from napari_decant.errors import BudgetExceeded, FormatError, UsageError
from napari_decant.ngff._axes import Axis, check_strict_axes, fit_axes, parse_axes
from napari_decant.ngff._findings import Findings
from napari_decant.ngff._level import (
    NgffLevel,
    build_levels,
    check_level_path,
    check_strict_levels,
    level_metas,
)
from napari_decant.ngff._node import Node, read_nodes
from napari_decant.ngff._omero import Channel, LabelInfo, labels_place, parse_channels, parse_label
from napari_decant.stores import FileMetadataReader, MetadataBudget, Store, join_key, unsafe_name_reason

__all__ = ["Description", "NgffLimits", "describe", "multiscales_of"]

_STRICT_VERSIONS = {("0.4", 2), ("0.5", 3)}
_MAX_LABELS = 10_000


@dataclass(frozen=True, slots=True)
class NgffLimits:
    """What the metadata of one image may ask for.

    Attributes
    ----------
    max_levels : int
        Level records.
    max_metadata_bytes : int
        Sum of the sizes of all JSON documents that are read.
    """

    max_levels: int = 16
    max_metadata_bytes: int = 4 << 20

    def __post_init__(self) -> None:
        for name in ("max_levels", "max_metadata_bytes"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}; it must be at least 1")


@dataclass(slots=True)
class Description:
    """Everything that is known of one image; see `NgffImage` for the fields."""

    path: str
    zarr_format: int
    version: str | None
    name: str | None
    axes: tuple[Axis, ...]
    levels: tuple[NgffLevel, ...]
    channels: tuple[Channel, ...] = ()
    label: LabelInfo | None = None
    labels: tuple[str, ...] = ()
    decant: dict[str, Any] = field(default_factory=dict)
    multiscales: int = 0
    default_t: int | None = None
    default_z: int | None = None
    warnings: tuple[str, ...] = ()
    strict_error: str | None = None


def multiscales_of(node: Node) -> list[Any]:
    """Return the multiscales entries of a group, empty if it is no image."""
    value = node.ome.get("multiscales")
    return value if isinstance(value, list) else []


def describe(
    store: Store,
    node: Node,
    reader: FileMetadataReader,
    budget: MetadataBudget,
    limits: NgffLimits,
    multiscale_index: int = 0,
    with_labels: bool = True,
) -> Description:
    """Read one image, or one plain array, whose own document was read already.

    Raises
    ------
    BudgetExceeded
        Too many levels or too much metadata.
    FormatError, UnsafeInput, UnsupportedOperation
        Level 0 cannot be read, or a path leaves the image.
    UsageError
        There is no such multiscales entry.
    """
    findings = Findings()
    for text in store.warnings:
        findings.warn(text)
    if node.not_finite:
        findings.warn(f"{node.where} has NaN or Infinity, which JSON has not; it was read all the same")
    if node.array is not None:
        return _describe_array(node, findings)
    entries = multiscales_of(node)
    if not 0 <= multiscale_index < max(1, len(entries)):
        raise UsageError(
            f"{node.where} has {len(entries)} multiscales; number {multiscale_index} is none of them"
        )
    if not entries or not isinstance(entries[multiscale_index], dict):
        raise FormatError(f"{node.where} has no multiscales: it describes no image")
    entry: dict[str, Any] = entries[multiscale_index]
    where = node.where
    if len(entries) > 1:
        findings.warn(f"{where} has {len(entries)} multiscales; number {multiscale_index} is opened")
    datasets = _datasets(entry, where, limits, findings)
    paths = [check_level_path(item.get("path"), where, findings) for item in datasets]
    label_group = join_key(node.path, "labels")
    nodes = read_nodes(
        store,
        [join_key(node.path, path) for path in paths],
        reader,
        budget,
        node.zarr_format,
        perhaps=[label_group] if with_labels else (),
    )
    metas = level_metas(node.path, paths, nodes, findings)
    version = _version(node, entry, findings)
    axes = parse_axes(_axes_value(entry, where, findings), where, findings)
    axes = fit_axes(axes, metas[0][2].shape, metas[0][2].dimension_names, where, findings)
    shared = findings.get(entry, "coordinateTransformations", where)
    levels = build_levels(node.path, metas, datasets, shared, where, findings)
    check_strict_axes(axes, where, findings)
    check_strict_levels(levels, axes, where, findings)
    omero = node.ome.get("omero")
    label = parse_label(node.ome["image-label"], where, findings) if "image-label" in node.ome else None
    if label is None and labels_place(node.path) is not None and levels[0].dtype.kind in "iu":
        label = LabelInfo()
    decant = node.attributes.get("decant")
    return Description(
        path=node.path,
        zarr_format=node.zarr_format,
        version=version,
        name=_name(entry.get("name")),
        axes=axes,
        levels=levels,
        channels=parse_channels(omero, where, findings),
        label=label,
        labels=_label_names(nodes.get(label_group), findings),
        decant=decant if isinstance(decant, dict) else {},
        multiscales=len(entries),
        default_t=_default(omero, "defaultT"),
        default_z=_default(omero, "defaultZ"),
        warnings=tuple(findings.warnings),
        strict_error=findings.strict,
    )


def _name(value: Any) -> str | None:
    """A declared name for people; some writers put the group's path there."""
    text = value.strip().strip("/") if isinstance(value, str) else ""
    return text[:1000] or None


def _describe_array(node: Node, findings: Findings) -> Description:
    findings.refuse(
        f"{node.where} is a plain array without OME metadata, so nothing says where it lies in space"
    )
    group, _, name = node.path.rpartition("/")
    metas = level_metas(group, [name], {node.path: node}, findings)
    axes = fit_axes(None, metas[0][2].shape, metas[0][2].dimension_names, node.where, findings)
    levels = build_levels(group, metas, [], None, node.where, findings)
    return Description(
        path=node.path,
        zarr_format=node.zarr_format,
        version=None,
        name=name or None,
        axes=axes,
        levels=levels,
        warnings=tuple(findings.warnings),
        strict_error=findings.strict,
    )


def _datasets(
    entry: dict[str, Any], where: str, limits: NgffLimits, findings: Findings
) -> list[dict[str, Any]]:
    datasets = findings.get(entry, "datasets", where)
    if not isinstance(datasets, list) or not datasets:
        raise FormatError(f"the multiscales of {where} list no datasets")
    if len(datasets) > limits.max_levels:
        raise BudgetExceeded("max_levels", len(datasets), limits.max_levels, f"the image of {where}")
    if not all(isinstance(item, dict) for item in datasets):
        raise FormatError(f"a dataset of {where} is no object")
    for item in datasets:
        for key in ("path", "coordinateTransformations"):
            findings.get(item, key, where)
    return datasets


def _axes_value(entry: dict[str, Any], where: str, findings: Findings) -> Any:
    axes = findings.get(entry, "axes", where)
    systems = entry.get("coordinateSystems")
    if axes is None and isinstance(systems, list) and systems and isinstance(systems[0], dict):
        findings.tolerate(
            f"{where} has coordinate systems, which came after OME-Zarr 0.5; only its axes are used"
        )
        return systems[0].get("axes")
    if axes is None:
        findings.refuse(f"{where} declares no axes")
    return axes


def _version(node: Node, entry: dict[str, Any], findings: Findings) -> str | None:
    version = node.ome.get("version", entry.get("version"))
    text = str(version)[:40] if isinstance(version, str | int | float) else None
    if (text, node.zarr_format) not in _STRICT_VERSIONS:
        findings.refuse(
            f"{node.where} is OME-Zarr {text or 'of no stated version'} on Zarr v{node.zarr_format};"
            " spatial queries need 0.4 on Zarr v2 or 0.5 on Zarr v3"
        )
    return text


def _default(omero: Any, key: str) -> int | None:
    rdefs = omero.get("rdefs") if isinstance(omero, dict) else None
    value = rdefs.get(key) if isinstance(rdefs, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _label_names(node: Node | None, findings: Findings) -> tuple[str, ...]:
    listed = node.ome.get("labels") if node is not None else None
    if not isinstance(listed, list) or node is None:
        return ()
    names = []
    for name in listed[:_MAX_LABELS]:
        if isinstance(name, str) and unsafe_name_reason(name) is None:
            names.append(name)
        else:
            findings.warn(
                f"{node.where} lists the label {str(name)[:80]!r}, which is no path below it; it is left out"
            )
    return tuple(names)
