"""Crops on a GPU against the CPU, with this program on both, in one run on one machine.

    python benchmarks/gpu.py [--rounds N] [--seconds S] [--size N] [--markdown FILE]

Aligned crops and crops turned by 30 degrees about an oblique axis (nearest and linear), of 128-cubed
and 512-cubed, uint16, from a sharded image with zstd chunks of 64-cubed.

    CPU             the CPU executor
    GPU to host     the CUDA executor, the result fetched into this machine's memory
    GPU stays       the CUDA executor, the result left on the GPU
    GPU kernel      chunks already on the GPU: copying or sampling alone

Every way is run once before it is timed; the median of the rounds counts. Files are in the page cache.
Results are compared: bit for bit for aligned and nearest, within one unit for linear. Without a GPU it
says why, and times the CPU alone.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import zarr
import zarr.codecs as zc

from napari_decant import ChunkPlanner, CpuExecutor, CpuLimits, NgffImage, Sampler
from napari_decant.engine import Plan
from napari_decant.engine.cuda import CudaExecutor, CudaLimits, cuda_problem
from napari_decant.spatial import level_crop, rotated_crop

CHUNK, SHARD = 64, 256
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def make_image(path: Path, size: int) -> None:
    """Camera-like uint16, a slab of shards at a time; an image of that size that is there is kept."""
    done = path / "done"
    if done.exists():
        return
    group = zarr.open_group(path, mode="w", zarr_format=3)
    array = group.create_array(
        "0", shape=(size,) * 3, dtype="u2", chunks=(CHUNK,) * 3, shards=(SHARD,) * 3,
        compressors=zc.ZstdCodec(level=3), dimension_names=list("zyx"),
    )  # fmt: skip
    rng = np.random.default_rng(0)
    wave = 150 * (np.sin(np.linspace(0, 9, size, dtype="f4")) + 1)
    noise = rng.poisson(200, (CHUNK, size, size)).astype("u2")
    for start in range(0, size, SHARD):
        slab = np.empty((min(SHARD, size - start), size, size), "u2")
        for z in range(len(slab)):
            slab[z] = noise[z % CHUNK] + (wave[start + z] + np.add.outer(wave, wave)).astype("u2")
        array[start : start + len(slab)] = slab
    axes = [{"name": n, "type": "space", "unit": "micrometer"} for n in "zyx"]
    transform = [{"type": "scale", "scale": [1.0] * 3}]
    datasets = [{"path": "0", "coordinateTransformations": transform}]
    group.attrs["ome"] = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": datasets}]}
    done.touch()


def plan_of(image: NgffImage, planner: ChunkPlanner, kind: str, side: int, size: int) -> Plan:
    """What one crop in the middle of the image reads."""
    if kind == "aligned":
        start = [(size - side) // 2 + 5] * 3
        resolved = level_crop(image, 0, start, [a + side for a in start]).resolve(image)
    else:
        resolved = rotated_crop(
            image, (size / 2,) * 3, (side,) * 3, (22.5, -12.6, 22.5), units="reference",
            sampler=Sampler(kind, "constant"),
        ).resolve(image)  # fmt: skip
    return planner.plan([resolved])


def measure(call: Callable[[], object], rounds: int, ends: float) -> float:
    """Median seconds of some calls, after one that does not count; fewer rounds if time runs out."""
    call()
    took = []
    for _ in range(rounds):
        began = time.perf_counter()
        call()
        took.append(time.perf_counter() - began)
        if time.monotonic() > ends:
            break
    return statistics.median(took)


def kernel_seconds(cuda: CudaExecutor, plan: Plan) -> float:
    """Copying and sampling alone, by the GPU's own clock."""
    import cupy

    spans: list[float] = []
    launch = cuda.device.launch

    def timed(*arguments: object) -> None:
        events = [cupy.cuda.Event(), cupy.cuda.Event()]
        events[0].record(cuda.device.stream)
        launch(*arguments)  # type: ignore[arg-type]
        events[1].record(cuda.device.stream)
        events[1].synchronize()
        spans.append(cupy.cuda.get_elapsed_time(*events) / 1000)

    cuda.device.launch = timed  # type: ignore[method-assign]
    try:
        cuda.run_on_device(plan)
    finally:
        cuda.device.launch = launch  # type: ignore[method-assign]
    return sum(spans)


def check(found: np.ndarray, wanted: np.ndarray, kind: str) -> None:
    """End the program if the GPU's result is not the CPU's."""
    worst = int(np.abs(found.astype(np.int32) - wanted).max())
    if worst > (kind == "linear"):
        sys.exit(f"the GPU's {kind} crop differs from the CPU's by up to {worst}")


def row(kind: str, side: int, plan: Plan, seconds: dict[str, float]) -> str:
    """One line of the table."""
    cells = [f"{side}³ {kind}", f"{plan.summary.chunks:,}"]
    for name in ("CPU", "GPU to host", "GPU stays", "GPU kernel"):
        took = seconds.get(name)
        rate = "" if took is None else f" ({side**3 * 2 / took / 1e9:.2f} GB/s)"
        cells.append("-" if took is None else f"{took * 1000:,.1f} ms{rate}")
    both = "GPU to host" in seconds
    cells.append(f"{seconds['CPU'] / seconds['GPU to host']:.1f}x" if both else "-")
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "napari-decant-bench")
    parser.add_argument("--size", type=int, default=768, help="side of the image")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=300, help="after which rounds are cut short")
    parser.add_argument("--markdown", type=Path, help="write the table there too")
    options = parser.parse_args()
    ends = time.monotonic() + options.seconds
    path = options.data / f"gpu-{options.size}.zarr"
    make_image(path, options.size)
    image, planner = NgffImage(path), ChunkPlanner()
    problem = cuda_problem()
    cpu = CpuExecutor(limits=CpuLimits(max_memory_bytes=4 << 30))
    cuda = None if problem else CudaExecutor(limits=CudaLimits(max_memory_bytes=4 << 30))
    where = cuda.device.name if cuda is not None else f"no GPU is used: {problem}"
    lines = [
        f"{platform.processor() or platform.machine()}, {CORES} cores; {where}",
        "",
        "| crop | chunks | CPU | GPU to host | GPU stays | GPU kernel | CPU / GPU to host |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    print("\n".join(lines), flush=True)
    for side in (128, 512):
        for kind in ("aligned", "nearest", "linear"):
            plan = plan_of(image, planner, kind, side, options.size)
            out = [np.empty((side,) * 3, "u2")]
            seconds = {
                "CPU": measure(lambda plan=plan, out=out: cpu.run(plan, out=out), options.rounds, ends)
            }
            if cuda is not None:
                wanted = out[0].copy()
                ways = {
                    "GPU to host": lambda plan=plan, out=out: cuda.run(plan, out=out),
                    "GPU stays": lambda plan=plan: cuda.run_on_device(plan),
                }
                seconds |= {name: measure(way, options.rounds, ends) for name, way in ways.items()}
                check(out[0], wanted, kind)
                seconds["GPU kernel"] = kernel_seconds(cuda, plan)
            lines.append(row(kind, side, plan, seconds))
            print(lines[-1], flush=True)
    cpu.close()
    if cuda is not None:
        cuda.close()
    if options.markdown is not None:
        options.markdown.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
