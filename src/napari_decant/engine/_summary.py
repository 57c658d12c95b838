"""What a plan amounts to, held against its limits."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from napari_decant.engine._limits import PlanLimits
from napari_decant.engine._locate import ABSENT
from napari_decant.engine._plan import CopyOutput, PlanArray, Summary, TiledOutput
from napari_decant.errors import BudgetExceeded

__all__ = ["summarize"]


def summarize(
    arrays: tuple[PlanArray, ...],
    outputs: Sequence[CopyOutput | TiledOutput | None],
    chunk_array: NDArray[np.int32],
    chunk_file: NDArray[np.int32],
    chunk_length: NDArray[np.int64],
    uses: int,
    limits: PlanLimits,
) -> Summary:
    """Count the chunks and bytes of a plan.

    Parameters
    ----------
    arrays, outputs, chunk_array, chunk_file, chunk_length
        As of `Plan`.
    uses : int
        Of chunks by copies.
    limits : PlanLimits

    Raises
    ------
    BudgetExceeded
        The plan needs more than a limit allows.
    """
    stored = chunk_file >= 0
    known = stored & (chunk_length >= 0)
    chunks = len(chunk_file)
    count, measured = int(np.count_nonzero(stored)), int(np.count_nonzero(known))
    if len(arrays) == 1:
        decoded, guess = (n * arrays[0].meta.chunk_nbytes for n in (count, count - measured))
    else:
        sizes = np.array([array.meta.chunk_nbytes for array in arrays] or [0], np.int64)[chunk_array]
        decoded, guess = int(sizes[stored].sum()), int(sizes[stored & ~known].sum())
    # nothing is known of a remote chunk before it is read; its decoded size is the honest guess
    total = int(chunk_length.sum() if measured == chunks else chunk_length[known].sum()) + guess
    planned = [output for output in outputs if output is not None]
    tiled = [output for output in planned if isinstance(output, TiledOutput)]
    summary = Summary(
        chunks=chunks,
        absent_chunks=chunks - count if count == chunks else int(np.count_nonzero(chunk_file == ABSENT)),
        stored_bytes=total,
        decoded_bytes=decoded,
        output_bytes=sum(math.prod(o.shape) * arrays[o.array].meta.dtype.itemsize for o in planned),
        uses=uses + sum(len(o.tile_chunks) for o in tiled),
        resampled=len(tiled),
        exact=count == measured,
    )
    for knob, need, limit in (
        ("max_chunks", chunks, limits.max_chunks),
        ("max_stored_bytes", total, limits.max_stored_bytes),
        ("max_decoded_bytes", decoded, limits.max_decoded_bytes),
    ):
        if need > limit:
            raise BudgetExceeded(knob, need, limit, "the plan")
    return summary
