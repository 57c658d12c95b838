"""The tables that kernels read, made from a plan with numpy. Layouts are those of ``_kernels.cu``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from napari_decant.engine._plan import CopyOutput, Plan, TiledOutput
from napari_decant.engine.cuda._device import BLOCK_THREADS
from napari_decant.engine.cuda._types import Recipe
from napari_decant.engine.cuda._waves import CudaWave
from napari_decant.spatial import BOUNDARIES

__all__ = ["OUTPUT", "SPAN", "TABLE_ALIGN", "TILE", "USE", "Launch", "PlanTables", "tables_nbytes"]

OUTPUT: Final = np.dtype([
    ("linear", "f8", 9), ("offset", "f8", 3), ("extent", "i8", 3), ("chunk", "i8", 3), ("stride", "i8", 3),
    ("target", "i8", 3), ("boundary", "i8"), ("narrow", "i8"), ("values", "u8"), ("fill", "u8", 2),
    ("constant", "u8", 2),
])  # fmt: skip
TILE: Final = np.dtype([
    ("output", "i8"), ("first", "i8", 3), ("count", "i8", 3), ("at", "i8"), ("extra", "i8"), ("low", "i8", 3),
    ("dims", "i8", 3), ("slots", "i8"),
])  # fmt: skip
USE: Final = np.dtype([(name, "i8") for name in ("output", "base", "elements", "picks", "rank")])
SPAN: Final = np.dtype([
    (name, "i8") for name in ("count", "source", "source_step", "target", "target_step", "listed")
])  # fmt: skip
TABLE_ALIGN: Final = 256
_SAMPLES_A_THREAD: Final = 4
_MOST_BLOCKS: Final = 2**31 - 1


@dataclass(slots=True)
class Launch:
    """One kernel with its tables.

    Attributes
    ----------
    kernel : str
    tables : list of array
        In the order of the kernel's arguments, after the resident chunks.
    blocks, parts : int
        Blocks, and how many of them work on one record.
    """

    kernel: str
    tables: list[NDArray[Any]]
    blocks: int
    parts: int


def _box(plan: Plan, output: TiledOutput) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First chunk and extent of the box of chunks under each tile, shapes (tiles, 3)."""
    tiles = len(output.tile_start)
    low, dims = np.zeros((tiles, 3), np.int64), np.zeros((tiles, 3), np.int64)
    some = np.diff(output.tile_first) > 0
    if some.any():
        at = output.tile_first[:-1][some]
        where = _positions(plan, output, output.tile_chunks)
        low[some] = np.minimum.reduceat(where, at, axis=0)
        dims[some] = np.maximum.reduceat(where, at, axis=0) - low[some] + 1
    return low, dims


def _positions(plan: Plan, output: TiledOutput, chunks: NDArray[np.int64]) -> NDArray[np.int64]:
    axes = output.spatial_axes
    where = np.zeros((len(chunks), 3), np.int64)
    where[:, 3 - len(axes) :] = plan.chunk_index[chunks][:, list(axes)]
    return where


def _count(part: slice | NDArray[np.int64]) -> int:
    return len(range(part.start, part.stop, part.step or 1)) if isinstance(part, slice) else len(part)


def tables_nbytes(plan: Plan, live: Sequence[bool]) -> int:
    """Bytes of all tables of a plan; what one wave needs is not more."""
    total = OUTPUT.itemsize * len(plan.outputs)
    rank = max((array.meta.rank for array in plan.arrays), default=0)
    total += len(plan.use_chunk) * (USE.itemsize + 8 * rank)
    for output, made in zip(plan.outputs, live, strict=True):
        if made and isinstance(output, TiledOutput):
            boxes = int(_box(plan, output)[1].prod(axis=1).sum())
            total += len(output.tile_start) * TILE.itemsize + 8 * boxes
        elif made and isinstance(output, CopyOutput):
            for axis in output.axes:
                total += len(axis.source) * SPAN.itemsize
                total += sum(
                    16 * max(_count(source), _count(target))
                    for source, target in zip(axis.source, axis.target, strict=True)
                    if not (isinstance(source, slice) and isinstance(target, slice))
                )
    # each of up to five tables of a kernel begins at a round address and has a record at least
    return total + 5 * 2 * TABLE_ALIGN * (1 + len(plan.outputs))


class PlanTables:
    """Tables of one plan under execution.

    Parameters
    ----------
    plan : Plan
    recipes : sequence of (Recipe or None)
        For each output that is made.
    addresses : sequence of int
        Where each output lies on the GPU.
    """

    def __init__(self, plan: Plan, recipes: Sequence[Recipe | None], addresses: Sequence[int]) -> None:
        self._plan, self.recipes = plan, recipes
        self._outputs = np.zeros(len(plan.outputs), OUTPUT)
        self._spans: list[tuple[int, ...]] = []
        self._lists: list[NDArray[np.int64]] = []
        self._listed = 0
        self._axis_spans: dict[int, list[int]] = {}
        self._boxes: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        for number, (output, recipe) in enumerate(zip(plan.outputs, recipes, strict=True)):
            if output is None or recipe is None:
                continue
            record = self._outputs[number]
            record["values"] = addresses[number]
            record["fill"] = np.frombuffer(recipe.fill, np.uint64)
            record["constant"] = np.frombuffer(recipe.constant, np.uint64)
            if isinstance(output, TiledOutput):
                self._boxes[number] = _box(plan, output)
                self._describe(record, output, self._boxes[number][1])
            else:
                self._cut(number, output)
        self._span_table = (
            np.array(self._spans, np.int64).reshape(-1, len(SPAN.names or ())).view(SPAN).reshape(-1)
        )
        self._list_table = np.concatenate(self._lists) if self._lists else np.zeros((1, 2), np.int64)

    def _describe(self, record: Any, output: TiledOutput, dims: NDArray[np.int64]) -> None:
        """Fill the record of a sampled output."""
        meta = self._plan.arrays[output.array].meta
        axes, pad = output.spatial_axes, 3 - len(output.spatial_axes)
        record["linear"] = output.linear.reshape(-1)
        record["offset"] = output.offset
        for name, values in (
            ("extent", meta.shape),
            ("chunk", meta.chunk_shape),
            ("stride", _strides(meta.chunk_shape)),
            ("target", _strides(output.shape)),
        ):
            record[name] = 1 if name in ("extent", "chunk") else 0
            record[name][pad:] = [values[axis] for axis in axes]
        record["boundary"] = BOUNDARIES.index(output.sampler.boundary)
        most = dims.max(axis=0, initial=1).astype(np.float64) * record["chunk"]
        record["narrow"] = bool((most < 2.0**31).all())

    def _cut(self, number: int, output: CopyOutput) -> None:
        """List the pieces of each axis of a copy."""
        meta = self._plan.arrays[output.array].meta
        firsts = []
        for axis, inner, outer in zip(
            output.axes, _strides(meta.chunk_shape), _strides(output.shape), strict=True
        ):
            firsts.append(len(self._spans))
            for source, target in zip(axis.source, axis.target, strict=True):
                if isinstance(source, slice) and isinstance(target, slice):
                    steps = (source.step or 1) * inner, (target.step or 1) * outer
                    self._spans.append(
                        (_count(source), source.start * inner, steps[0], target.start * outer, steps[1], -1)
                    )
                    continue
                pairs = np.stack([_indices(source) * inner, _indices(target) * outer], axis=1)
                self._spans.append((len(pairs), 0, 0, 0, 0, self._listed))
                self._lists.append(pairs)
                self._listed += len(pairs)
        self._axis_spans[number] = firsts

    def launches(self, wave: CudaWave) -> list[Launch]:
        """Kernels of one wave, each with its tables."""
        begins = np.full(len(self._plan.chunk_file), -1, np.int64)
        begins[wave.chunks] = wave.begins
        return [*self._copies(wave, begins), *self._samples(wave, begins)]

    def _samples(self, wave: CudaWave, begins: NDArray[np.int64]) -> list[Launch]:
        groups: dict[str, list[tuple[NDArray[Any], NDArray[np.int64]]]] = {}
        for number, tiles in wave.tiles.items():
            recipe = self.recipes[number]
            assert recipe is not None
            groups.setdefault(recipe.kernel, []).append(self._tiles(number, tiles, begins, recipe.itemsize))
        launches = []
        for kernel, made in groups.items():
            shift = 0
            for records, slots in made:
                records["slots"] += shift
                shift += len(slots)
            records = np.concatenate([some for some, _ in made])
            slots = np.concatenate([some for _, some in made])
            most = int(records["count"].prod(axis=1).max(initial=1))
            launches.append(_launch(kernel, [self._outputs, records, slots], most))
        return launches

    def _tiles(
        self, number: int, tiles: NDArray[np.int64], begins: NDArray[np.int64], itemsize: int
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Records of some tiles of an output, and the table of slots of their boxes."""
        output = self._plan.outputs[number]
        assert isinstance(output, TiledOutput)
        meta = self._plan.arrays[output.array].meta
        record = self._outputs[number]
        low, dims = self._boxes[number]
        records = np.zeros(len(tiles), TILE)
        records["output"] = number
        records["first"] = output.tile_start[tiles] + output.grid_start
        records["count"] = output.tile_shape[tiles]
        others = list(output.other_axes)
        outer = np.array(_strides(output.shape), np.int64)[others]
        inner = np.array(_strides(meta.chunk_shape), np.int64)[others]
        other = output.tile_other[tiles]
        source = other + np.asarray(output.other_start, np.int64)
        records["at"] = (other * outer).sum(axis=1) + (output.tile_start[tiles] * record["target"]).sum(
            axis=1
        )
        records["extra"] = (source % np.asarray(meta.chunk_shape, np.int64)[others] * inner).sum(axis=1)
        records["low"], records["dims"] = low[tiles], dims[tiles]
        volumes = dims[tiles].prod(axis=1)
        records["slots"] = np.cumsum(volumes) - volumes
        slots = np.full(max(1, int(volumes.sum())), -1, np.int64)
        counts = (output.tile_first[1:] - output.tile_first[:-1])[tiles]
        owner = np.repeat(np.arange(len(tiles)), counts)
        starts = np.cumsum(counts) - counts
        each = np.arange(int(counts.sum())) - starts[owner] + output.tile_first[:-1][tiles][owner]
        chunks = output.tile_chunks[each]
        where = _positions(self._plan, output, chunks) - records["low"][owner]
        box = records["dims"][owner]
        place = (where[:, 0] * box[:, 1] + where[:, 1]) * box[:, 2] + where[:, 2]
        at = begins[chunks]
        slots[records["slots"][owner] + place] = np.where(at >= 0, at // itemsize, -1)
        return records, slots

    def _copies(self, wave: CudaWave, begins: NDArray[np.int64]) -> list[Launch]:
        plan = self._plan
        numbers = plan.use_output[wave.uses]
        groups: dict[str, list[tuple[NDArray[Any], NDArray[np.int64]]]] = {}
        for number in np.unique(numbers).tolist():
            recipe, output = self.recipes[number], plan.outputs[number]
            assert recipe is not None
            assert isinstance(output, CopyOutput)
            uses = wave.uses[numbers == number]
            firsts = np.array(self._axis_spans[number], np.int64)
            picks = plan.use_piece[uses, : len(firsts)].astype(np.int64) + firsts
            records = np.zeros(len(uses), USE)
            records["output"], records["rank"] = number, len(firsts)
            at = begins[plan.use_chunk[uses]]
            records["base"] = np.where(at >= 0, at // recipe.itemsize, -1)
            records["elements"] = self._span_table["count"][picks].prod(axis=1)
            groups.setdefault(recipe.kernel, []).append((records, picks))
        launches = []
        for kernel, made in groups.items():
            shift = 0
            for records, picks in made:
                records["picks"] = shift + np.arange(len(records)) * picks.shape[1]
                shift += picks.size
            records = np.concatenate([some for some, _ in made])
            flat = np.concatenate([some.reshape(-1) for _, some in made])
            most = int(records["elements"].max(initial=1))
            tables = [self._outputs, records, flat, self._span_table, self._list_table]
            launches.append(_launch(kernel, tables, most))
        return launches


def _launch(kernel: str, tables: list[NDArray[Any]], most: int) -> Launch:
    count = len(tables[1])
    parts = max(1, min(-(-most // (BLOCK_THREADS * _SAMPLES_A_THREAD)), 1 << 16, _MOST_BLOCKS // count))
    return Launch(kernel, tables, parts * count, parts)


def _strides(shape: Sequence[int]) -> list[int]:
    """Elements between neighbours along each axis."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _indices(part: slice | NDArray[np.int64]) -> NDArray[np.int64]:
    return np.arange(part.start, part.stop, part.step or 1) if isinstance(part, slice) else part
