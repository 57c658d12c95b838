"""Counts and times of what was done."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Stats"]


@dataclass(slots=True)
class Stats:
    """What reading, decoding and sampling took.

    Attributes
    ----------
    plan_seconds, read_seconds, decode_seconds, sample_seconds : float
        Time spent in each stage, summed over threads.
    reads, read_bytes : int
        Read calls and the bytes they returned.
    chunks, decoded_bytes : int
        Chunks decoded, wholly or in part, and the bytes that came of it.
    absent_chunks : int
        Chunks filled without a read.
    uses : int
        Regions written; more than chunks where chunks are shared.
    batches, samples, failed_samples : int
        Handed out.
    output_bytes : int
        Bytes of the outputs.
    """

    plan_seconds: float = 0.0
    read_seconds: float = 0.0
    decode_seconds: float = 0.0
    sample_seconds: float = 0.0
    reads: int = 0
    read_bytes: int = 0
    chunks: int = 0
    decoded_bytes: int = 0
    absent_chunks: int = 0
    uses: int = 0
    batches: int = 0
    samples: int = 0
    failed_samples: int = 0
    output_bytes: int = 0

    def add(self, other: Stats) -> None:
        """Add the counts of another."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def reuse(self) -> float:
        """Regions written per chunk decoded."""
        return self.uses / self.chunks if self.chunks else 0.0
