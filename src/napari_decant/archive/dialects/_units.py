"""Turn the many spellings of length and time units into micrometres and seconds.

One unit for each kind keeps x, y and z comparable, and both names are valid in NGFF. A unit
that is not known gives None: a number without a unit is better than a wrong one.
"""

from __future__ import annotations

import re
import unicodedata
from contextlib import suppress
from fractions import Fraction
from math import isfinite

__all__ = ["LENGTH_UNIT", "TIME_UNIT", "micrometers", "seconds"]

LENGTH_UNIT = "micrometer"
TIME_UNIT = "second"

_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")

_METRIC = {"pm": -6, "nm": -3, "um": 0, "mm": 3, "cm": 4, "dm": 5, "m": 6, "km": 9}
_METRIC_WORDS = {"pico": -6, "nano": -3, "micro": 0, "milli": 3, "centi": 4, "deci": 5, "": 6, "kilo": 9}
_LENGTHS: dict[str, Fraction] = {name: Fraction(10) ** power for name, power in _METRIC.items()}
for _prefix, _power in _METRIC_WORDS.items():
    for _word in ("meter", "metre"):
        _LENGTHS[_prefix + _word] = _LENGTHS[_prefix + _word + "s"] = Fraction(10) ** _power
_LENGTHS |= dict.fromkeys(("micron", "microns", "mu"), Fraction(1))
_LENGTHS |= dict.fromkeys(("å", "a", "angstrom", "angstroms", "ångström"), Fraction(1, 10_000))
_LENGTHS |= dict.fromkeys(("inch", "inches", "in", '"'), Fraction(25_400))
_LENGTHS |= dict.fromkeys(("thou", "mil", "mils"), Fraction(254, 10))
_LENGTHS |= dict.fromkeys(("ft", "foot", "feet"), Fraction(304_800))

_TIMES: dict[str, Fraction] = {
    **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), Fraction(1, 10**9)),
    **dict.fromkeys(("us", "usec", "microsecond", "microseconds"), Fraction(1, 10**6)),
    **dict.fromkeys(("ms", "msec", "msecs", "millisecond", "milliseconds"), Fraction(1, 1000)),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), Fraction(1)),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), Fraction(60)),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), Fraction(3600)),
    **dict.fromkeys(("d", "day", "days"), Fraction(86_400)),
}


def micrometers(size: float | Fraction, unit: str) -> float | None:
    r"""Convert a length.

    Parameters
    ----------
    size : float or Fraction
        In ``unit``.
    unit : str
        As it stands in a file: ``um``, ``micron``, ``\u00B5m`` (escaped or not), ``cm``, ``inch``...

    Returns
    -------
    float or None
        Micrometres; None if the unit is not one of length or the size is not positive and finite.
    """
    return _convert(size, unit, _LENGTHS)


def seconds(size: float | Fraction, unit: str) -> float | None:
    """Convert a duration, as `micrometers` does a length."""
    return _convert(size, unit, _TIMES)


def _convert(size: float | Fraction, unit: str, factors: dict[str, Fraction]) -> float | None:
    factor = factors.get(_plain(unit))
    if factor is None or (isinstance(size, float) and not isfinite(size)) or size <= 0:
        return None
    try:
        converted = float(Fraction(size) * factor)  # rounded once
    except OverflowError:
        return None
    return converted if 0 < converted < float("inf") else None


def _plain(unit: str) -> str:
    """Spell a unit in one way: lower case, ``u`` for any micro sign."""
    unit = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), unit[:64].strip())
    with suppress(UnicodeError):
        unit = unit.encode("latin-1").decode("utf-8")  # UTF-8 that was read as Latin-1
    # NFKC makes the Greek letter of the micro sign, and a letter of the angstrom sign.
    return unicodedata.normalize("NFKC", unit).casefold().replace("μ", "u").strip()
