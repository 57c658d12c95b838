"""Numbers, facts and outcomes in words, the same everywhere in the window."""

from __future__ import annotations

from collections.abc import Sequence

from napari_decant.gui.jobs import Planned

__all__ = [
    "axes_text",
    "becomes_text",
    "count",
    "reason_text",
    "seconds_text",
    "size_text",
    "speed_text",
]

_REASONS = {
    "empty-file": "it is empty",
    "not-a-tiff": "it is not a TIFF",
    "no-readable-pages": "its pages cannot be read",
    "unreadable-tags": "its tags cannot be read",
    "compressed": "its pixels are compressed already",
    "predictor": "its pixels are stored with a predictor",
    "bit-depth": "its pixels are not of 8, 16, 32 or 64 bits",
    "complex-integer": "its pixels are complex integers",
    "fill-order": "its bits are stored in reverse order",
    "image-depth": "its pages are volumes",
    "plane-too-large": "one plane is larger than 2 GiB",
    "plane-over-memory": "one plane does not fit into the memory allowed",
    "subsampled-colour": "its colours are subsampled",
    "short-segments": "some of its pixel data is missing",
    "segments-beyond-end": "its pixel data goes beyond the end of the file",
    "sparse-segments": "parts of its pixel data are left out",
    "overlapping-segments": "pages share pixel data",
    "mixed-pages": "its pages are too different for one image",
    "too-many-pieces": "its planes are too many, or in too many pieces",
    "reconstruction-differs": "its pixels could not be listed exactly",
    "other-shape-than-the-series": "it does not fit the other images",
}


def count(number: int, noun: str, plural: str = "") -> str:
    """``1 file``, ``1,024 files``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def size_text(size: float) -> str:
    """A size in decimal units, as disks are sold: ``1.2 GB``."""
    if size < 0:
        return ""
    if size < 1000:
        return count(int(size), "byte")
    for unit in ("kB", "MB", "GB", "TB"):
        size /= 1000
        if size < 999.5 or unit == "TB":
            break
    return f"{size:,.1f} {unit}" if size < 99.95 else f"{size:,.0f} {unit}"


def speed_text(bytes_per_second: float) -> str:
    """``212 MB/s``; empty before anything is known."""
    return f"{size_text(bytes_per_second)}/s" if bytes_per_second >= 1 else ""


def seconds_text(seconds: float) -> str:
    """A duration as people say it: ``8 s``, ``4 min``, ``2 h 10 min``, ``3 days``."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes and hours < 10 else f"{hours} h"
    return count(round(hours / 24), "day")


def axes_text(axes: Sequence[str], shape: Sequence[int]) -> str:
    """``c4 z60 y2048 x2048``."""
    if len(axes) != len(shape):
        return " ".join(f"{extent:,}" for extent in shape)
    return " ".join(f"{axis}{extent}" for axis, extent in zip(axes, shape, strict=True))


def reason_text(code: str | None) -> str:
    """Why a file is kept as it is."""
    return _REASONS.get(code or "", (code or "").replace("-", " "))


def becomes_text(planned: Planned) -> str:
    """What a planned row becomes, in the words of the table."""
    row = planned.row
    if row.mode == "verbatim":
        return f"kept as it is: {reason_text(row.reason)}"
    if row.mode == "byte-exact":
        return f"image  {axes_text(row.axes, row.shape)}"
    if row.mode == "series" and row.shape:
        return f"one image  {axes_text(row.axes, row.shape)}"
    return "a folder of archives" if row.mode == "series" else "cannot be packed"
