"""From resolutions to a plan: distinct chunks, byte ranges, and which chunk goes where."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from napari_decant.engine._limits import PlanLimits
from napari_decant.engine._locate import Located, locate_chunks
from napari_decant.engine._metadata import ZarrMetadata
from napari_decant.engine._pieces import axis_pieces, check_pieces, combinations
from napari_decant.engine._plan import CopyOutput, Plan, PlanArray, TiledOutput
from napari_decant.engine._summary import summarize
from napari_decant.engine._tiled_output import tiled_output
from napari_decant.errors import BudgetExceeded, DecantError, UsageError
from napari_decant.ngff._zarr import ArrayMeta
from napari_decant.spatial import AxisIndices, IndexResolution, SpatialResolution

__all__ = ["ChunkPlanner", "Resolution"]

Resolution = SpatialResolution | IndexResolution
_FLAT: Final = 2.0**62


class ChunkPlanner:
    """Finds the distinct chunks that outputs need, before any chunk is read.

    Parameters
    ----------
    metadata : ZarrMetadata
        Array metadata and shard indexes.
    limits : PlanLimits, optional
    """

    def __init__(self, metadata: ZarrMetadata | None = None, limits: PlanLimits | None = None) -> None:
        self.metadata = metadata if metadata is not None else ZarrMetadata()
        self.limits = limits if limits is not None else PlanLimits()

    def plan(
        self,
        samples: Sequence[Resolution],
        *,
        keep_errors: bool = False,
        failed: Sequence[Exception | None] = (),
    ) -> Plan:
        """Plan outputs together: chunks that several need are listed once.

        Parameters
        ----------
        samples : sequence of SpatialResolution or IndexResolution
            From ``image.resolve``.
        keep_errors : bool
            Put the reason why an output cannot be planned into ``Plan.errors`` and plan the others,
            instead of raising the first.
        failed : sequence of (Exception or None), optional
            Errors known before; those outputs are left out of the plan.

        Raises
        ------
        BudgetExceeded
            The plan needs more than a limit allows.
        DecantError
            An array or shard index cannot be read.
        """
        draft = _Draft(self.metadata, self.limits, len(samples))
        for number, error in enumerate(failed):
            draft.errors[number] = error
        for number, sample in enumerate(samples):
            if draft.errors[number] is not None:
                continue
            try:
                draft.add(number, sample)
            except BudgetExceeded:
                raise
            except DecantError as caught:
                if not keep_errors:
                    raise
                draft.errors[number] = caught
        plan = draft.finish()
        if not keep_errors:
            for error in plan.errors:
                if error is not None:
                    raise error
        return plan


class _Group:
    """The outputs that read one array."""

    def __init__(self, array: PlanArray) -> None:
        self.array = array
        self.members: list[tuple[int, NDArray[np.int64]]] = []  # (output, chunk positions)
        self.repeats = False  # whether one member may list a chunk more than once

    def distinct(self) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
        """Distinct chunk positions, and for each member where its chunks stand among them."""
        if len(self.members) == 1 and not self.repeats:
            positions = self.members[0][1]
            return positions, [np.arange(len(positions))]
        everything = np.concatenate([positions for _, positions in self.members])
        if not len(everything):
            return everything, [np.empty(0, np.int64) for _ in self.members]
        low = everything.min(axis=0)
        dims = everything.max(axis=0) - low + 1
        if dims.astype(np.float64).prod() < _FLAT:
            flat = (
                np.ravel_multi_index(tuple((everything - low).T), tuple(dims))
                if low.size
                else everything[:, 0]
            )
            _, pick, inverse = np.unique(flat, return_index=True, return_inverse=True)
        else:
            _, pick, inverse = np.unique(everything, axis=0, return_index=True, return_inverse=True)
        ends = np.cumsum([len(positions) for _, positions in self.members])
        return everything[pick], np.split(inverse.reshape(-1), ends[:-1])


class _Draft:
    """A plan in the making."""

    def __init__(self, metadata: ZarrMetadata, limits: PlanLimits, count: int) -> None:
        self.metadata, self.limits = metadata, limits
        self.errors: list[Exception | None] = [None] * count
        self.outputs: list[CopyOutput | TiledOutput | None] = [None] * count
        self.groups: dict[tuple[str, str], _Group] = {}
        self.order: list[_Group] = []
        self.chunks = 0

    def add(self, number: int, sample: Resolution) -> None:
        """Cut one output at chunk borders or into tiles."""
        if not isinstance(sample, SpatialResolution | IndexResolution):
            raise UsageError(f"{type(sample).__name__} is no resolved query; call image.resolve first")
        group = self._group(sample)
        meta = group.array.meta
        if len(sample.shape) != meta.rank or any(
            not (0 <= a <= b <= n) for (a, b), n in zip(sample.read_bounds_index, meta.shape, strict=False)
        ):
            raise UsageError(
                f"the query was resolved for another array than {group.array.path} of {sample.uri}"
            )
        place = self.order.index(group)
        if isinstance(sample, SpatialResolution) and sample.requires_resampling:
            self.outputs[number], positions = tiled_output(sample, meta, place, self.limits)
            group.repeats = True
        else:
            self.outputs[number], positions = self._copy(sample, meta, place)
        group.members.append((number, positions))

    def _group(self, sample: Resolution) -> _Group:
        key = (sample.uri, sample.path)
        if key not in self.groups:
            meta = sample.array if isinstance(sample.array, ArrayMeta) else self.metadata.array(*key)
            self.groups[key] = _Group(PlanArray(*key, meta))
            self.order.append(self.groups[key])
        return self.groups[key]

    def _count(self, chunks: float) -> None:
        if self.chunks + chunks > self.limits.max_chunks:
            need = self.chunks + int(min(chunks, 2.0**62))
            raise BudgetExceeded("max_chunks", need, self.limits.max_chunks, "the plan")
        self.chunks += int(chunks)

    def _copy(self, sample: Resolution, meta: ArrayMeta, place: int) -> tuple[CopyOutput, NDArray[np.int64]]:
        if isinstance(sample, IndexResolution):
            cuts = sample.selection
        else:
            cuts = tuple(AxisIndices(a, 1, b - a) for a, b in sample.read_bounds_index)
        for axis, size in zip(cuts, meta.chunk_shape, strict=True):
            check_pieces(axis, size, self.limits)
        axes = tuple(axis_pieces(axis, size) for axis, size in zip(cuts, meta.chunk_shape, strict=True))
        self._count(math.prod(float(len(axis.chunks)) for axis in axes))
        positions = combinations([axis.chunks for axis in axes])
        return CopyOutput(sample.shape, place, axes), positions

    def finish(self) -> Plan:
        """Number the distinct chunks, locate them, and list who uses them."""
        rank = max((group.array.meta.rank for group in self.order), default=0)
        located: list[Located] = []
        indices: list[NDArray[np.int64]] = []
        owners: list[NDArray[np.int32]] = []
        uses: list[tuple[NDArray[Any], int, NDArray[Any]]] = []
        files: dict[tuple[str, str], int] = {}
        base = 0
        for place, group in enumerate(self.order):
            if not group.members:
                continue
            positions, rows = group.distinct()
            found = locate_chunks(self.metadata, group.array, positions, files, self.limits)
            located.append(found)
            short = rank - positions.shape[1]
            indices.append(np.pad(positions, ((0, 0), (0, short))) if short else positions)
            owners.append(np.full(len(positions), place, np.int32))
            for (number, _), row in zip(group.members, rows, strict=True):
                self._use(number, row + base, found.error_among(row), rank, uses)
            base += len(positions)
        return self._assemble(located, indices, owners, uses, files, rank)

    def _use(
        self,
        number: int,
        chunks: NDArray[np.int64],
        error: Exception | None,
        rank: int,
        uses: list[tuple[NDArray[Any], int, NDArray[Any]]],
    ) -> None:
        output = self.outputs[number]
        if error is not None:
            self.errors[number], self.outputs[number] = error, None
        elif isinstance(output, TiledOutput):
            self.outputs[number] = replace(output, tile_chunks=np.ascontiguousarray(chunks, np.int64))
        elif output is not None:
            pieces = combinations([np.arange(len(axis.chunks)) for axis in output.axes]).astype(np.int32)
            if pieces.shape[1] < rank:
                pieces = np.pad(pieces, ((0, 0), (0, rank - pieces.shape[1])))
            uses.append((chunks, number, pieces))

    def _assemble(
        self,
        located: list[Located],
        indices: list[NDArray[np.int64]],
        owners: list[NDArray[np.int32]],
        uses: list[tuple[NDArray[Any], int, NDArray[Any]]],
        files: dict[tuple[str, str], int],
        rank: int,
    ) -> Plan:
        use_chunk = _joined([chunks.astype(np.int32) for chunks, _, _ in uses], np.int32)
        use_output = _joined([np.full(len(chunks), number, np.int32) for chunks, number, _ in uses], np.int32)
        use_piece = (
            _joined([pieces for _, _, pieces in uses], np.int32) if uses else np.empty((0, rank), np.int32)
        )
        if len(uses) > 1:
            order = np.argsort(use_chunk, kind="stable")
            use_chunk, use_output, use_piece = use_chunk[order], use_output[order], use_piece[order]
        chunk_file = _joined([found.file for found in located], np.int32)
        chunk_length = _joined([found.length for found in located], np.int64)
        chunk_array = _joined(owners, np.int32)
        arrays = tuple(group.array for group in self.order)
        summary = summarize(
            arrays, self.outputs, chunk_array, chunk_file, chunk_length, len(use_chunk), self.limits
        )
        return Plan(
            arrays=arrays,
            files=tuple(files),
            outputs=tuple(self.outputs),
            errors=tuple(self.errors),
            chunk_array=chunk_array,
            chunk_index=_joined(indices, np.int64) if indices else np.empty((0, rank), np.int64),
            chunk_file=chunk_file,
            chunk_offset=_joined([found.offset for found in located], np.int64),
            chunk_length=chunk_length,
            use_chunk=use_chunk,
            use_output=use_output,
            use_piece=use_piece,
            summary=summary,
        )


def _joined(parts: list[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, dtype)
