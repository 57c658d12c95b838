"""A small TIFF writer that lays files out in every way the format allows, and in some it does not.

It knows where each pixel byte went, so a test can say which bytes are pixels without reading the file back.
Pixels are never zero and depend on their position, unless ``values="bits"`` asks for every bit pattern.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .tiffbytes import Image, header, ifd, ifd_size, segment_bytes, tags_of
from .tiffspec import Ints, Order, Page, TiffSpec, WrittenTiff, expectation, ramp, reduced_shape

__all__ = ["Page", "TiffSpec", "WrittenTiff", "expectation", "ramp", "write_sparse_imagej", "write_tiff"]


def write_tiff(path: Path, spec: TiffSpec) -> WrittenTiff:
    """Write the file that ``spec`` describes, and say what it holds."""
    random = np.random.default_rng(spec.seed)
    pixels = _pixels(spec, random)
    images = _images(spec, pixels, random)

    plan = _sequence(spec, images, random)
    body = bytearray(header(spec, 0))
    blocks: list[tuple[int, int]] = []
    for kind, name, segments in plan:
        image = images[name]
        body += bytes(random.integers(0, 256, random.integers(0, spec.gap + 1), np.uint8))
        if kind == "ifd":
            body += b"\xa5" * (len(body) % 2)
            image.offset = len(body)
            blocks.append((name, len(body)))
            body += bytes(ifd_size(spec, image))
            continue
        if len(segments) == len(image.starts) and (np.diff(segments) == 1).all():
            image.placed = len(body) + image.starts
            body += image.buffer
            continue
        for segment in segments:
            start, count = int(image.starts[segment]), int(image.counts[segment])
            image.placed[segment] = len(body)
            body += image.buffer[start : start + count]
    body += bytes(random.integers(0, 256, spec.trailing, np.uint8))
    _spoil(spec, images, body)
    for name, offset in blocks:
        block = ifd(spec, images, name, random)
        body[offset : offset + len(block)] = block
    body[: len(header(spec, 0))] = header(spec, images[0].offset)
    path.write_bytes(body)
    return WrittenTiff(path, spec, pixels, _page_records(spec, images), *expectation(spec))


def write_sparse_imagej(path: Path, images: int, height: int, width: int) -> WrittenTiff:
    """Write a big-endian ImageJ stack of any size: one directory, holes but for its first and last plane."""
    spec = TiffSpec(
        pages=images, height=height, width=width, byteorder=">", imagej=True, rows_per_strip=height, seed=1
    )
    first = ramp((height, width), np.uint16)
    last = first[::-1, ::-1].copy()
    size = height * width * 2
    image = _image(spec, first[:, :, None], np.random.default_rng(0), _imagej_text(images))
    head = len(header(spec, 0)) + ifd_size(spec, image)
    image.placed, image.offset, image.said = np.array([head]), len(header(spec, 0)), np.array([size])
    with path.open("wb") as out:
        out.write(header(spec, image.offset) + ifd(spec, [image], 0, np.random.default_rng(0)))
        out.write(first.astype(">u2").tobytes())
        out.seek(head + (images - 1) * size)
        out.write(last.astype(">u2").tobytes())
    pages = tuple(
        Page(n, (height, width), "uint16", np.array([head + n * size]), np.array([size]), 1, 1, height, 0, 0)
        for n in range(images)
    )
    empty, known = np.zeros((0, height, width), np.uint16), {0: first, images - 1: last}
    return WrittenTiff(path, spec, empty, pages, "byte-exact", "", tuple(range(images)), known)


def _pixels(spec: TiffSpec, random: np.random.Generator) -> npt.NDArray[Any]:
    shape = (spec.pages, spec.height, spec.width) + ((spec.samples,) if spec.samples > 1 else ())
    dtype = np.dtype(spec.dtype)
    if spec.bits is not None:
        whole = ramp(shape, np.uint16).astype(np.int64)
        return (whole % (2**spec.bits - 1) + 1 if spec.bits > 1 else whole % 7 % 2).astype(dtype)
    if spec.values == "bits":
        raw = random.integers(0, 256, int(np.prod(shape)) * dtype.itemsize, np.uint8)
        return raw.view(dtype).reshape(shape)
    return ramp(shape, dtype)


def _images(spec: TiffSpec, pixels: npt.NDArray[Any], random: np.random.Generator) -> list[Image]:
    """Pages first, then the thumbnail, then the reduced images below the pages."""
    planes = pixels if pixels.ndim == 4 else pixels[..., None]
    if spec.imagej:
        images = [_image(spec, planes[0], random, _imagej_text(spec.pages))]
        rest = b"".join(_image(spec, plane, random, None).buffer for plane in planes[1:])
        images[0].buffer += rest
    else:
        images = [
            _image(spec, plane, random, spec.description if n == 0 else None)
            for n, plane in enumerate(planes)
        ]
    small = ramp((*reduced_shape(spec), spec.samples), spec.dtype)
    if spec.thumbnail:
        images.append(_image(spec, small, random, None, reduced=True))
    for one, following in zip(images[:-1], range(1, len(images)), strict=True):
        one.next = following
    for parent in images[: len(planes) if not spec.imagej else 1]:
        for _ in range(spec.subifds):
            parent.children.append(len(images))
            images.append(_image(spec, small, random, None, reduced=True))
    return images


def _image(
    spec: TiffSpec,
    pixels: npt.NDArray[Any],
    random: np.random.Generator,
    description: str | None,
    reduced: bool = False,
) -> Image:
    height, width, samples = pixels.shape
    planes = [pixels[:, :, s : s + 1] for s in range(samples)] if spec.planar and samples > 1 else [pixels]
    rows = min(spec.rows_per_strip or height, height)
    if spec.tile is None and not (spec.deflate or spec.predictor != 1 or spec.bits):
        buffer = b"".join(segment_bytes(spec, plane) for plane in planes)
        row = len(buffer) // (height * len(planes))
        per_plane = np.minimum(np.arange(0, height, rows) + rows, height) - np.arange(0, height, rows)
        counts = np.tile(per_plane * row, len(planes)).astype(np.int64)
    else:
        parts = []
        for plane in planes:
            if spec.tile is None:
                parts += [segment_bytes(spec, plane[y : y + rows]) for y in range(0, height, rows)]
                continue
            high, wide = spec.tile
            for y in range(0, height, high):
                for x in range(0, width, wide):
                    tile = random.integers(0, 256, high * wide * plane.shape[2] * plane.itemsize, np.uint8)
                    full = tile.view(plane.dtype).reshape(high, wide, plane.shape[2])
                    if spec.bits:
                        full = full % np.asarray(2**spec.bits, plane.dtype)
                    real = plane[y : y + high, x : x + wide]
                    full[: real.shape[0], : real.shape[1]] = real
                    parts.append(segment_bytes(spec, full))
        buffer = b"".join(parts)
        counts = np.array([len(part) for part in parts], np.int64)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)
    tags = tags_of(spec, height, width, samples, description, reduced, random)
    return Image(pixels, buffer, starts, counts, tags, np.zeros(len(counts), np.int64))


def _imagej_text(images: int) -> str:
    return f"ImageJ=1.54f\nimages={images}\nslices={images}\nloop=false\n"


def _sequence(
    spec: TiffSpec, images: list[Image], random: np.random.Generator
) -> list[tuple[str, int, Ints]]:
    """In which order directories and segments come in the file."""

    def ordered(count: int, order: Order) -> Ints:
        whole = np.arange(count)
        return {"forward": whole, "reverse": whole[::-1], "shuffled": random.permutation(count)}[order]

    none = np.zeros(0, np.int64)
    data: list[tuple[str, int, Ints]] = []
    for name in ordered(len(images), spec.page_order).tolist():
        segments = ordered(len(images[name].starts), spec.segment_order)
        if spec.imagej:
            segments = np.arange(len(segments))  # the planes that have no directory follow the last segment
        if (spec.gap or spec.interleave) and not spec.imagej:
            data += [("segments", name, segments[n : n + 1]) for n in range(len(segments))]
        else:
            data.append(("segments", name, segments))
    if spec.interleave:
        turn: dict[int, int] = {}
        keyed = []
        for item in data:
            turn[item[1]] = turn.get(item[1], 0) + 1
            keyed.append((turn[item[1]], item))
        data = [item for _, item in sorted(keyed, key=lambda pair: pair[0])]
    directories: list[tuple[str, int, Ints]] = [("ifd", name, none) for name in range(len(images))]
    if spec.ifd == "before":
        return directories + data
    if spec.ifd == "after":
        return data + directories
    for directory in directories:
        data.insert(int(random.integers(0, len(data) + 1)), directory)
    return data


def _spoil(spec: TiffSpec, images: list[Image], body: bytearray) -> None:
    """Set what the directories will say about byte counts, with the fault asked for."""
    for image in images:
        image.said = image.counts + spec.excess
    first = images[0]
    body += b"\x5a" * spec.excess  # so that no count reaches past the end
    others = [(image, 0) for image in images[1:]]
    if len(first.placed) > 1:
        others.insert(0, (first, len(first.placed) - 1))
    if spec.fault == "short":
        first.said[-1] = first.counts[-1] - 1
    elif spec.fault == "sparse":
        first.said[-1] = first.placed[-1] = 0
    elif spec.fault == "past-end":
        first.placed[-1] = len(body) + 10
    elif spec.fault in ("shared", "overlap") and others:
        image, segment = others[0]
        image.placed[segment] = first.placed[0] + (spec.fault == "overlap" and first.counts[0] > 1)
        body += b"\x5a" * int(image.counts[segment] + 1)


def _page_records(spec: TiffSpec, images: list[Image]) -> tuple[Page, ...]:
    """Where the pixels of each listed page are; empty for files whose bytes are not plain pixels."""
    if spec.deflate or spec.predictor != 1 or spec.bits or spec.fill_order != 1 or spec.fault:
        return ()
    size = spec.height * spec.width * spec.samples * np.dtype(spec.dtype).itemsize
    shape = (spec.height, spec.width) + ((spec.samples,) if spec.samples > 1 else ())
    config = 2 if spec.planar and spec.samples > 1 else 1
    rows = 0 if spec.tile else min(spec.rows_per_strip or spec.height, spec.height)
    wide, high = (spec.tile[1], spec.tile[0]) if spec.tile else (0, 0)
    pages = []
    for n in range(spec.pages):
        if spec.imagej:
            start = int(images[0].placed[0]) + n * size
            offsets, counts = np.array([start]), np.array([size])
        else:
            offsets, counts = _real_segments(spec, images[n])
        pages.append(Page(n, shape, spec.dtype, offsets, counts, spec.samples, config, rows, wide, high))
    return tuple(pages)


def _real_segments(spec: TiffSpec, image: Image) -> tuple[Ints, Ints]:
    if spec.tile is None:
        return image.placed, image.counts
    high, wide = spec.tile
    planes = spec.samples if spec.planar else 1
    pixel = np.dtype(spec.dtype).itemsize * (1 if spec.planar else spec.samples)
    offsets, counts, tile = [], [], 0
    for _ in range(planes):
        for y in range(0, spec.height, high):
            for x in range(0, spec.width, wide):
                start, rows = int(image.placed[tile]), min(high, spec.height - y)
                real = min(wide, spec.width - x)
                tile += 1
                if real == wide:
                    offsets.append(start)
                    counts.append(rows * wide * pixel)
                    continue
                offsets += [start + row * wide * pixel for row in range(rows)]
                counts += [real * pixel] * rows
    return np.array(offsets, np.int64), np.array(counts, np.int64)
