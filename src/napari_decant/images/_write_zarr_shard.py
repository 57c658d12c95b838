"""Shards that grow chunk by chunk: encoded chunks are appended, the index is written last."""

from __future__ import annotations

import json
import os
import threading
import zlib
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import google_crc32c
import numpy as np
import xxhash
from numpy.typing import NDArray

from napari_decant.engine import ChunkDecoder
from napari_decant.engine._shards import parse_shard_index
from napari_decant.errors import DecantError, IntegrityError
from napari_decant.ngff import ArrayMeta
from napari_decant.stores._atomic import storage_error

__all__ = ["OpenFiles", "ShardWriter", "digest_of", "is_finished"]

_ABSENT = np.uint64(2**64 - 1)
DIGEST = 16


def digest_of(chunk: NDArray[Any]) -> bytes:
    """Hash of a chunk's decoded bytes."""
    return xxhash.xxh3_128_digest(chunk)


class OpenFiles:
    """Files being appended to, of which only some are open at a time.

    Parameters
    ----------
    most : int
        How many; the one not used for longest is closed first, and opened again when it is next appended to.
    """

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._open: OrderedDict[Path, BinaryIO] = OrderedDict()
        self._lock = threading.Lock()

    def append(self, path: Path, data: Any) -> None:
        """Append to a file, which is made if it is not there. One thread a file at a time."""
        with self._lock:
            file = self._open.pop(path, None)
        try:
            if file is None:
                path.parent.mkdir(parents=True, exist_ok=True)
                file = open(path, "ab", buffering=0)  # noqa: SIM115
            view = memoryview(data).cast("B")
            while len(view):
                view = view[file.write(view) :]
        except OSError as error:
            if file is not None:
                file.close()
            raise storage_error("writing", path, error) from error
        with self._lock:
            self._open[path] = file
            old = [self._open.popitem(last=False)[1] for _ in range(len(self._open) - self._most)]
        for other in old:
            other.close()

    def finish(self, path: Path) -> None:
        """Bring a file to the disk and close it."""
        with self._lock:
            file = self._open.pop(path, None)
        try:
            if file is None:
                file = open(path, "ab", buffering=0)  # noqa: SIM115
            with file:
                os.fsync(file.fileno())
        except OSError as error:
            raise storage_error("writing", path, error) from error

    def close(self) -> None:
        """Close every file."""
        with self._lock:
            files = list(self._open.values())
            self._open.clear()
        for file in files:
            file.close()


@dataclass(slots=True)
class _Seal:
    """What is recorded of a finished shard, so that a later run knows that it is whole."""

    size: int
    index_crc: int

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + ".part")
        part.write_text(json.dumps({"size": self.size, "index_crc": self.index_crc}))
        os.replace(part, path)

    @classmethod
    def read(cls, path: Path) -> _Seal | None:
        try:
            value = json.loads(path.read_text())
            return cls(int(value["size"]), int(value["index_crc"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None


def is_finished(path: Path, seal: Path, meta: ArrayMeta) -> bool:
    """Whether a shard of an earlier run is there as it was sealed, by its size and its index."""
    recorded = _Seal.read(seal)
    try:
        if recorded is None or path.stat().st_size != recorded.size or recorded.size < meta.index_nbytes:
            return False
        with path.open("rb") as file:
            file.seek(recorded.size - meta.index_nbytes)
            index = file.read(meta.index_nbytes)
    except OSError:
        return False
    return zlib.crc32(index) == recorded.index_crc


class ShardWriter:
    """One shard of which chunks arrive in any order and from any thread, each once.

    Only the index is kept in memory: 16 bytes a chunk, and as many for its hash.

    Parameters
    ----------
    path : Path
        The finished shard; until then it is ``PATH.part``.
    seal : Path
        Where to record that it is finished.
    meta : ArrayMeta
    count : int
        Chunks that will arrive.
    files : OpenFiles
    """

    def __init__(self, path: Path, seal: Path, meta: ArrayMeta, count: int, files: OpenFiles) -> None:
        self.path, self.seal, self.meta, self._files = path, seal, meta, files
        self._part = path.with_name(path.name + ".part")
        per = int(np.prod(meta.chunks_per_shard))
        self._index = np.full((per, 2), _ABSENT, "<u8")
        self._digests = np.zeros((per, DIGEST), np.uint8)
        self._left, self._size = count, 0
        self._lock = threading.Lock()
        try:
            self._part.unlink(missing_ok=True)
        except OSError as error:
            raise storage_error("writing", path, error) from error

    def append(self, position: int, data: Any, digest: bytes) -> bool:
        """Add an encoded chunk.

        Parameters
        ----------
        position : int
            Of the chunk in the shard, in C order.
        data : bytes-like
        digest : bytes
            Of the decoded chunk, for `verify`.

        Returns
        -------
        bool
            Whether the shard now has all its chunks, so that `finish` can be called.
        """
        length = len(memoryview(data).cast("B"))
        with self._lock:
            self._files.append(self._part, data)
            self._index[position] = self._size, length
            self._digests[position] = np.frombuffer(digest, np.uint8)
            self._size += length
            self._left -= 1
            return self._left == 0

    def finish(self) -> None:
        """Write the index, bring the file to the disk and give it its name."""
        raw = self._index.tobytes()
        index = raw + google_crc32c.value(raw).to_bytes(4, "little")
        self._files.append(self._part, index)
        self._files.finish(self._part)
        try:
            os.replace(self._part, self.path)
            _Seal(self._size + len(index), zlib.crc32(index)).write(self.seal)
        except OSError as error:
            raise storage_error("writing", self.path, error) from error

    def parts(self, size: int = 32) -> list[NDArray[np.int64]]:
        """Chunks that were written, in the order in which they lie in the file, divided for `verify`."""
        written = np.flatnonzero(self._index[:, 0] != _ABSENT)
        ordered = written[np.argsort(self._index[written, 0], kind="stable")]
        return [ordered[i : i + size] for i in range(0, len(ordered), size)]

    def verify(self, positions: NDArray[np.int64]) -> None:
        """Read chunks of the finished shard back and compare each by its hash; any thread may do a part.

        Raises
        ------
        IntegrityError
            A chunk, or the index, differs from what was written. The shard is removed.
        """
        decoder = ChunkDecoder(self.meta)
        out = np.empty(self.meta.chunk_shape, self.meta.native_dtype)
        try:
            with self.path.open("rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(max(0, size - self.meta.index_nbytes))
                entries = parse_shard_index(
                    self.meta, file.read(self.meta.index_nbytes), size, self.path.name
                )
                for position in positions:
                    file.seek(int(entries.offsets[position]))
                    decoder.decode(file.read(int(entries.lengths[position])), out)
                    if digest_of(out) != self._digests[position].tobytes():
                        raise IntegrityError(f"chunk {int(position)} differs")
        except OSError as error:
            raise storage_error("reading", self.path, error) from error
        except (DecantError, ValueError) as error:
            self.path.unlink(missing_ok=True)
            self.seal.unlink(missing_ok=True)
            raise IntegrityError(
                f"{self.path} was read back and is not what was written ({error}); the disk or the network"
                " may be failing, and the file was removed"
            ) from error

    def abandon(self) -> None:
        """Remove what was written so far."""
        self._part.unlink(missing_ok=True)
