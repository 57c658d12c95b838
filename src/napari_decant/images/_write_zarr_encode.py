"""Encoding the chunks of one image into its shards, and reading finished shards back."""

from __future__ import annotations

import math
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import imagecodecs
import numcodecs.shuffle
import numpy as np
from numpy.typing import NDArray

from napari_decant.images._pyramid import Method
from napari_decant.images._write_zarr_layout import ArrayLayout
from napari_decant.images._write_zarr_shard import OpenFiles, ShardWriter, digest_of
from napari_decant.images._write_zarr_stage import Stage
from napari_decant.ngff import ArrayMeta
from napari_decant.progress import CancelToken

__all__ = ["ImageTarget", "ShardEncoder"]

_local = threading.local()


@dataclass(frozen=True, eq=False)
class ImageTarget:
    """Where and how one image is written.

    Attributes
    ----------
    stage : Stage
    path : str
        Of the image's group in the store.
    layout : ArrayLayout
    metas : tuple of ArrayMeta
        Of every level.
    dtype : dtype
    method : {"mean", "max"}
    compression : int
        Level of zstd.
    shuffle : bool
    verify : bool
        Whether every chunk is read back.
    """

    stage: Stage
    path: str
    layout: ArrayLayout
    metas: tuple[ArrayMeta, ...]
    dtype: np.dtype[Any]
    method: Method
    compression: int
    shuffle: bool
    verify: bool

    def array(self, level: int) -> str:
        """Path of a level's array in the store."""
        return f"{self.path}/{level}" if self.path else str(level)


def _buffer(name: str, nbytes: int) -> NDArray[np.uint8]:
    """Memory of this thread of at least that size, used again and again."""
    buffers: dict[str, NDArray[np.uint8]] = _local.__dict__.setdefault("buffers", {})
    found = buffers.get(name)
    if found is None or len(found) < nbytes:
        found = buffers[name] = np.empty(nbytes, np.uint8)
    return found[:nbytes]


def encode(chunk: NDArray[Any], compression: int, shuffle: bool) -> Any:
    """Compress a contiguous chunk; the result lives until this thread's next one."""
    flat: Any = chunk.reshape(-1).view(np.uint8)
    if shuffle and chunk.dtype.itemsize > 1:
        flat = numcodecs.shuffle.Shuffle(chunk.dtype.itemsize).encode(flat)
    out: Any = _buffer("encoded", chunk.nbytes + (chunk.nbytes >> 7) + 1024)
    return imagecodecs.zstd_encode(flat, level=compression, out=out)


class ShardEncoder:
    """The shards of an image that are being written; `write` may be called by any number of threads.

    Parameters
    ----------
    target : ImageTarget
    pool : ThreadPoolExecutor
        Where finished shards are read back.
    cancel : CancelToken

    Attributes
    ----------
    checks : deque of Future
        Finished shards that are read back, oldest first.
    """

    def __init__(self, target: ImageTarget, pool: ThreadPoolExecutor, cancel: CancelToken) -> None:
        self.target, self.layout = target, target.layout
        self.pool, self.cancel = pool, cancel
        self.files = OpenFiles()
        self.shards: dict[tuple[int, tuple[int, ...]], ShardWriter] = {}
        self.checks: deque[Future[None]] = deque()
        self._shards_lock = threading.Lock()
        self._progress_lock = threading.Lock()
        self._progressed = 0

    def close(self) -> None:
        """Close all files and abandon the shards that are not finished; nothing may be written any more."""
        self.files.close()
        for shard in self.shards.values():
            shard.abandon()

    def progress(self) -> int:
        """Bytes that were written or checked since the last call."""
        with self._progress_lock:
            amount, self._progressed = self._progressed, 0
        return amount

    def _count(self, nbytes: int) -> None:
        with self._progress_lock:
            self._progressed += nbytes

    def write(
        self, number: int, shard: tuple[int, ...], place: tuple[int, ...], voxels: NDArray[Any]
    ) -> NDArray[Any]:
        """Encode a chunk and add it to its shard; returns its voxels, now in this thread's own memory."""
        level = self.layout.levels[number]
        nbytes = math.prod(level.chunk) * voxels.dtype.itemsize
        chunk = _buffer("chunk", nbytes).view(voxels.dtype).reshape(level.chunk)
        if voxels.shape != level.chunk:
            chunk[...] = 0
        mine = chunk[tuple(slice(0, n) for n in voxels.shape)]
        mine[...] = voxels
        writer = self._shard(number, shard)
        inner = [p % n for p, n in zip(place, level.chunks_per_shard, strict=True)]
        position = int(np.ravel_multi_index(inner, level.chunks_per_shard))
        encoded = encode(chunk, self.target.compression, self.target.shuffle)
        complete = writer.append(position, encoded, digest_of(chunk))
        self._count(voxels.nbytes)
        if complete:
            self._finish(number, shard, writer)
        return mine

    def _shard(self, number: int, index: tuple[int, ...]) -> ShardWriter:
        with self._shards_lock:
            writer = self.shards.get((number, index))
            if writer is None:
                level, meta = self.layout.levels[number], self.target.metas[number]
                count = math.prod(
                    min(p, g - i * p)
                    for i, p, g in zip(index, level.chunks_per_shard, level.chunk_grid, strict=True)
                )
                name = self.target.array(number)
                writer = self.shards[(number, index)] = ShardWriter(
                    self.target.stage.shard_path(name, meta, index),
                    self.target.stage.seal_path(name, meta, index),
                    meta,
                    count,
                    self.files,
                )
            return writer

    def _finish(self, number: int, index: tuple[int, ...], writer: ShardWriter) -> None:
        writer.finish()
        with self._shards_lock:
            del self.shards[(number, index)]
        if not self.target.verify:
            return
        level = self.layout.levels[number]
        clipped = math.prod(
            min(s, n - i * s) for i, s, n in zip(index, level.shard, level.shape, strict=True)
        )
        parts = writer.parts()
        share = clipped * self.target.dtype.itemsize // len(parts)
        rest = clipped * self.target.dtype.itemsize - share * len(parts)
        for i, part in enumerate(parts):
            self.checks.append(self.pool.submit(self._check, writer, part, share + (rest if i == 0 else 0)))

    def _check(self, writer: ShardWriter, part: NDArray[np.int64], nbytes: int) -> None:
        self.cancel.check()
        writer.verify(part)
        self._count(nbytes)
