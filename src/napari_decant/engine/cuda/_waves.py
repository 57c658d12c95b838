"""Which chunks of a plan are on the GPU together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from napari_decant.engine._locate import ABSENT
from napari_decant.engine._plan import Plan, TiledOutput

__all__ = ["CudaWave", "chunk_needs", "chunk_sizes", "make_waves"]

_ALIGN: Final = 256
_NO_USES: Final = np.empty(0, np.int64)


@dataclass(slots=True)
class CudaWave:
    """Chunks that are on the GPU together, and what is made from them.

    Attributes
    ----------
    chunks, begins : int64 arrays, shape (n,)
        Stored chunks of the plan, ascending, and where each lies among the resident ones, in bytes.
    tiles : dict
        Tiles to sample of each output.
    uses : int64 array
        Copies to make, as rows of ``plan.use_chunk``.
    """

    chunks: NDArray[np.int64]
    begins: NDArray[np.int64]
    tiles: dict[int, NDArray[np.int64]] = field(default_factory=dict)
    uses: NDArray[np.int64] = field(default_factory=lambda: _NO_USES)


def chunk_sizes(plan: Plan) -> NDArray[np.int64]:
    """Bytes that each chunk of a plan takes on the GPU: as it is stored, decoded."""
    each = np.array([array.meta.chunk_nbytes for array in plan.arrays] or [0], np.int64)
    return (-(-each // _ALIGN) * _ALIGN)[plan.chunk_array]


def chunk_needs(plan: Plan, live: Sequence[bool]) -> tuple[int, int]:
    """Bytes of chunks that must be on the GPU together at least, and that could be.

    Parameters
    ----------
    plan : Plan
    live : sequence of bool
        Which outputs are made.
    """
    sizes = chunk_sizes(plan)
    stored = plan.chunk_file >= 0
    wanted = _copied(plan, live)
    least = int(sizes[wanted].max(initial=0))
    for output, made in zip(plan.outputs, live, strict=True):
        if made and isinstance(output, TiledOutput) and len(output.tile_chunks):
            held = np.concatenate([[0], np.cumsum(np.where(stored, sizes, 0)[output.tile_chunks])])
            least = max(least, int((held[output.tile_first[1:]] - held[output.tile_first[:-1]]).max()))
            wanted[output.tile_chunks] = True
    return least, int(sizes[wanted & stored].sum())


def _copied(plan: Plan, live: Sequence[bool]) -> NDArray[np.bool_]:
    """Stored chunks that copies need."""
    wanted = np.zeros(len(plan.chunk_file), bool)
    if len(plan.use_chunk):
        wanted[plan.use_chunk[np.asarray(live, bool)[plan.use_output]]] = True
    return wanted & (plan.chunk_file >= 0)


def make_waves(plan: Plan, live: Sequence[bool], room: int) -> list[CudaWave]:
    """Group tiles, in order, and then copies, so that the chunks of each group fit into ``room`` bytes.

    Chunks that two groups of tiles need come twice; those of copies come with the first tiles that need
    them too.
    """
    stored = plan.chunk_file >= 0
    copied = _copied(plan, live)
    if chunk_needs(plan, live)[1] <= room:
        groups = [_everything(plan, live, stored, copied)]
    else:
        groups = _grouped(plan, live, stored, copied, room)
    sizes = chunk_sizes(plan)
    use_live = np.asarray(live, bool)[plan.use_output] if len(plan.use_output) else np.empty(0, bool)
    owed = use_live & ((plan.chunk_file[plan.use_chunk] == ABSENT) | stored[plan.use_chunk])
    waves = []
    for at, (chunks, tiles) in enumerate(groups):
        here = np.zeros(len(stored), bool)
        here[chunks] = True
        if at == 0:
            here |= plan.chunk_file == ABSENT
        uses = np.flatnonzero(owed & here[plan.use_chunk])
        owed[uses] = False
        begins = np.cumsum(sizes[chunks]) - sizes[chunks]
        waves.append(CudaWave(chunks, begins, tiles, uses))
    return waves


_Group = tuple[NDArray[np.int64], dict[int, NDArray[np.int64]]]


def _everything(
    plan: Plan, live: Sequence[bool], stored: NDArray[np.bool_], copied: NDArray[np.bool_]
) -> _Group:
    wanted = copied.copy()
    tiles = {}
    for number, output in enumerate(plan.outputs):
        if live[number] and isinstance(output, TiledOutput):
            tiles[number] = np.arange(len(output.tile_start))
            wanted[output.tile_chunks] = True
    return np.flatnonzero(wanted & stored), tiles


def _grouped(
    plan: Plan, live: Sequence[bool], stored: NDArray[np.bool_], copied: NDArray[np.bool_], room: int
) -> list[_Group]:
    sizes = chunk_sizes(plan).tolist()
    together: set[int] = set()
    tiles: dict[int, list[int]] = {}
    groups: list[_Group] = []
    used = 0
    left = copied.copy()

    def close() -> None:
        nonlocal together, tiles, used
        chunks = np.array(sorted(together), np.int64)
        left[chunks] = False
        groups.append((chunks, {number: np.array(some, np.int64) for number, some in tiles.items()}))
        together, tiles, used = set(), {}, 0

    for number, output in enumerate(plan.outputs):
        if not live[number] or not isinstance(output, TiledOutput):
            continue
        for tile in range(len(output.tile_start)):
            chunks = output.tile_chunks[output.tile_first[tile] : output.tile_first[tile + 1]]
            new = set(chunks[stored[chunks]].tolist()) - together
            if used + sum(sizes[chunk] for chunk in new) > room and (together or tiles):
                close()
                new = set(chunks[stored[chunks]].tolist())
            together |= new
            used += sum(sizes[chunk] for chunk in new)
            tiles.setdefault(number, []).append(tile)
    for chunk in np.flatnonzero(left).tolist():
        if chunk in together:
            continue
        if used + sizes[chunk] > room and (together or tiles):
            close()
        together.add(chunk)
        used += sizes[chunk]
    if together or tiles or not groups:
        close()
    return groups
