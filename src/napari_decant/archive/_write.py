"""Write the entries of one archive: chunks as they come, then the documents, then the directory."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from napari_decant.archive._attrs import array_document, metadata_documents
from napari_decant.archive._codec import BYTES_CODEC, PixelCodec
from napari_decant.archive._manifest import MANIFEST_KEY
from napari_decant.stores._atomic import storage_error
from napari_decant.stores._zip_write import StoredZipWriter

__all__ = ["BYTES_CHUNK", "SUMS_KEY", "ArchiveWriter", "Encoded", "encode_chunk"]

SUMS_KEY = ".decant/sha256sums"
BYTES_CHUNK = 4 << 20
"""Chunk of the husk and of a file kept verbatim."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """One entry ready to be written: all that costs time is done in the worker."""

    key: str
    data: bytes
    crc: int
    sha256: str

    @classmethod
    def of(cls, key: str, data: bytes) -> Encoded:
        """Compute the checksums of an entry."""
        return cls(key, data, zlib.crc32(data), hashlib.sha256(data).hexdigest())


def encode_chunk(key: str, array: np.ndarray, codec: PixelCodec) -> Encoded:
    """Compress a chunk into an entry."""
    return Encoded.of(key, codec.encode(array))


class ArchiveWriter:
    """Collects an archive in a file.

    Parameters
    ----------
    file : BinaryIO
        Open for writing at its first byte.
    target : Path
        Final name, for messages.
    """

    def __init__(self, file: BinaryIO, target: Path) -> None:
        self._zip = StoredZipWriter(file)
        self._target = target
        self._sums: list[tuple[str, str]] = []
        self._arrays: dict[str, dict[str, Any]] = {}

    def add_array(
        self, name: str, shape: Sequence[int], chunks: Sequence[int], dtype: np.dtype, codec: PixelCodec
    ) -> None:
        """Announce an array; its chunks follow by `put`."""
        self._arrays[name] = array_document(shape, chunks, dtype, codec)

    def add_image(
        self, leading: Sequence[int], planes: Sequence[Sequence[int]], dtype: np.dtype, codec: PixelCodec
    ) -> None:
        """Announce the pixel array and its derived levels: one plane a chunk.

        Parameters
        ----------
        leading : sequence of int
            Extents of the leading axes.
        planes : sequence of shapes
            Of a plane at level 0, 1, ...
        """
        for level, plane in enumerate(planes):
            self.add_array(str(level), (*leading, *plane), (1,) * len(leading) + tuple(plane), dtype, codec)

    def add_bytes_array(self, name: str, size: int) -> None:
        """Announce a 1-D uint8 array cut into chunks of `BYTES_CHUNK`."""
        # An array of length 0 still needs a chunk length, and has no chunk.
        self.add_array(name, [size], [min(BYTES_CHUNK, max(1, size))], np.dtype("u1"), BYTES_CODEC)

    def put(self, entries: Iterable[Encoded]) -> None:
        """Append entries in their order."""
        try:
            for entry in entries:
                self._zip.write(entry.key, entry.data, entry.crc)
                self._sums.append((entry.sha256, entry.key))
        except OSError as error:
            raise storage_error("writing", self._target, error) from error

    def finish(self, attributes: dict[str, Any], manifest: bytes) -> None:
        """Write documents, sums and directory: the directory names the documents first."""
        documents = metadata_documents(attributes, self._arrays)
        leading = [
            ".zgroup",
            ".zattrs",
            ".zmetadata",
            MANIFEST_KEY,
            *(f"{name}/.zarray" for name in self._arrays),
        ]
        documents[MANIFEST_KEY] = manifest
        self.put(Encoded.of(key, documents[key]) for key in leading)
        sums = "".join(f"{digest}  {key}\n" for digest, key in sorted(self._sums, key=lambda line: line[1]))
        try:
            self._zip.write(SUMS_KEY, sums.encode("ascii"))
            self._zip.finish(first=[*leading[:4], SUMS_KEY, *leading[4:]])
        except OSError as error:
            raise storage_error("writing", self._target, error) from error
