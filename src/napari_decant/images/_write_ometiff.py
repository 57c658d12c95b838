"""`write_ome_tiff`: the only way this program writes OME-TIFF, plane by plane, tiled, with a pyramid."""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from napari_decant.errors import BudgetExceeded, DecantError, IntegrityError, UnsupportedOperation, UsageError
from napari_decant.images._affine import affine_record, recorded_affine
from napari_decant.images._cache import ChunkCache
from napari_decant.images._open import open_image
from napari_decant.images._pyramid import Method, PyramidBuilder
from napari_decant.images._write_zarr_plan import ImageToWrite, parse_axes, place_axes, worker_count
from napari_decant.images._write_zarr_shard import digest_of
from napari_decant.images._write_zarr_source import Box, VolumeSource
from napari_decant.progress import CancelToken, Progress, ProgressCallback, ignore_progress
from napari_decant.stores._atomic import AtomicFile, storage_error
from napari_decant.tiff._units import in_micrometers, in_seconds, unit_name
from napari_decant.tiff.dialects import ANNOTATION

__all__ = ["OmeTiffReport", "write_ome_tiff"]

_TYPES: Final = frozenset(["uint8", "uint16", "uint32", "int8", "int16", "int32", "float32", "float64"])
_TILE: Final = 512
_MEMORY: Final = 512 << 20
_SHARES: Final = 4
_CLASSIC: Final = 3_900_000_000
_MOST_POSITIONS: Final = 10_000
_SAFE_COMPRESSION: Final = ("zlib", "zstd", "lzw", "none")


@dataclass(frozen=True, slots=True)
class OmeTiffReport:
    """What was written.

    Attributes
    ----------
    target : Path
    size : int
        Bytes of the file.
    planes, levels : int
    verified : bool
        Whether every band of every plane was read back and compared by its hash.
    """

    target: Path
    size: int
    planes: int
    levels: int
    verified: bool


def write_ome_tiff(
    target: str | os.PathLike[str],
    image: ImageToWrite,
    *,
    compression: str = "zlib",
    pyramid: bool = True,
    memory: int | None = None,
    workers: int | None = None,
    verify: bool = True,
    overwrite: bool = False,
    progress: ProgressCallback = ignore_progress,
    cancel: CancelToken | None = None,
) -> OmeTiffReport:
    """Write an image of any size as tiled OME-TIFF; it appears whole or not at all.

    Parameters
    ----------
    target : str or path
        Ends with ``.tif`` or ``.tiff``; ``.ome.tif`` is usual.
    image : ImageToWrite
        Its ``labels`` are not written: a TIFF has no place for them. Its attribute ``decant`` becomes an
        annotation, from which our reader puts a turned crop back into its place; lengths in it are converted
        to micrometers.
    compression : {"zlib", "zstd", "lzw", "none"}
    pyramid : bool
        Write smaller levels as SubIFDs: halved along y and x, since TIFF keeps every plane of z.
    memory : int, optional
        Bytes for pixels on their way, beside what the source itself takes; 512 MiB by default.
    workers : int, optional
        Threads that compress.
    verify : bool
        Read all pixels back and compare their hashes before the file gets its name.
    overwrite : bool
    progress : callable, optional
        Told bytes of pixels written, and read back.
    cancel : CancelToken, optional

    Returns
    -------
    OmeTiffReport

    Raises
    ------
    UnsupportedOperation
        OME-TIFF has no such data type.
    BudgetExceeded
        ``memory`` does not hold a row of tiles.
    TargetExists, StorageError, IntegrityError, UsageError, Cancelled
        As for `write_ome_zarr`; nothing is left.
    """
    path = Path(os.path.abspath(target))
    if path.suffix.lower() not in (".tif", ".tiff"):
        raise UsageError(f"the name {path.name!r} does not end with .tif or .tiff")
    if compression not in _SAFE_COMPRESSION:
        raise UsageError(f"compression {compression!r} is unknown; use {', '.join(_SAFE_COMPRESSION)}")
    writer = _Writer(image, pyramid, memory or _MEMORY, verify, cancel or CancelToken(), progress, path.name)
    with AtomicFile(path, overwrite=overwrite) as out:
        try:
            writer.write(out.file, compression, worker_count(workers), path.parent)
            out.flush()
        except OSError as error:
            raise storage_error("writing", path, error) from error
        if verify:
            writer.verify(out.path)
        size = out.path.stat().st_size
        out.commit()
    return OmeTiffReport(path, size, writer.planes, len(writer.shapes), verify)


class _Writer:
    """One image on its way into a TIFF."""

    def __init__(
        self,
        image: ImageToWrite,
        pyramid: bool,
        memory: int,
        verify: bool,
        cancel: CancelToken,
        progress: ProgressCallback,
        name: str,
    ) -> None:
        self.image, self.cancel, self.progress, self.name = image, cancel, progress, name
        self.axes = parse_axes(image.axes)
        dtype = np.dtype(np.dtype(image.dtype or image.array.dtype).name)
        self.dtype = np.dtype(np.uint8) if dtype.kind == "b" else dtype
        if self.dtype.name not in _TYPES:
            raise UnsupportedOperation(
                f"OME-TIFF has no {self.dtype.name}; convert {image.name!r} or write .zarr"
            )
        self.source = VolumeSource(image.array, self.axes, dtype=self.dtype, convert=image.convert)
        self.samples = self.source.shape[1] if image.rgb and self.source.shape[1] in (3, 4) else 1
        t, c, z, self.y, self.x = self.source.shape
        self.counts = (t, c // self.samples, z)
        self.planes = math.prod(self.counts)
        self.method: Method = "max" if image.label is not None else "mean"
        plane = (self.y, self.x, self.samples)
        halved = (True, True, False)
        wanted = None if pyramid and max(self.y, self.x) > _TILE else 1
        self.builder: Callable[[], PyramidBuilder] = lambda: PyramidBuilder(
            plane, self.dtype, halved, levels=wanted, method=self.method
        )
        self.shapes = [tuple(shape) for shape in self.builder().shapes]
        row = self.x * self.samples * self.dtype.itemsize
        # a band is held, its smaller levels are made, and tiles of as many bytes are compressed together
        least = _SHARES * row * min(_TILE, self.y)
        if least > memory:
            raise BudgetExceeded("memory", least, memory, f"a row of tiles of {image.name!r}")
        bands = max(1, min(128 << 20, memory // _SHARES) // max(1, row * _TILE))
        self.band = min(-(-self.y // _TILE) * _TILE, bands * _TILE)
        self.buffer = max(1 << 20, min(32 << 20, memory // _SHARES))
        self.digests: list[bytes] = []
        self.done, self.total = 0, self.nbytes * (2 if verify else 1)

    @property
    def nbytes(self) -> int:
        """Bytes of the pixels of level 0."""
        return math.prod(self.source.shape) * self.dtype.itemsize

    def _count(self, nbytes: int) -> None:
        self.done += nbytes
        self.progress(Progress("write", self.done, self.total, self.name))

    def bands(self) -> Iterator[tuple[int, int, Box]]:
        """Plane number, first row and box of each band, in the order in which they are written."""
        for number, (t, c, z) in enumerate(np.ndindex(*self.counts)):
            for y in range(0, self.y, self.band):
                stop = min(y + self.band, self.y)
                channels = slice(c * self.samples, (c + 1) * self.samples)
                yield (
                    number,
                    y,
                    (slice(t, t + 1), channels, slice(z, z + 1), slice(y, stop), slice(0, self.x)),
                )

    def read(self, source: VolumeSource, box: Box) -> NDArray[Any]:
        """A band as rows, columns, samples."""
        self.cancel.check()
        rows = box[3].stop - box[3].start
        block = np.empty((1, self.samples, 1, rows, self.x), self.dtype)
        for piece in source.pieces(box):
            inside = tuple(
                slice(p.start - b.start, p.stop - b.start) for p, b in zip(piece, box, strict=True)
            )
            source.read(piece, block[inside])
        return np.ascontiguousarray(np.moveaxis(block[0, :, 0], 0, -1))

    def write(self, file: BinaryIO, compression: str, workers: int, folder: Path) -> None:
        """Write level 0 while its smaller levels wait in a file of their own, then those."""
        import tifffile

        options: dict[str, Any] = {
            "dtype": self.dtype,
            "tile": (_TILE, _TILE),
            "compression": None if compression == "none" else compression,
            "photometric": "rgb" if self.samples > 1 else "minisblack",
            "maxworkers": workers,
            "buffersize": self.buffer,
        }
        if self.samples > 1:
            options["planarconfig"] = "contig"
        big = self.nbytes * 1.4 > _CLASSIC
        with contextlib.ExitStack() as stack:
            smaller = [stack.enter_context(tempfile.TemporaryFile(dir=folder)) for _ in self.shapes[1:]]
            tiff = stack.enter_context(tifffile.TiffWriter(file, bigtiff=big, ome=True))
            shape = (*self.counts, self.y, self.x)
            tiff.write(
                self._first(smaller),
                shape=shape if self.samples == 1 else (*shape, self.samples),
                subifds=len(smaller),
                metadata=self._metadata(),
                **options,
            )
            for (y, x, _), stored in zip(self.shapes[1:], smaller, strict=True):
                stored.seek(0)
                level = (*self.counts, y, x)
                tiff.write(
                    self._stored(stored, y, x),
                    shape=level if self.samples == 1 else (*level, self.samples),
                    subfiletype=1,
                    metadata=None,
                    **options,
                )

    def _first(self, smaller: list[Any]) -> Iterator[NDArray[Any]]:
        """Tiles of level 0; on the way the other levels are made and put aside."""
        builder = self.builder()
        for _, y, box in self.bands():
            if y == 0:
                builder = self.builder()
            block = self.read(self.source, box)
            self.digests.append(digest_of(block))
            for level, _, rows in builder.push(block):
                smaller[level - 1].write(np.ascontiguousarray(rows).data)
            self._count(block.nbytes)  # now, since nobody asks for more after the last tile
            yield from self._tiles(block)

    def _stored(self, stored: Any, y: int, x: int) -> Iterator[NDArray[Any]]:
        for _ in range(self.planes):
            for first in range(0, y, self.band):
                self.cancel.check()
                rows = min(self.band, y - first)
                data = stored.read(rows * x * self.samples * self.dtype.itemsize)
                yield from self._tiles(np.frombuffer(data, self.dtype).reshape(rows, x, self.samples))

    def _tiles(self, block: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """Whole tiles of a band; what lies beyond the edge is 0."""
        for y in range(0, block.shape[0], _TILE):
            for x in range(0, block.shape[1], _TILE):
                part = block[y : y + _TILE, x : x + _TILE]
                tile = np.zeros((_TILE, _TILE, self.samples), self.dtype)
                tile[: part.shape[0], : part.shape[1]] = part
                yield tile if self.samples > 1 else tile[..., 0]

    def _metadata(self) -> dict[str, Any]:
        scale, translation, units = place_axes(self.image, self.axes)
        found: dict[str, Any] = {"axes": "TCZYXS" if self.samples > 1 else "TCZYX", "Name": self.image.name}
        positions: dict[str, Any] = {}
        for role, letter in ((4, "X"), (3, "Y"), (2, "Z")):
            unit = unit_name(units[role])
            size = in_micrometers(scale[role], unit) if unit else None
            if size is None:
                continue
            found[f"PhysicalSize{letter}"], found[f"PhysicalSize{letter}Unit"] = size, "µm"
            begin = in_micrometers(translation[role], unit) if unit else None
            if begin and self.planes <= _MOST_POSITIONS:
                positions[f"Position{letter}"] = [begin] * self.planes
                positions[f"Position{letter}Unit"] = ["µm"] * self.planes
        step = in_seconds(scale[0], unit_name(units[0]) or "")
        if step is not None and self.counts[0] > 1:
            found["TimeIncrement"], found["TimeIncrementUnit"] = step, "s"
        if positions:
            found["Plane"] = positions
        channels = list(self.image.channels)
        if self.samples == 1 and len(channels) == self.counts[1]:
            names, colors = [c.label for c in channels], [c.color for c in channels]
            known: dict[str, Any] = {"Name": names} if all(names) else {}
            if all(colors):
                known |= {"Color": [_signed(color) for color in colors if color]}
            if known:
                found["Channel"] = known
        decant = self._recorded(units)
        if decant:
            found["CommentAnnotation"] = {"Namespace": ANNOTATION, "Value": json.dumps(decant)}
        return found

    def _recorded(self, units: Sequence[str | None]) -> dict[str, Any]:
        """What ``decant`` says, in the units that this file has."""
        given = self.image.attributes.get("decant")
        if not isinstance(given, Mapping):
            return {}
        decant = dict(given)
        if self.image.label is not None:
            decant["labels"] = True
        record = recorded_affine(decant, list("tczyx"))
        if record is not None:
            factors = []
            for role in record["axes"]:
                unit = unit_name(units[role])
                factors.append((in_micrometers(1.0, unit) if unit else None) or 1.0)
            matrix = record["matrix"] * np.asarray(factors)[:, None]
            decant["affine"] = affine_record(matrix, ["tczyx"[role] for role in record["axes"]])
        return decant

    def verify(self, path: Path) -> None:
        """Compare every band of the finished file with what was read from the source."""
        try:
            opened = open_image(path, cache=ChunkCache(0))
            try:
                back = VolumeSource(opened.levels[0], opened.axes)
                if back.shape != self.source.shape or back.dtype != self.dtype:
                    raise IntegrityError(f"it has {back.dtype} {back.shape}")
                for (_, _, box), digest in zip(self.bands(), self.digests, strict=True):
                    block = self.read(back, box)
                    if digest_of(block) != digest:
                        raise IntegrityError(f"plane {box[0].start}, {box[1].start}, {box[2].start} differs")
                    self._count(block.nbytes)
            finally:
                opened.close()
        except IntegrityError as error:
            raise IntegrityError(f"{path} was read back and is not what was written: {error}") from error
        except DecantError as error:
            self.cancel.check()
            raise IntegrityError(f"{path} cannot be read back: {error}") from error


def _signed(color: str) -> int:
    """RRGGBB as OME's signed 32-bit RGBA."""
    number = int(color, 16) << 8 | 0xFF
    return number - (1 << 32) if number >= 1 << 31 else number
