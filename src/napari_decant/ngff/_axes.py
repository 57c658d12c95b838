"""Axes of an image: names, types, units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from napari_decant.ngff._findings import Findings

__all__ = ["Axis", "check_strict_axes", "fit_axes", "parse_axes"]

_TYPES = {"t": "time", "c": "channel", "z": "space", "y": "space", "x": "space"}
_KNOWN = ("space", "time", "channel")


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of an image.

    Attributes
    ----------
    name : str
        As declared, unique within the image.
    type : str
        ``"space"``, ``"time"``, ``"channel"``, or anything else for a custom axis.
    unit : str or None
        As declared.
    """

    name: str
    type: str
    unit: str | None = None

    @property
    def is_space(self) -> bool:
        """Whether the axis is spatial."""
        return self.type == "space"


def parse_axes(value: Any, where: str, findings: Findings) -> tuple[Axis, ...] | None:
    """Read ``axes`` of 0.4 and 0.5 (objects) or 0.3 (names); None where there are none.

    What does not follow the specification is tolerated and noted.
    """
    if not isinstance(value, list) or not value:
        return None
    axes: list[Axis] = []
    for i, item in enumerate(value[:64]):
        entry = {"name": item} if isinstance(item, str) else item
        if not isinstance(entry, dict) or not isinstance(findings.get(entry, "name", where), str):
            findings.tolerate(f"axis {i} of {where} has no name")
            entry = {"name": f"dim_{i}"}
        name, kind, unit = (
            entry["name"],
            findings.get(entry, "type", where),
            findings.get(entry, "unit", where),
        )
        if any(axis.name == name for axis in axes):
            findings.tolerate(f"{where} has two axes named {name!r}")
            name = f"{name}_{i}"
        if not isinstance(kind, str):
            kind = _TYPES.get(name.lower(), "custom")
            findings.refuse(f"axis {name!r} of {where} has no type")
        elif kind not in _KNOWN:
            findings.tolerate(f"axis {name!r} of {where} has the custom type {kind!r}")
        if unit is not None and not isinstance(unit, str):
            findings.tolerate(f"the unit of axis {name!r} of {where} is no text and is ignored")
            unit = None
        axes.append(Axis(name, kind, unit or None))
    return tuple(axes)


def fit_axes(
    axes: tuple[Axis, ...] | None,
    shape: Sequence[int],
    names: Sequence[str | None] | None,
    where: str,
    findings: Findings,
) -> tuple[Axis, ...]:
    """Give every dimension of level 0 an axis.

    Before 0.3 the order t, c, z, y, x is implied; a trailing dimension of 3 or 4 beyond the declared axes
    is a colour channel; an array without OME metadata takes its ``dimension_names``.
    """
    rank = len(shape)
    if axes is not None and len(axes) == rank:
        return axes
    if axes is None:
        if names is not None and all(names) and len(set(names)) == rank:
            return tuple(Axis(n, _TYPES.get(n.lower(), "custom")) for n in names if n)
        if rank <= 5:
            return tuple(Axis(n, _TYPES[n]) for n in "tczyx"[5 - rank :])
        leading = tuple(Axis(f"dim_{i}", "custom") for i in range(rank - 2))
        return (*leading, Axis("y", "space"), Axis("x", "space"))
    findings.tolerate(f"{where} declares {len(axes)} axes for an array of {rank}")
    if len(axes) > rank:
        return axes[len(axes) - rank :]
    used = {axis.name for axis in axes}
    if rank == len(axes) + 1 and shape[-1] in (3, 4) and not any(axis.type == "channel" for axis in axes):
        return (*axes, Axis("c" if "c" not in used else "rgb", "channel"))
    extra = tuple(Axis(f"dim_{i}", "custom") for i in range(rank - len(axes)))
    return extra + axes


def check_strict_axes(axes: Sequence[Axis], where: str, findings: Findings) -> None:
    """Note what a spatial query refuses (spatial queries, "NGFF interpretation")."""
    spatial = sum(axis.is_space for axis in axes)
    if spatial not in (2, 3):
        findings.refuse(f"{where} has {spatial} spatial axes; spatial queries need two or three")
    for kind in ("time", "channel"):
        if sum(axis.type == kind for axis in axes) > 1:
            findings.refuse(f"{where} has more than one {kind} axis")
