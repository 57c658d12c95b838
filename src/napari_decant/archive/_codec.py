"""Which codec encodes pixels, and how it is named in the manifest."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from napari_decant.errors import UsageError

__all__ = ["BYTES_CODEC", "SMALLEST", "PixelCodec", "parse_codec"]

_SHUFFLES = {"noshuffle": 0, "byteshuffle": 1, "bitshuffle": 2}
_COMPRESSORS = ("zstd", "lz4", "lz4hc", "zlib", "blosclz")
_ID = re.compile(r"blosc:(\w+):(\w+):clevel=(\d)")
_BLOCK = 512 << 10
# Bytes that Blosc compresses at a time. Its own choice, 256 KiB at level 5 and 32 KiB at level 1, makes zstd
# take its parameters for small inputs: a third slower at level 5, and larger results at level 1. Beyond
# 512 KiB nothing is gained, and a reader that wants a few rows would decode more.

SMALLEST = "smallest"
"""Tries what packs the file best; see `resolve_codec`."""

_NAMED = {"default": "blosc:zstd:byteshuffle:clevel=5", "fast": "blosc:zstd:byteshuffle:clevel=1"}
_NAMED[SMALLEST] = _NAMED["default"]  # until planes have been looked at


@dataclass(frozen=True, slots=True)
class PixelCodec:
    """A Blosc 1 codec.

    Attributes
    ----------
    compressor : str
        ``"zstd"``, ``"lz4"``, ...
    shuffle : {"noshuffle", "byteshuffle", "bitshuffle"}
    level : int
        0 to 9.
    """

    compressor: str
    shuffle: str
    level: int

    def __str__(self) -> str:
        return f"blosc:{self.compressor}:{self.shuffle}:clevel={self.level}"

    @property
    def config(self) -> dict[str, Any]:
        """The ``compressor`` of ``.zarray``."""
        return {
            "id": "blosc",
            "cname": self.compressor,
            "clevel": self.level,
            "shuffle": _SHUFFLES[self.shuffle],
            "blocksize": _BLOCK,
        }

    def encode(self, array: np.ndarray) -> bytes:
        """Compress one chunk; releases the GIL and uses one thread."""
        from numcodecs.blosc import Blosc

        encoder = Blosc(self.compressor, self.level, _SHUFFLES[self.shuffle], _BLOCK)
        return bytes(encoder.encode(array)) if not array.flags.c_contiguous else encoder.encode(array)


BYTES_CODEC = PixelCodec("zstd", "noshuffle", 5)
"""For the husk and for files kept verbatim (section 3)."""


def parse_codec(text: str) -> PixelCodec:
    """Read a codec's name.

    Parameters
    ----------
    text : str
        ``default``, ``fast``, ``smallest`` or an id like ``blosc:zstd:byteshuffle:clevel=5``.

    Raises
    ------
    UsageError
        There is no such codec.
    """
    match = _ID.fullmatch(_NAMED.get(text, text))
    if match is None or match[1] not in _COMPRESSORS or match[2] not in _SHUFFLES:
        raise UsageError(
            f"codec {text!r} is unknown; use {', '.join(_NAMED)} or an id such as {_NAMED['default']!r}"
        )
    return PixelCodec(match[1], match[2], int(match[3]))
