"""From resolutions to a plan: distinct chunks, byte ranges, and which chunk goes where."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from napari_decant.engine._limits import PlanLimits
from napari_decant.engine._locate import ABSENT, Located, locate_chunks
from napari_decant.engine._metadata import ZarrMetadata
from napari_decant.engine._plan import AxisPieces, CopyOutput, Plan, PlanArray, Summary, TiledOutput
from napari_decant.engine._tiles import spatial_tiles
from napari_decant.errors import BudgetExceeded, DecantError, UsageError
from napari_decant.ngff._zarr import ArrayMeta
from napari_decant.spatial import AxisIndices, IndexResolution, SpatialResolution

__all__ = ["ChunkPlanner", "Resolution"]

Resolution = SpatialResolution | IndexResolution
_FLAT: Final = 2.0**62
_FEW: Final = 32  # below this plain Python is faster than numpy


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
            self.outputs[number], positions = self._tiled(sample, meta, place)
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
            self._check_pieces(axis, size)
        axes = tuple(_pieces(axis, size) for axis, size in zip(cuts, meta.chunk_shape, strict=True))
        self._count(math.prod(float(len(axis.chunks)) for axis in axes))
        positions = _product([axis.chunks for axis in axes])
        return CopyOutput(sample.shape, place, axes), positions

    def _check_pieces(self, axis: AxisIndices, size: int) -> None:
        pieces = (
            axis.count
            if axis.indices is not None
            else min(axis.count, axis.count * abs(axis.step) / size + 2)
        )
        if pieces > self.limits.max_chunks:
            raise BudgetExceeded("max_chunks", int(pieces), self.limits.max_chunks, "one axis of the plan")

    def _tiled(
        self, sample: SpatialResolution, meta: ArrayMeta, place: int
    ) -> tuple[TiledOutput, NDArray[np.int64]]:
        others = tuple(i for i in range(meta.rank) if i not in sample.spatial_axes)
        repeats = math.prod(sample.shape[i] for i in others)
        tiles = spatial_tiles(sample, meta, self.limits)
        uses = max(len(tiles.start), len(tiles.chunks)) * repeats
        if uses > 64 * self.limits.max_chunks:
            raise BudgetExceeded("max_chunks", uses, self.limits.max_chunks, "the output's tiles")
        other = (
            _product([np.arange(sample.shape[i]) for i in others]) if others else np.zeros((1, 0), np.int64)
        )
        start = tuple(sample.source_bounds_index[i][0] for i in others)
        # every tile, at every position of the other axes; tiles of one position stay together
        counts = np.tile(np.diff(tiles.first), len(other))
        positions = np.zeros((len(tiles.chunks) * len(other), meta.rank), np.int64)
        pad = 3 - len(sample.spatial_axes)
        positions[:, list(sample.spatial_axes)] = np.tile(tiles.chunks[:, pad:], (len(other), 1))
        for at, axis in enumerate(others):
            chunk = (other[:, at] + start[at]) // meta.chunk_shape[axis]
            positions[:, axis] = np.repeat(chunk, len(tiles.chunks))
        output = TiledOutput(
            shape=sample.shape,
            array=place,
            sampler=sample.sampler,
            spatial_axes=sample.spatial_axes,
            other_axes=others,
            linear=tiles.linear,
            offset=tiles.offset,
            grid_start=tiles.grid_start,
            other_start=start,
            tile_start=np.tile(tiles.start, (len(other), 1)),
            tile_shape=np.tile(tiles.shape, (len(other), 1)),
            tile_other=np.repeat(other, len(tiles.start), axis=0),
            tile_first=np.concatenate([[0], np.cumsum(counts)]),
            tile_chunks=np.empty(0, np.int64),  # filled in once chunks are numbered
        )
        return output, positions

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
            pieces = _product([np.arange(len(axis.chunks)) for axis in output.axes]).astype(np.int32)
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
        summary = self._summary(arrays, chunk_array, chunk_file, chunk_length, len(use_chunk))
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

    def _summary(
        self,
        arrays: tuple[PlanArray, ...],
        chunk_array: NDArray[np.int32],
        chunk_file: NDArray[np.int32],
        chunk_length: NDArray[np.int64],
        uses: int,
    ) -> Summary:
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
        planned = [output for output in self.outputs if output is not None]
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
        limits = self.limits
        for knob, need, limit in (
            ("max_chunks", chunks, limits.max_chunks),
            ("max_stored_bytes", total, limits.max_stored_bytes),
            ("max_decoded_bytes", decoded, limits.max_decoded_bytes),
        ):
            if need > limit:
                raise BudgetExceeded(knob, need, limit, "the plan")
        return summary


def _joined(parts: list[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, dtype)


def _product(axes: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Every combination, one a row, the last axis fastest."""
    dims = tuple(len(axis) for axis in axes)
    count = math.prod(dims)
    if count <= _FEW and axes:
        return np.array(list(product(*[axis.tolist() for axis in axes])), np.int64).reshape(count, len(dims))
    rows = np.empty((count, len(axes)), np.int64)
    table = rows.reshape(*dims, len(axes))
    for at, axis in enumerate(axes):
        table[..., at] = axis.reshape((-1,) + (1,) * (len(dims) - 1 - at))
    return rows


def _pieces(axis: AxisIndices, size: int) -> AxisPieces:
    """Cut one axis of a copy at chunk borders."""
    if axis.count == 0:
        empty = np.empty(0, np.int64)
        return AxisPieces(empty, (), (), np.empty((0, 2), np.int64))
    if axis.indices is None and axis.step == 1:
        start, stop = axis.start, axis.start + axis.count
        source, target, ends = [], [], []
        for at in range(start - start % size, stop, size):
            first, last = max(at, start), min(at + size, stop)
            source.append(slice(first - at, last - at, 1))
            target.append(slice(first - start, last - start))
            ends.append((first - at, last - at - 1))
        numbers = np.arange(start // size, start // size + len(source))
        return AxisPieces(numbers, tuple(source), tuple(target), np.array(ends, np.int64))
    indices = axis.to_array()
    chunk = indices // size
    order = np.argsort(chunk, kind="stable")
    chunks, begins = np.unique(chunk[order], return_index=True)
    groups = np.split(order, begins[1:])
    sources = [indices[group] - c * size for c, group in zip(chunks.tolist(), groups, strict=True)]
    spans = np.array([(s.min(), s.max()) for s in sources], np.int64).reshape(-1, 2)
    return AxisPieces(chunks, tuple(map(_as_slice, sources)), tuple(map(_as_slice, groups)), spans)


def _as_slice(indices: NDArray[np.int64]) -> slice | NDArray[np.int64]:
    """Turn an ascending progression into a slice, which copies faster than a list."""
    if len(indices) == 1:
        return slice(int(indices[0]), int(indices[0]) + 1, 1)
    steps = np.diff(indices)
    if steps[0] > 0 and (steps == steps[0]).all():
        return slice(int(indices[0]), int(indices[-1]) + 1, int(steps[0]))
    return indices
