"""Units of length and time: what people write for them, the names that OME-NGFF has, and how long they are.

One unit for each kind keeps x, y and z comparable, and both names are valid in OME-NGFF. A unit that is not
known gives None: a number without a unit is better than a wrong one.
"""

from __future__ import annotations

import re
import unicodedata
from contextlib import suppress
from fractions import Fraction
from math import isfinite

__all__ = ["LENGTH_UNIT", "TIME_UNIT", "in_micrometers", "in_seconds", "micrometers", "seconds", "unit_name"]

LENGTH_UNIT = "micrometer"
TIME_UNIT = "second"

_PREFIXES = {
    "yotta": 24, "zetta": 21, "exa": 18, "peta": 15, "tera": 12, "giga": 9, "mega": 6, "kilo": 3,
    "hecto": 2, "deca": 1, "": 0, "deci": -1, "centi": -2, "milli": -3, "micro": -6, "nano": -9,
    "pico": -12, "femto": -15, "atto": -18, "zepto": -21, "yocto": -24,
}  # fmt: skip
_LENGTHS = {f"{prefix}meter": Fraction(10) ** (power + 6) for prefix, power in _PREFIXES.items()} | {
    "angstrom": Fraction(1, 10_000), "inch": Fraction(25_400), "foot": Fraction(304_800),
    "yard": Fraction(914_400), "mile": Fraction(1_609_344_000), "parsec": Fraction(30856775814913673) * 10**6,
}  # fmt: skip
"""Micrometers in each length that OME-NGFF names."""
_TIMES = {f"{prefix}second": Fraction(10) ** power for prefix, power in _PREFIXES.items()} | {
    "minute": Fraction(60),
    "hour": Fraction(3600),
    "day": Fraction(86_400),
}
"""Seconds in each duration that OME-NGFF names."""
_SHORT = {
    "m": "meter", "dm": "decimeter", "cm": "centimeter", "mm": "millimeter", "um": "micrometer",
    "nm": "nanometer", "pm": "picometer", "km": "kilometer", "a": "angstrom", "å": "angstrom",
    "ångström": "angstrom", "micron": "micrometer", "mu": "micrometer", "micro": "micrometer",
    "in": "inch", '"': "inch", "inches": "inch", "ft": "foot", "feet": "foot", "s": "second",
    "sec": "second", "ms": "millisecond", "msec": "millisecond", "us": "microsecond",
    "usec": "microsecond", "ns": "nanosecond", "nsec": "nanosecond", "min": "minute", "h": "hour",
    "hr": "hour", "d": "day",
}  # fmt: skip
_UNNAMED = dict.fromkeys(("thou", "mil", "mils"), Fraction(254, 10))  # lengths that OME-NGFF has no name for
_ESCAPE = re.compile(r"\\u([0-9A-Fa-f]{4})")


def _plain(unit: str) -> str:
    """Spell a unit in one way: lower case, ``u`` for any micro sign."""
    unit = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), unit[:64].strip())
    with suppress(UnicodeError):
        unit = unit.encode("latin-1").decode("utf-8")  # UTF-8 that was read as Latin-1
    # NFKC makes the Greek letter of the micro sign, and a letter of the angstrom sign
    plain = unicodedata.normalize("NFKC", unit).casefold().replace("μ", "u").strip()
    return plain.replace("\ufffdm", "um")  # a micro sign that no encoding explained


def unit_name(text: str | None) -> str | None:
    r"""Return the OME-NGFF name of a length or time unit; None if it is none (``pixel``, unknown words).

    Parameters
    ----------
    text : str or None
        As it stands in a file: ``um``, ``micron(s)``, ``\u00B5m`` (escaped or not), ``cm``, ``inch``...
    """
    plain = _plain(text).replace("metre", "meter") if text else ""
    singular = plain.removesuffix("s") if len(plain) > 2 else plain  # "as" is no plural
    for name in (plain, singular):
        if name in _SHORT:
            return _SHORT[name]
        if name in _LENGTHS or name in _TIMES:
            return name
    return None


def in_micrometers(value: float, unit: str) -> float | None:
    """Convert a length in a named unit; None if the unit is no length."""
    return _times(value, _LENGTHS.get(unit))


def in_seconds(value: float, unit: str) -> float | None:
    """Convert a duration in a named unit; None if the unit is no duration."""
    return _times(value, _TIMES.get(unit))


def micrometers(size: float | Fraction, unit: str) -> float | None:
    """Convert the size of something, in a unit as it stands in a file.

    Parameters
    ----------
    size : float or Fraction
    unit : str
        See `unit_name`.

    Returns
    -------
    float or None
        Micrometers; None if the unit is no length or the size is not positive and finite.
    """
    return _positive(_times(size, _LENGTHS.get(unit_name(unit) or "", _UNNAMED.get(_plain(unit)))))


def seconds(size: float | Fraction, unit: str) -> float | None:
    """Convert the length of a time, as `micrometers` does a size."""
    return _positive(_times(size, _TIMES.get(unit_name(unit) or "")))


def _times(value: float | Fraction, factor: Fraction | None) -> float | None:
    """A product that is rounded once; None where it is no finite number."""
    if factor is None or not isfinite(value):
        return None
    try:
        return float(Fraction(value) * factor)
    except OverflowError:
        return None


def _positive(value: float | None) -> float | None:
    return value if value is not None and 0 < value < float("inf") else None
