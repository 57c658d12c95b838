"""One image to sharded OME-Zarr 0.5 with its pyramid, by this program and by others, in one run.

    python benchmarks/export.py [--gigabytes 2] [--repeat 1] [--folder DIR] [--peers PYTHON]
                                [--seconds 520] [--markdown FILE]

Every contender runs in a process of its own, reads the same uint16 stack (camera-like noise, mapped from a
file) and writes chunks of 128 x 128 x 128, zstd level 1 where it can be chosen, and three more levels by the
mean. This program writes shards of 1 GiB and more, as the array standard asks; the others get shards of
128 MiB (iohub counts them in chunks), because they hold whole shards in memory. Memory is anonymous memory of
the process and its children, so that mapped files count for nobody.

``--peers`` names a Python that has ngff-zarr, ome-zarr, bioio-ome-zarr and iohub, for instance of
``python -m venv peers && peers/bin/pip install ngff-zarr ome-zarr bioio-ome-zarr iohub``. Those that cannot
be imported are left out, as are those for which ``--seconds`` in all leave no time, and the output says so.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
PLANE = (1024, 2048)
CHUNK, SHARD, LEVELS = (128, 128, 128), (256, 512, 512), 4


def ours(source: Any, target: str, verify: bool = True) -> None:
    from napari_decant.images import ImageToWrite, write_ome_zarr

    write_ome_zarr(target, ImageToWrite(source, "zyx", levels=LEVELS), verify=verify)


def ours_unchecked(source: Any, target: str) -> None:
    ours(source, target, verify=False)


def ngff_zarr(source: Any, target: str) -> None:
    import dask.array
    import ngff_zarr as nz

    image = nz.to_ngff_image(dask.array.from_array(source, chunks=SHARD), dims=("z", "y", "x"))
    factors = [2**level for level in range(1, LEVELS)]
    pyramid = nz.to_multiscales(
        image, scale_factors=factors, method=nz.Methods.DASK_BIN_SHRINK, chunks=CHUNK, cache=False
    )
    per_shard = tuple(s // c for s, c in zip(SHARD, CHUNK, strict=True))
    nz.to_ngff_zarr(target, pyramid, version="0.5", chunks_per_shard=per_shard)


def ome_zarr(source: Any, target: str) -> None:
    import dask.array
    from ome_zarr.scale import Methods
    from ome_zarr.writer import write_image
    from zarr.codecs import ZstdCodec

    image = dask.array.from_array(source, chunks=SHARD)
    factors = [dict.fromkeys("zyx", 2**level) for level in range(1, LEVELS)]
    options = {"chunks": CHUNK, "shards": SHARD, "compressors": [ZstdCodec(level=1)]}
    write_image(
        image, target, axes="zyx", scale_factors=factors, method=Methods.LOCAL_MEAN, storage_options=options
    )


def bioio_ome_zarr(source: Any, target: str) -> None:
    import dask.array
    from bioio_ome_zarr.writers import OMEZarrWriter
    from zarr.codecs import ZstdCodec

    shapes = [tuple(-(-n // 2**level) for n in source.shape) for level in range(LEVELS)]
    writer = OMEZarrWriter(
        target, shapes, source.dtype, chunk_shape=CHUNK, shard_shape=SHARD, compressor=ZstdCodec(level=1)
    )
    writer.write_full_volume(dask.array.from_array(source, chunks=SHARD))


def iohub(source: Any, target: str) -> None:
    from iohub.ngff import open_ome_zarr

    ratio = (1, 1, *(s // c for s, c in zip(SHARD, CHUNK, strict=True)))
    with open_ome_zarr(target, layout="fov", mode="w-", channel_names=["a"], version="0.5") as position:
        array = position.create_zeros("0", (1, 1, *source.shape), source.dtype, (1, 1, *CHUNK), ratio)
        for z in range(0, source.shape[0], SHARD[0]):
            array[0, 0, z : z + SHARD[0]] = source[z : z + SHARD[0]]
        position.compute_pyramid(levels=LEVELS, method="mean")


CONTENDERS: dict[str, Callable[[Any, str], None]] = {
    "napari-decant": ours,
    "napari-decant, not read back": ours_unchecked,
    "ngff-zarr": ngff_zarr,
    "ome-zarr": ome_zarr,
    "bioio-ome-zarr": bioio_ome_zarr,
    "iohub": iohub,
}
OURS = tuple(list(CONTENDERS)[:2])


@dataclass
class Result:
    """What one contender took; ``failed`` says why there is nothing."""

    seconds: float = 0.0
    memory: int = 0
    size: int = 0
    files: int = 0
    broken: str = ""
    failed: str = ""


def make_source(path: Path, gigabytes: float) -> tuple[int, ...]:
    rng = np.random.default_rng(1)
    y, x = np.mgrid[: PLANE[0], : PLANE[1]]
    scene = 400 + 200 * np.sin(x / 97) + 150 * np.cos(y / 53)
    kept = [rng.poisson(scene).astype("u2") for _ in range(8)]
    count = max(CHUNK[0], int(gigabytes * 1e9 / kept[0].nbytes) // CHUNK[0] * CHUNK[0])
    stack = np.lib.format.open_memmap(path, mode="w+", dtype="u2", shape=(count, *PLANE))
    for i in range(count):
        stack[i] = np.roll(kept[i % 8], i * 7919)
    stack.flush()
    return tuple(stack.shape)


def anonymous(pid: int) -> int:
    """Anonymous memory of a process and its children, in bytes."""
    total = 0
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        total += int(status.partition("RssAnon:")[2].split()[0]) * 1024
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                total += anonymous(int(child))
    except (OSError, IndexError, ValueError):
        return total
    return total


def run(name: str, python: str, source: Path, target: Path, left: float) -> Result:
    if left <= 0:
        return Result(failed="no time was left")
    command = [python, __file__, "--run", name, "--source", str(source), "--target", str(target)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(CORES)}
    log = target.with_suffix(".log")
    with log.open("wb") as out:
        begun = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
        peak = 0
        while process.poll() is None:
            peak = max(peak, anonymous(process.pid))
            if time.perf_counter() - begun > left:
                process.kill()
                process.wait()
                return Result(failed=f"not finished in the {left:.0f} s that were left")
            time.sleep(0.01)
    lines = log.read_text(errors="replace").strip().splitlines()
    if process.returncode:
        return Result(failed=lines[-1][:120] if lines else f"exit code {process.returncode}")
    files = [path for path in target.rglob("*") if path.is_file()]
    return Result(json.loads(lines[-1])["seconds"], peak, sum(p.stat().st_size for p in files), len(files))


def work(name: str, source: str, target: str) -> None:
    """The child: only the writing is timed, not the imports that come with it."""
    stack = np.load(source, mmap_mode="r")
    small = f"{target}.warm.zarr"
    CONTENDERS[name](np.ascontiguousarray(stack[:256, :512, :512]), small)  # imports, compiled code
    shutil.rmtree(small)
    begun = time.perf_counter()
    CONTENDERS[name](stack, target)
    print(json.dumps({"seconds": time.perf_counter() - begun}))


def judge(target: Path) -> str:
    from napari_decant.standard import check

    return ", ".join(dict.fromkeys(f.rule for f in check(target).failed())) or "none"


def table(results: dict[str, Result], raw: int) -> str:
    rows = ["| | time | MB/s | memory | size | files | broken MUSTs |", "|---|---|---|---|---|---|---|"]
    for name, r in results.items():
        if r.failed:
            rows.append(f"| {name} | {r.failed} | | | | | |")
            continue
        rows.append(
            f"| {name} | {r.seconds:.1f} s | {raw / 1e6 / r.seconds:,.0f} | {r.memory / 1e9:.2f} GB |"
            f" {r.size / 1e9:.2f} GB | {r.files:,} | {r.broken} |"
        )
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--peers", default=sys.executable)
    parser.add_argument("--seconds", type=float, default=520)
    parser.add_argument("--markdown", type=Path)
    for hidden in ("--run", "--source", "--target"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.run:
        work(chosen.run, chosen.source, chosen.target)
        return 0
    begun = time.perf_counter()
    folder = Path(tempfile.mkdtemp(dir=chosen.folder, prefix="export-"))
    try:
        shape = make_source(folder / "source.npy", chosen.gigabytes)
        raw = int(np.prod(shape)) * 2
        results = {}
        for name in CONTENDERS:
            python = sys.executable if name in OURS else chosen.peers
            runs = []
            for number in range(chosen.repeat):
                target = folder / f"{number}.zarr"
                left = begun + chosen.seconds - time.perf_counter()
                runs.append(run(name, python, folder / "source.npy", target, left))
                if not runs[-1].failed:
                    runs[-1].broken = judge(target)
                shutil.rmtree(target, ignore_errors=True)
            good = [r for r in runs if not r.failed]
            results[name] = runs[0]
            if good:
                middle = statistics.median_low([r.seconds for r in good])
                results[name] = next(r for r in good if r.seconds == middle)
            print(f"{name}: {results[name]}", flush=True)
        text = table(results, raw)
        head = f"{date.today()}, {platform.machine()}, {CORES} cores, Python {platform.python_version()},"
        head += f" uint16 {' x '.join(map(str, shape))} ({raw / 1e9:.2f} GB)"
        print(f"\n{head}\n\n{text}")
        if chosen.markdown:
            chosen.markdown.write_text(f"{head}\n\n{text}\n", encoding="utf-8")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
