"""Pack, verify and restore against the machine's limit and against other archivers, in one run.

    python benchmarks/archive.py [--gigabytes 1.5] [--repeat 3] [--folder DIR] [--no-peers]

The limit is computed from what the same run measures on the same data: sha256 on one core, Blosc
on all cores, and the disk. Perfect overlap is assumed: the sum of the work spread over the cores,
but never less than the slowest single-threaded stage. 7-Zip works at its quickest setting: with its
default one it would take half an hour. It needs 3 GB on disk, and some eight minutes on two cores.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import partial
from pathlib import Path

import numpy as np
import tifffile
from numcodecs.blosc import Blosc

from napari_decant import archive

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
SIDE = 2048


def camera_planes(count: int) -> list[np.ndarray]:
    """Planes as a camera makes them: shot noise on a smooth scene."""
    rng = np.random.default_rng(1)
    y, x = np.mgrid[:SIDE, :SIDE]
    scene = 400 + 200 * np.sin(x / 97) + 150 * np.cos(y / 53)
    return [rng.poisson(scene).astype("u2") for _ in range(count)]


def make_tiff(path: Path, gigabytes: float) -> int:
    kept = camera_planes(8)
    count = max(8, int(gigabytes * 1e9 / kept[0].nbytes))
    planes = (np.roll(kept[i % 8], i * 7919) for i in range(count))
    tifffile.imwrite(path, planes, shape=(count, SIDE, SIDE), dtype="u2", bigtiff=True)
    return count


def timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def spread(work: Callable[[int], object], count: int) -> None:
    with ThreadPoolExecutor(CORES) as pool:
        list(pool.map(work, range(count)))


def seconds_per_gigabyte(folder: Path, count: int) -> dict[str, float]:
    """Cost of each stage on this data, in seconds per GB of raw data (compressed stages too)."""
    planes = camera_planes(8)
    total = 4 * sum(plane.nbytes for plane in planes) / 1e9
    codec = archive.parse_codec("default")  # encodes as packing does
    encoded = [codec.encode(plane) for plane in planes]
    outs = [np.empty_like(plane) for plane in planes]

    def each(work: Callable[[int], object]) -> Callable[[], None]:
        return lambda: spread(lambda i: work(i % 8), 32)

    def write() -> None:
        with open(folder / "disk", "wb", buffering=0) as file:
            for i in range(32):
                file.write(encoded[i % 8])
            os.fsync(file.fileno())

    def read() -> None:
        with open(folder / "disk", "rb", buffering=0) as file:
            while file.readinto(outs[0].reshape(-1).view("u1")):
                pass

    def write_raw() -> None:
        # as much as restoring writes: memory that the system hands out anew is slow on its own
        with open(folder / "raw", "wb", buffering=0) as file:
            for i in range(count):
                file.write(planes[i % 8])
            os.fsync(file.fileno())
        (folder / "raw").unlink()

    def sums(i: int) -> None:
        zlib.crc32(encoded[i])
        hashlib.sha256(encoded[i])

    cost = {
        "write raw": timed(write_raw) * 32 / count,
        "sha256, one core": timed(lambda: [hashlib.sha256(planes[i % 8]) for i in range(32)]),
        "compress, all cores": timed(each(lambda i: codec.encode(planes[i]))),
        "decompress, all cores": timed(each(lambda i: Blosc().decode(encoded[i], out=outs[i]))),
        "crc32 and sha256 of what is stored, all cores": timed(each(sums)),
        "write compressed": timed(write),
        "read compressed (from the system's cache)": timed(read),
    }
    (folder / "disk").unlink()
    return {name: seconds / total for name, seconds in cost.items()}


def ideals(cost: dict[str, float]) -> dict[str, float]:
    """Seconds per GB with perfect overlap of what each verb has to do.

    Packing hashes the source, encodes, and lists crc32 and sha256 of what it stores; then it
    decodes the finished file and hashes the result. Verifying does the second half and checks the
    list; restoring decodes, writes, and hashes what was written.
    """
    sha, encode, decode = (
        cost["sha256, one core"],
        cost["compress, all cores"],
        cost["decompress, all cores"],
    )
    sums = cost["crc32 and sha256 of what is stored, all cores"]
    first = max(sha, encode + sums + sha / CORES, cost["write compressed"])
    second = max(sha, decode + sha / CORES, cost["read compressed (from the system's cache)"])
    verify = max(sha, decode + sums + sha / CORES, cost["read compressed (from the system's cache)"])
    return {"pack": first + second, "verify": verify, "restore": max(second, cost["write raw"])}


def commands(tiff: Path, out: Path) -> dict[str, list[str]]:
    """Other archivers that are installed."""
    known = {
        "zstd -T0 -5": ["zstd", "-q", "-f", "-T0", "-5", str(tiff), "-o", str(out / "peer.zst")],
        "pigz": ["sh", "-c", f"pigz -c '{tiff}' > '{out / 'peer.gz'}'"],
    }
    seven = next((name for name in ("7zz", "7z", "7za") if shutil.which(name)), None)
    if seven:
        known["7z -mx1"] = [seven, "a", "-mx1", "-bso0", "-bsp0", str(out / "peer.7z"), str(tiff)]
    return {name: command for name, command in known.items() if shutil.which(command[0])}


def zarr_convert(tiff: Path, out: Path) -> None:
    """What a converter does with zarr-python alone: planes to chunks, nothing proved."""
    import zarr

    with tifffile.TiffFile(tiff) as tif:
        shape = tif.series[0].shape
        array = zarr.create_array(
            out / "peer.zarr", shape=shape, chunks=(1, *shape[1:]), dtype="u2", zarr_format=2,
            compressors=Blosc("zstd", 5, 1), overwrite=True,
        )  # fmt: skip
        spread(lambda i: array.__setitem__(i, tif.pages[i].asarray()), shape[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=1.5)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--no-peers", action="store_true", help="without zstd, pigz, 7z and zarr-python")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder, ignore_cleanup_errors=True) as name:
        run(Path(name), options)


def run(folder: Path, options: argparse.Namespace) -> None:
    tiff = folder / "camera.tif"
    planes = make_tiff(tiff, options.gigabytes)
    size = tiff.stat().st_size
    gigabytes = size / 1e9
    times: dict[str, list[float]] = {}
    limits: dict[str, list[float]] = {}
    stages: dict[str, list[float]] = {}
    sizes: dict[str, int] = {}

    def note(name: str, seconds: float) -> None:
        times.setdefault(name, []).append(seconds)

    for _ in range(options.repeat):
        cost = seconds_per_gigabyte(folder, planes)
        for stage, seconds in cost.items():
            stages.setdefault(stage, []).append(seconds)
        for verb, seconds in ideals(cost).items():
            limits.setdefault(verb, []).append(seconds * gigabytes)
        packed = archive.archive_path(tiff)
        packed.unlink(missing_ok=True)
        note("pack", timed(lambda: archive.pack(tiff)))
        sizes["pack"] = packed.stat().st_size
        note("verify", timed(partial(archive.verify, packed)))
        back = folder / "back"
        shutil.rmtree(back, ignore_errors=True)
        note("restore", timed(partial(archive.restore, packed, back)))
        shutil.rmtree(back)
        packed.unlink()
        note("pack --codec fast", timed(lambda: archive.pack(tiff, codec="fast")))
        sizes["pack --codec fast"] = packed.stat().st_size
    if not options.no_peers:
        for name, command in commands(tiff, folder).items():
            note(name, timed(lambda command=command: subprocess.run(command, check=True)))
            output = next(folder.glob("peer.*"))
            sizes[name] = output.stat().st_size
            output.unlink()
        note("zarr-python, nothing proved", timed(lambda: zarr_convert(tiff, folder)))
        sizes["zarr-python, nothing proved"] = sum(
            f.stat().st_size for f in (folder / "peer.zarr").rglob("*") if f.is_file()
        )
    print(
        f"{date.today()}, {CORES} cores, {platform.machine()}, Python {platform.python_version()}; "
        f"{gigabytes:.2f} GB, {planes} planes; medians of {options.repeat}; "
        f"`{Path(sys.argv[0]).name} {' '.join(sys.argv[1:])}`\n"
    )
    print("| stage | MB/s of raw data |\n|---|---|")
    for stage, seconds in stages.items():
        print(f"| {stage} | {1000 / statistics.median(seconds):,.0f} |")
    print("\n| | seconds | MB/s | of the machine's limit | size ratio |\n|---|---|---|---|---|")
    for name, seconds in times.items():
        middle = statistics.median(seconds)
        limit = f"{statistics.median(limits[name]) / middle:.0%}" if name in limits else ""
        ratio = f"{size / sizes[name]:.2f}" if name in sizes else ""
        print(f"| {name} | {middle:.2f} | {size / middle / 1e6:,.0f} | {limit} | {ratio} |")
    if "zstd -T0 -5" in times:
        peer = statistics.median(times["zstd -T0 -5"])
        for name in ("pack", "pack --codec fast"):
            faster = peer / statistics.median(times[name])
            smaller = sizes["zstd -T0 -5"] / sizes[name] - 1
            print(
                f"\n{name}: {faster:.2f} times as fast as zstd -T0 -5, whose output is {smaller:.1%} larger."
            )


if __name__ == "__main__":
    main()
