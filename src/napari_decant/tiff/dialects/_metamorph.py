"""MetaMorph: stacks (STK) with their UIC tags, and MetaSeries files with XML in each page's description."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from napari_decant.tiff._places import Places
from napari_decant.tiff._units import LENGTH_UNIT, TIME_UNIT, micrometers, seconds
from napari_decant.tiff.dialects._reading import MAX_LISTED, Channel, Reading, clean, number
from napari_decant.tiff.dialects._tags import TagReader, decode
from napari_decant.tiff.dialects._xml import read_xml

__all__ = ["read_metaseries", "read_stk"]

_DESCRIPTION = 270
_UIC1, _UIC2, _UIC3 = 33628, 33629, 33630
_RATIONAL, _LONG = 5, 4
_MAX_UIC1 = 4096
_X_CALIBRATION, _Y_CALIBRATION, _CALIBRATION_UNITS, _NAME, _STAGE_LABEL = 4, 5, 6, 7, 37
_DAY_SECONDS = 86_400
_EXPOSURE = re.compile(r"^Exposure:\s*([\d.]+)\s*(\w+)", re.MULTILINE | re.IGNORECASE)
_MAX_PAGE_XML = 1 << 20


def read_stk(tags: TagReader) -> Reading | None:
    """Read the UIC tags of a MetaMorph stack; None if the file has none."""
    uic2 = tags.tag(_UIC2)
    if tags.tag(_UIC1) is None or tags.byteorder != "<":
        return None
    reading = Reading("stk")
    _calibration(tags, reading)
    _exposures(tags, reading)
    if uic2 is None or uic2.type != _RATIONAL or uic2.count < 1:
        return reading
    planes = min(uic2.count, tags.planes)
    data = tags.read(uic2.offset, 24 * planes)
    table = np.frombuffer(data[: len(data) // 24 * 24], "<u4").reshape(-1, 6).astype(np.float64)
    if len(table) < tags.planes:
        return reading
    distances = np.divide(table[:, 0], table[:, 1], out=np.zeros(len(table)), where=table[:, 1] != 0)
    times = (table[:, 2] - table[0, 2]) * _DAY_SECONDS + (table[:, 3] - table[0, 3]) / 1000
    wavelengths = _wavelengths(tags, planes)
    reading.places = _stack_places(distances, times, wavelengths, tags.planes)
    if reading.places is not None and "c" in reading.places.names:
        reading.channels = [Channel(f"{nanometers:g} nm") for nanometers in dict.fromkeys(wavelengths)]
    _stack_facts(tags, reading, distances, times)
    return reading


def _stack_places(
    distances: np.ndarray, times: np.ndarray, wavelengths: Sequence[float], planes: int
) -> Places | None:
    """A stack runs along z if its planes are apart, along time if they were taken one after another.

    Wavelengths that repeat in one pattern are channels within that.
    """
    if planes < 2:
        return Places.grid(("z",), (1,), planes)
    if np.count_nonzero(distances) >= planes - 1:
        axis = "z"
    elif bool((np.diff(times) != 0).all()):
        axis = "t"
    else:
        axis = "q"
    channels = len(set(wavelengths))
    if channels > 1 and planes % channels == 0 and len(wavelengths) == planes:
        number_of = {wavelength: i for i, wavelength in enumerate(dict.fromkeys(wavelengths))}
        index = np.zeros((planes, 2), np.int64)
        seen = [0] * channels
        for plane, wavelength in enumerate(wavelengths):
            channel = number_of[wavelength]
            index[plane] = seen[channel], channel
            seen[channel] += 1
        if len(set(seen)) == 1:
            return Places((axis, "c"), (planes // channels, channels), index)
    return Places.grid((axis,), (planes,), planes)


def _wavelengths(tags: TagReader, planes: int) -> list[float]:
    """Wavelength of each plane in nanometres; empty if they are not given."""
    tag = tags.tag(_UIC3)
    if tag is None or tag.type != _RATIONAL or tag.count < planes:
        return []
    data = tags.read(tag.offset, 8 * planes)
    pairs = struct.iter_unpack("<2I", data[: len(data) // 8 * 8])
    return [top / bottom if bottom else 0.0 for top, bottom in pairs]


def _stack_facts(tags: TagReader, reading: Reading, distances: np.ndarray, times: np.ndarray) -> None:
    unit = _units_of(tags)
    step = float(distances[1]) if len(distances) > 1 else float(distances[0])
    if step and np.allclose(distances[1:], step):
        reading.set_step("z", micrometers(step, unit), LENGTH_UNIT)
    places = reading.places
    if places is not None and places.names[0] == "t" and len(times) > 1:
        first = places.index[:, 1:].sum(axis=1) == 0  # one plane a time point
        steps = np.diff(times[first])
        if len(steps) and steps.min() > 0 and np.ptp(steps) < 0.05 * steps.mean():
            reading.set_step("t", seconds(float(steps.mean()), "s"), TIME_UNIT)
    if tags.planes <= MAX_LISTED and times.any():
        reading.times = {plane: float(time) for plane, time in enumerate(times.tolist())}


def _exposures(tags: TagReader, reading: Reading) -> None:
    """Exposures from the planes' descriptions, which follow each other in one tag."""
    descriptions = decode(tags.data(_DESCRIPTION)).split("\0")
    for plane, text in enumerate(descriptions[: min(tags.planes, MAX_LISTED)]):
        exposure = _exposure(text)
        if exposure is not None:
            reading.exposures[plane] = exposure


def _exposure(text: str) -> float | None:
    match = _EXPOSURE.search(text[:4096])
    return seconds(number(match[1]) or 0.0, match[2]) if match else None


def _calibration(tags: TagReader, reading: Reading) -> None:
    values = _uic1(tags)
    unit = _units_of(tags)
    for axis, code in (("x", _X_CALIBRATION), ("y", _Y_CALIBRATION)):
        if code in values:
            data = tags.read(values[code], 8)
            top, bottom = struct.unpack("<2I", data) if len(data) == 8 else (0, 0)
            if bottom:
                reading.set_step(axis, micrometers(Fraction(top, bottom), unit), LENGTH_UNIT)
    if _STAGE_LABEL in values:
        label = _pascal(tags, values[_STAGE_LABEL])
        reading.positions = [label] if label else []
    if name := _pascal(tags, values.get(_NAME, 0)):
        reading.channels = [Channel(name)]  # MetaMorph names an image after its illumination


def _units_of(tags: TagReader) -> str:
    return _pascal(tags, _uic1(tags).get(_CALIBRATION_UNITS, 0))


def _pascal(tags: TagReader, offset: int) -> str:
    head = tags.read(offset, 4) if offset >= 8 else b""
    length = struct.unpack("<I", head)[0] if len(head) == 4 else 0
    return clean(decode(tags.read(offset + 4, length).split(b"\0")[0])) if length < 1024 else ""


def _uic1(tags: TagReader) -> dict[int, int]:
    """Numbers and values (or offsets) of the entries of tag UIC1."""
    tag = tags.tag(_UIC1)
    if tag is None or tag.type != _LONG or tag.count > _MAX_UIC1:
        return {}
    # The count is that of the pairs, so a single one does not lie in the directory as TIFF has it.
    data = tags.read(tag.offset, 8 * tag.count) if tag.count > 1 else b""
    return dict(struct.iter_unpack("<2I", data[: len(data) // 8 * 8]))


class _Properties:
    """Collects ``<prop id= value=>`` elements, which is all that MetaSeries has."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.root = ""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.root = self.root or name
        if "id" in attributes and len(self.values) < 4096:
            self.values[attributes["id"]] = attributes.get("value", "")[:4096]

    def end(self, name: str, text: str) -> None:
        """All values are attributes."""


def read_metaseries(tags: TagReader) -> Reading | None:
    """Read MetaSeries XML; None if the file has none."""
    first = _properties(tags, 0)
    if first is None:
        return None
    reading = Reading("metaseries")
    if first.get("spatial-calibration-state", "on") != "off":
        unit = first.get("spatial-calibration-units", "")
        for axis in "xy":
            size = number(first.get(f"spatial-calibration-{axis}"))
            reading.set_step(axis, micrometers(size or 0.0, unit), LENGTH_UNIT)
    reading.date = clean(first.get("acquisition-time-local", ""))
    label = clean(first.get("stage-label", ""))
    reading.positions = [label] if label else []
    pages = np.flatnonzero(tags.plane_of_page >= 0)[:MAX_LISTED]
    settings: list[str] = []
    heights: list[float | None] = []
    for page in pages.tolist():
        values = first if page == 0 else _properties(tags, page) or {}
        settings.append(clean(values.get("_IllumSetting_", "")))
        heights.append(number(values.get("z-position")))
        exposure = _exposure(values.get("Description", "").replace("&#13;&#10;", "\n"))
        if exposure is not None:
            reading.exposures[int(tags.plane_of_page[page])] = exposure
    names = list(dict.fromkeys(settings))
    reading.channels = [Channel(name) for name in names] if any(names) else []
    if len(pages) == tags.planes > 1:
        reading.places = _page_places(settings, heights)
    return reading


def _properties(tags: TagReader, page: int) -> dict[str, str] | None:
    tag = tags.tag(_DESCRIPTION, page)
    if tag is None or not 10 < tag.count <= _MAX_PAGE_XML:
        return None
    if not tags.read(tag.offset, 64).lstrip().startswith(b"<MetaData"):
        return None
    found = read_xml(lambda at, length: tags.read(tag.offset + at, length), tag.count, _Properties)
    return found.values if found.root == "MetaData" else None


def _page_places(settings: Sequence[str], heights: Sequence[float | None]) -> Places | None:
    """Places by illumination setting and stage height; what is left over is time."""
    channels = {name: i for i, name in enumerate(dict.fromkeys(settings))}
    levels = {height: i for i, height in enumerate(dict.fromkeys(heights))}
    index = np.zeros((len(settings), 3), np.int64)
    seen: dict[tuple[int, int], int] = {}
    for plane, (setting, height) in enumerate(zip(settings, heights, strict=True)):
        place = channels[setting], levels[height]
        index[plane] = seen.get(place, 0), *place
        seen[place] = seen.get(place, 0) + 1
    extents = tuple(int(n) + 1 for n in index.max(axis=0))
    # Heights that drift give no grid, and then nothing is known.
    return Places(("t", "c", "z"), extents, index) if np.prod(extents) == len(settings) else None
