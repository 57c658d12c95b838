"""What was tolerated while loading, and what a strict query will refuse."""

from __future__ import annotations

import math
from typing import Any

from napari_decant.ngff._zarr_json import JsonObject

__all__ = ["Findings", "finite", "number", "objects"]

_MAX_FINDINGS = 100


class Findings:
    """Collects sentences while one image loads.

    Attributes
    ----------
    warnings : list of str
        What is odd but was read all the same.
    strict : str or None
        The first reason why the strict rules of spatial queries do not hold.
    """

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.strict: str | None = None

    def warn(self, text: str) -> None:
        """Note what the user should see."""
        if text not in self.warnings and len(self.warnings) < _MAX_FINDINGS:
            self.warnings.append(text)

    def refuse(self, text: str) -> None:
        """Note what only a strict query minds."""
        if self.strict is None:
            self.strict = text

    def tolerate(self, text: str) -> None:
        """Note what both should know."""
        self.warn(text)
        self.refuse(text)

    def get(self, obj: dict[str, Any], key: str, where: str) -> Any:
        """Return a field or None; one written twice is noted, and its last value counts."""
        if isinstance(obj, JsonObject) and key in obj.repeated:
            self.tolerate(f"{where} has the field {key!r} more than once; the last one counts")
        return obj.get(key)


def number(value: object) -> float | None:
    """Return the value as a float if it is a JSON number (also NaN and infinite ones)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def finite(value: object) -> float | None:
    """As `number`, with None for what is not finite."""
    result = number(value)
    return result if result is not None and math.isfinite(result) else None


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a list in metadata; what is no list, or no object in it, is left out."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
