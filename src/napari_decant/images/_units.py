"""Names of units: what people write for them, and the one name that OME-NGFF has."""

from __future__ import annotations

import re

__all__ = ["in_micrometers", "in_seconds", "unit_name"]

_PREFIXES = {
    "yotta": 24, "zetta": 21, "exa": 18, "peta": 15, "tera": 12, "giga": 9, "mega": 6, "kilo": 3,
    "hecto": 2, "deca": 1, "": 0, "deci": -1, "centi": -2, "milli": -3, "micro": -6, "nano": -9,
    "pico": -12, "femto": -15, "atto": -18, "zepto": -21, "yocto": -24,
}  # fmt: skip
_METERS = {f"{prefix}meter": 10.0**power for prefix, power in _PREFIXES.items()} | {
    "angstrom": 1e-10, "inch": 0.0254, "foot": 0.3048, "yard": 0.9144, "mile": 1609.344,
    "parsec": 3.0856775814913673e16,
}  # fmt: skip
_SECONDS = {f"{prefix}second": 10.0**power for prefix, power in _PREFIXES.items()} | {
    "minute": 60.0,
    "hour": 3600.0,
    "day": 86400.0,
}
_SHORT = {
    "m": "meter", "dm": "decimeter", "cm": "centimeter", "mm": "millimeter", "um": "micrometer",
    "nm": "nanometer", "pm": "picometer", "km": "kilometer", "a": "angstrom", "å": "angstrom",
    "micron": "micrometer", "micro": "micrometer", "in": "inch", '"': "inch", "inches": "inch",
    "ft": "foot", "feet": "foot", "s": "second", "sec": "second", "secs": "second",
    "ms": "millisecond", "msec": "millisecond", "us": "microsecond", "usec": "microsecond",
    "ns": "nanosecond", "min": "minute", "mins": "minute", "h": "hour", "hr": "hour", "hrs": "hour",
    "d": "day",
}  # fmt: skip
_ESCAPE = re.compile(r"\\u([0-9A-Fa-f]{4})")


def unit_name(text: str | None) -> str | None:
    """Return the OME-NGFF name of a length or time unit; None if it is none (``pixel``, unknown words).

    Knows the spellings of microscopy files: ``um``, ``micron(s)``, both micro signs, also written as a
    backslash escape or read with the wrong encoding.
    """
    if not text:
        return None
    plain = _ESCAPE.sub(lambda m: chr(int(m.group(1), 16)), text.strip())
    # U+00C2 before the micro sign: UTF-8 read as Latin-1.
    plain = (
        plain.replace("\u00c2\u00b5", "u")
        .replace("\u00b5", "u")
        .replace("\u03bc", "u")
        .replace("\ufffdm", "um")
    )
    lower = plain.lower()
    for name in (lower, lower.removesuffix("s"), lower.replace("metre", "meter").removesuffix("s")):
        if name in _SHORT:
            return _SHORT[name]
        if name in _METERS or name in _SECONDS:
            return name
    return None


def in_micrometers(value: float, unit: str) -> float | None:
    """Convert a length in a named unit; None if the unit is no length."""
    meters = _METERS.get(unit)
    if meters is None:
        return None
    return value if unit == "micrometer" else value * (meters / 1e-6)


def in_seconds(value: float, unit: str) -> float | None:
    """Convert a duration in a named unit; None if the unit is no duration."""
    seconds = _SECONDS.get(unit)
    return None if seconds is None else value * seconds
