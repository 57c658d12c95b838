"""Crops against the libraries people use for them today, in one run on one machine.

    python benchmarks/crops.py [--data DIR] [--only a b c d e] [--rounds N] [--markdown FILE] [--page FILE]

Workloads
    a  random crops from sharded Zarr v3, uint16, zstd-3, alone (requests in flight) and in batches of 8
    b  small crops inside one chunk: latency of one at a time
    c  256 x 256 crops of planes from an archive (one plane a chunk, Blosc, in a zip)
    d  128-cubed turned by 30 degrees about an oblique axis, linear and nearest
    e  opening an image and its first crop over http with 20 ms latency

Every peer takes turns round by round, so that a busy moment hits all of them; the median of the
rounds counts. Caches of decoded chunks are off everywhere; files are in the page cache (but for e).
tensorstore has no cache pool, copies in as many threads as there are cores, and takes part with two
numbers of requests in flight where there are several; the faster one is the reference.

``--page`` writes the summary between the marks of a page of the documentation.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import re
import statistics
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import dask.array
import numcodecs
import numpy as np
import scipy.ndimage
import tensorstore as ts
import zarr
import zarr.codecs as zc

from napari_decant import (
    BatchSpec,
    ChunkPlanner,
    CpuExecutor,
    CpuLimits,
    FileReader,
    IndexQuery,
    NgffImage,
    Pipeline,
    QueueLimits,
    Sampler,
)
from napari_decant.spatial import rotated_crop

SIZE = 512
CHUNKS = {"32x64x64": ((32, 64, 64), (256, 256, 256)), "128x128x128": ((128, 128, 128), (512, 512, 512))}
THREADS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
IN_FLIGHT = 8
MARKS = ("<!-- measured: begin -->", "<!-- measured: end -->")
GOALS = {r"a:.*alone": 1.0, r"a:.*batches": 1.3, r"b:": 2.0, r"c:": 3.0, r"d:": 6.0}


def camera(shape: tuple[int, ...]) -> np.ndarray:
    """Camera-like uint16: smooth structure with shot noise, about half its size under zstd-3."""
    rng = np.random.default_rng(0)
    waves = [np.sin(np.linspace(0, 6 + i, n, dtype="f4")) for i, n in enumerate(shape)]
    out = np.empty(shape, "u2")
    for z in range(shape[0]):
        plane = 200 + 150 * (waves[0][z] * np.multiply.outer(waves[1], waves[2]) + 1)
        out[z] = rng.poisson(plane)
    return out


def ome(axes: str, version_: str) -> dict:
    kinds = [{"name": n, "type": "space", "unit": "micrometer"} for n in axes]
    transform = [{"type": "scale", "scale": [1.0] * len(axes)}]
    datasets = [{"path": "0", "coordinateTransformations": transform}]
    return {"version": version_, "multiscales": [{"version": version_, "axes": kinds, "datasets": datasets}]}


def make_data(root: Path) -> None:
    volume = None
    for name, (chunk, shard) in CHUNKS.items():
        path = root / f"{name}.zarr"
        if path.exists():
            continue
        volume = camera((SIZE,) * 3) if volume is None else volume
        group = zarr.open_group(path, mode="w", zarr_format=3)
        array = group.create_array(
            "0", shape=volume.shape, dtype="u2", chunks=chunk, shards=shard,
            compressors=zc.ZstdCodec(level=3), dimension_names=list("zyx"),
        )  # fmt: skip
        array[...] = volume
        group.attrs["ome"] = ome("zyx", "0.5")
    path = root / "planes.zarr.zip"
    if not path.exists():
        raw: dict = {}
        planes = camera((16, 2048, 2048))
        group = zarr.open_group(zarr.storage.MemoryStore(raw), mode="w", zarr_format=2)
        group.create_array(
            "0", data=planes, chunks=(1, 2048, 2048), compressors=numcodecs.Blosc("zstd", 5, 1),
            chunk_key_encoding={"name": "v2", "separator": "/"},
        )  # fmt: skip
        group.attrs["multiscales"] = ome("zyx", "0.4")["multiscales"]
        with zipfile.ZipFile(path, "w") as zipped:
            for key, value in raw.items():
                zipped.writestr(key, value.to_bytes())


def open_ts(path: Path) -> ts.TensorStore:
    context = ts.Context(
        {
            "cache_pool": {"total_bytes_limit": 0},
            "data_copy_concurrency": {"limit": THREADS},
            "file_io_concurrency": {"limit": IN_FLIGHT},
        }
    )
    if path.suffix == ".zip":
        base = {"driver": "file", "path": str(path)}
        spec = {"driver": "zarr", "kvstore": {"driver": "zip", "base": base, "path": "0/"}}
    else:
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path / "0")}}
    spec |= {"recheck_cached_metadata": "open", "recheck_cached_data": "open"}
    return ts.open(spec, context=context, open=True).result()


class Peers:
    """Ways to read boxes of one array: each takes a list of boxes and returns the arrays, one at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.image = NgffImage(path)
        self.planner = ChunkPlanner()
        self.executor = CpuExecutor(FileReader(workers=THREADS), CpuLimits(max_memory_bytes=2 << 30))
        self.store = open_ts(path)
        if path.suffix == ".zip":
            self.zarr = zarr.open_array(zarr.storage.ZipStore(path, mode="r"), path="0", mode="r")
        else:
            self.zarr = zarr.open_array(path / "0", mode="r")
        self.dask = dask.array.from_zarr(self.zarr)

    def resolved(self, boxes: list) -> list:
        return [IndexQuery(box).resolve(self.image) for box in boxes]

    def decant(self, boxes: list, batch: int = 1) -> int:
        shape = tuple(s.stop - s.start for s in boxes[0])
        total = 0
        spec = BatchSpec(batch, shape, "u16")
        with Pipeline(self.planner, self.executor, spec, QueueLimits(max(16, 4 * batch))) as pipeline:
            for result in pipeline.map(self.resolved(boxes)):
                with result:
                    total += sum(int(sample.ravel()[0]) for sample in result.array)
        return total

    def decant_now(self, boxes: list) -> int:
        total = 0
        for box in boxes:
            (array,) = self.executor.run(self.planner.plan([IndexQuery(box).resolve(self.image)]))
            total += int(array.ravel()[0])
        return total

    def tensorstore(self, boxes: list, in_flight: int = IN_FLIGHT) -> int:
        waiting: list = []
        total = 0
        for box in boxes:
            waiting.append(self.store[box].read())
            if len(waiting) >= in_flight:
                total += int(waiting.pop(0).result().ravel()[0])
        return total + sum(int(future.result().ravel()[0]) for future in waiting)

    def zarr_python(self, boxes: list) -> int:
        return sum(int(self.zarr[box].ravel()[0]) for box in boxes)

    def zarrs(self, boxes: list) -> int:
        with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}):
            array = zarr.open_array(self.path / "0", mode="r")
            return sum(int(array[box].ravel()[0]) for box in boxes)

    def dask_array(self, boxes: list) -> int:
        return sum(
            int(self.dask[box].compute(scheduler="threads", num_workers=THREADS).ravel()[0]) for box in boxes
        )


def random_boxes(rng: np.random.Generator, shape: tuple, crop: tuple, count: int) -> list:
    starts = [
        [int(rng.integers(0, n - c + 1)) for n, c in zip(shape, crop, strict=True)] for _ in range(count)
    ]
    return [tuple(slice(a, a + c) for a, c in zip(start, crop, strict=True)) for start in starts]


Times = dict[str, tuple[float, float]]


def measure(
    peers: dict[str, Callable[[list], int]], boxes_of: Callable, rounds: int, slack: int = 0
) -> Times:
    """Median wall and CPU seconds per box of every peer, rounds interleaved; results must agree.

    ``slack`` is how far the sums of one element a box may differ, per box.
    """
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in peers}
    for turn in range(rounds + 1):
        boxes = boxes_of(turn)
        sums = {}
        order = list(peers)
        for name in order[turn % len(order) :] + order[: turn % len(order)]:
            began, used = time.perf_counter(), time.process_time()
            sums[name] = peers[name](boxes)
            took, worked = time.perf_counter() - began, time.process_time() - used
            if turn:  # the first round warms caches and starts threads
                times[name].append((took / len(boxes), worked / len(boxes)))
        if max(sums.values()) - min(sums.values()) > slack * len(boxes):
            raise AssertionError(f"results differ: {sums}")
    return {
        name: (statistics.median(t for t, _ in values), statistics.median(c for _, c in values))
        for name, values in times.items()
    }


class Table:
    """Rows of a Markdown table, printed as they come, and the summary for the documentation."""

    def __init__(self) -> None:
        self.lines = [
            "| workload | library | per crop | CPU per crop | crops/s | "
            "MB/s of output | against the reference |",
            "|---|---|---|---|---|---|---|",
        ]
        self.rows: list[tuple[str, Times, str]] = []
        self.notes: list[str] = []
        print("\n".join(self.lines))

    def add(self, workload: str, times: Times, nbytes: int, reference: str) -> None:
        reference = min((name for name in times if name.startswith(reference)), key=times.__getitem__)
        self.rows.append((workload, times, reference))
        for name, (wall, cpu) in sorted(times.items(), key=lambda item: item[1]):
            ratio = "reference" if name == reference else f"{times[reference][0] / wall:.2f}x"
            line = (
                f"| {workload} | {name} | {wall * 1e3:.2f} ms | {cpu * 1e3:.2f} ms | {1 / wall:,.0f} "
                f"| {nbytes / wall / 1e6:,.0f} | {ratio} |"
            )
            self.lines.append(line)
            print(line, flush=True)

    def note(self, text: str) -> None:
        self.notes.append(text)
        self.lines.append(f"| {text} | | | | | | |")
        print(self.lines[-1], flush=True)

    def summary(self, machine: dict[str, str]) -> str:
        """Return the part of the documentation that depends on the run."""
        lines = [f"- {key}: {value}" for key, value in machine.items()]
        lines += [
            "",
            "| workload | napari-decant: wall, CPU, crops/s | reference: wall, CPU | ratio | goal |",
        ]
        lines.append("|---|---|---|---|---|")
        for workload, times, reference in self.rows:
            wall, cpu = times["napari-decant"]
            theirs, worked = times[reference]
            kind = reference.split(",")[0] + ","
            slower = [name for name in times if name.startswith(kind) and name != reference]
            also = "".join(
                f"; {n.removeprefix(kind).strip()}: {times[n][0] * 1e3:.2f} ms, {times[n][0] / wall:.2f}x"
                for n in slower
            )
            goal = next((least for which, least in GOALS.items() if re.match(which, workload)), None)
            ratio = theirs / wall
            verdict = "none" if goal is None else f"{goal:g}x, {'met' if ratio >= goal else '**missed**'}"
            lines.append(
                f"| {workload} | {wall * 1e3:.2f} ms, {cpu * 1e3:.2f} ms, {1 / wall:,.0f} "
                f"| {reference}: {theirs * 1e3:.2f} ms, {worked * 1e3:.2f} ms{also} "
                f"| {ratio:.2f}x | {verdict} |"
            )
        lines += ["", "Chunks and stored bytes:", "", *(f"- {note}" for note in self.notes)]
        alone = [(workload, times) for workload, times, _ in self.rows if workload.endswith("alone")]
        if alone:
            lines += ["", "Every library on the crops that are read alone, wall time per crop:", ""]
            lines.append("| library | " + " | ".join(w[3 : -len(", alone")] for w, _ in alone) + " |")
            lines.append("|---" * (len(alone) + 1) + "|")
            for name in alone[0][1]:
                cells = " | ".join(f"{times[name][0] * 1e3:.1f} ms" for _, times in alone)
                lines.append(f"| {name} | {cells} |")
        return "\n".join(lines)


def write_page(path: Path, summary: str) -> None:
    """Put the summary between the marks of a page."""
    before, rest = path.read_text().split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    path.write_text(f"{before}{MARKS[0]}\n{summary}\n{MARKS[1]}{after}")


def has(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def stored_note(table: Table, workload: str, peers: Peers, boxes: list, batch: int) -> None:
    """Stored bytes of the touched chunks, and what was read of them."""
    before = peers.executor.stats()
    peers.decant(boxes, batch)
    after = peers.executor.stats()
    each = [peers.planner.plan([r]).summary for r in peers.resolved(boxes)]
    touched = sum(s.stored_bytes for s in each) / len(boxes)
    read = (after.read_bytes - before.read_bytes) / len(boxes)
    table.note(
        f"{workload}: chunks touched by a crop hold {touched / 1e6:.1f} MB stored; "
        f"napari-decant reads {read / 1e6:.1f} MB a crop"
    )


def workload_a(root: Path, table: Table, rounds: int) -> None:
    for name in CHUNKS:
        peers = Peers(root / f"{name}.zarr")
        for crop in ((64, 256, 256), (128, 128, 128)):
            label = f"a: {'x'.join(map(str, crop))}, chunk {name}"
            rng = np.random.default_rng(7)
            nbytes = int(np.prod(crop)) * 2

            def boxes_of(turn: int, rng: np.random.Generator = rng, crop: tuple = crop) -> list:
                return random_boxes(rng, (SIZE,) * 3, crop, 8)

            every: dict[str, Callable[[list], int]] = {
                "napari-decant": peers.decant,
                "tensorstore, 8 in flight": lambda boxes, p=peers: p.tensorstore(boxes, 8),
                "tensorstore, 4 in flight": lambda boxes, p=peers: p.tensorstore(boxes, 4),
                "zarr-python": peers.zarr_python,
                "dask": peers.dask_array,
            }
            if has("zarrs"):
                every["zarr-python with zarrs"] = peers.zarrs
            table.add(f"{label}, alone", measure(every, boxes_of, rounds), nbytes, "tensorstore")
            together: dict[str, Callable[[list], int]] = {
                "napari-decant": lambda boxes, p=peers: p.decant(boxes, 8),
                "tensorstore, 8 in flight": lambda boxes, p=peers: p.tensorstore(boxes, 8),
                "tensorstore, 16 in flight": lambda boxes, p=peers: p.tensorstore(boxes, 16),
            }
            seconds = measure(together, lambda turn, f=boxes_of: f(turn) + f(turn), rounds)
            table.add(f"{label}, batches of 8", seconds, nbytes, "tensorstore")
            stored_note(table, label, peers, boxes_of(0), 8)


def workload_b(root: Path, table: Table, rounds: int) -> None:
    for name, (chunk, _) in CHUNKS.items():
        peers = Peers(root / f"{name}.zarr")
        for crop in ((8, 32, 32), (1, 64, 64)):
            rng = np.random.default_rng(8)

            def boxes_of(
                turn: int, rng: np.random.Generator = rng, crop: tuple = crop, chunk: tuple = chunk
            ) -> list:
                boxes = random_boxes(rng, chunk, crop, 24)
                shift = [[int(rng.integers(0, SIZE // c)) * c for c in chunk] for _ in boxes]
                return [
                    tuple(slice(s.start + d, s.stop + d) for s, d in zip(box, by, strict=True))
                    for box, by in zip(boxes, shift, strict=True)
                ]

            every: dict[str, Callable[[list], int]] = {
                "napari-decant": peers.decant_now,
                "tensorstore": lambda boxes, p=peers: p.tensorstore(boxes, 1),
                "zarr-python": peers.zarr_python,
            }
            label = f"b: {'x'.join(map(str, crop))} in one chunk of {name}, latency"
            table.add(label, measure(every, boxes_of, rounds), int(np.prod(crop)) * 2, "tensorstore")


def workload_c(root: Path, table: Table, rounds: int) -> None:
    peers = Peers(root / "planes.zarr.zip")
    rng = np.random.default_rng(9)

    def boxes_of(turn: int) -> list:
        return random_boxes(rng, (16, 2048, 2048), (1, 256, 256), 24)

    every: dict[str, Callable[[list], int]] = {
        "napari-decant": peers.decant_now,
        "tensorstore": lambda boxes: peers.tensorstore(boxes, 1),
        "zarr-python": peers.zarr_python,
    }
    label = "c: 256x256 from a 2048x2048 plane of an archive"
    table.add(f"{label}, one at a time", measure(every, boxes_of, rounds), 256 * 256 * 2, "tensorstore")
    every = {"napari-decant": peers.decant, "tensorstore": peers.tensorstore}
    table.add(f"{label}, in flight", measure(every, boxes_of, rounds), 256 * 256 * 2, "tensorstore")
    stored_note(table, label, peers, boxes_of(0), 1)


def workload_d(root: Path, table: Table, rounds: int) -> None:
    reference = "scipy on a box read by tensorstore"
    for name in CHUNKS:
        peers = Peers(root / f"{name}.zarr")
        for order, filter_ in ((1, "linear"), (0, "nearest")):
            rng = np.random.default_rng(10)

            def boxes_of(turn: int, rng: np.random.Generator = rng) -> list:
                return [rng.uniform(170, 340, 3) for _ in range(2)]

            def query(center: np.ndarray, filter_: str = filter_, p: Peers = peers):
                sampler = Sampler(filter_, "error")
                # 30 degrees about (1, 1, 1): these intrinsic angles
                return rotated_crop(
                    p.image, center, (128,) * 3, (22.5, -12.6, 22.5), units="reference", sampler=sampler
                ).resolve(p.image)

            def ours(centers: list, p: Peers = peers, q: Callable = query) -> int:
                return sum(int(p.executor.run(p.planner.plan([q(c)]))[0][64, 64, 64]) for c in centers)

            def theirs(centers: list, p: Peers = peers, q: Callable = query, order: int = order) -> int:
                total = 0
                for c in centers:
                    resolved = q(c)
                    box = resolved.source_bounds_index
                    block = p.store[tuple(slice(a, b) for a, b in box)].read().result()
                    matrix = np.asarray(resolved.output_to_source.linear)
                    corner = np.asarray(resolved.output_to_source.offset) - [a for a, _ in box]
                    offset = corner + matrix @ np.full(3, 0.5) - 0.5
                    out = scipy.ndimage.affine_transform(block, matrix, offset, (128,) * 3, order=order)
                    total += int(out[64, 64, 64])
                return total

            # scipy truncates where we round, so one element may differ by one
            seconds = measure({"napari-decant": ours, reference: theirs}, boxes_of, rounds, slack=1)
            label = f"d: 128x128x128 turned, {filter_}, chunk {name}"
            table.add(label, seconds, 128**3 * 2, reference)
            plan = peers.planner.plan([query(np.full(3, 256.0))])
            bounds = query(np.full(3, 256.0)).source_bounds_index
            whole = np.prod([-(-b // c) - a // c for (a, b), c in zip(bounds, CHUNKS[name][0], strict=True)])
            table.note(f"{label}: {plan.summary.chunks} chunks of the {whole} in the bounding box")


class SlowFiles(BaseHTTPRequestHandler):
    """Serves byte ranges of the files below ``root``, each answer ``delay`` seconds late."""

    protocol_version = "HTTP/1.1"
    root: Path
    delay: float
    count: Any

    def do_HEAD(self) -> None:
        self.answer(False)

    def do_GET(self) -> None:
        self.answer(True)

    def answer(self, body: bool) -> None:
        time.sleep(self.delay)
        with self.count.get_lock():
            self.count.value += 1
        path = self.root / self.path.lstrip("/")
        if not path.is_file():
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        size = path.stat().st_size
        match = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range") or "")
        start, stop = 0, size
        if match and match[1]:
            start, stop = int(match[1]), min(int(match[2] or size), size - 1) + 1
        elif match:
            start = max(0, size - int(match[2]))
        self.send_response(206 if match else 200)
        self.send_header("Content-Length", str(stop - start))
        self.send_header("Accept-Ranges", "bytes")
        if match:
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{size}")
        self.end_headers()
        if body:
            with path.open("rb") as file:
                file.seek(start)
                self.wfile.write(file.read(stop - start))

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def serve(root: Path, delay: float, port: Any, count: Any) -> None:
    handler = type("Handler", (SlowFiles,), {"root": root, "delay": delay, "count": count})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    port.value = server.server_address[1]
    server.serve_forever()


def workload_e(root: Path, table: Table, rounds: int) -> None:
    box = (slice(40, 72), slice(100, 164), slice(200, 264))
    spawn = multiprocessing.get_context("spawn")  # a process of its own, whose work is nobody's
    port, count = spawn.Value("i", 0), spawn.Value("i", 0)
    server = spawn.Process(target=serve, args=(root, 0.02, port, count), daemon=True)
    server.start()
    while not port.value:
        time.sleep(0.01)
    url = f"http://127.0.0.1:{port.value}/32x64x64.zarr"

    def ours(_: list) -> int:
        image = NgffImage(url)
        planner = ChunkPlanner()
        with FileReader(workers=8) as reader, CpuExecutor(reader) as executor:
            (array,) = executor.run(planner.plan([IndexQuery(box).resolve(image)]))
        planner.metadata.close()
        return int(array.ravel()[0])

    def theirs(_: list) -> int:
        group = {"driver": "json", "kvstore": {"driver": "http", "base_url": f"{url}/zarr.json"}}
        ts.open(group).result().read().result()  # the image's own metadata, which a viewer needs too
        spec = {"driver": "zarr3", "kvstore": {"driver": "http", "base_url": f"{url}/0/"}}
        return int(ts.open(spec, open=True).result()[box].read().result().ravel()[0])

    times = measure({"napari-decant": ours, "tensorstore": theirs}, lambda turn: [None], rounds)
    table.add("e: open and first crop over http, 20 ms latency", times, 32 * 64 * 64 * 2, "tensorstore")
    for name, call in (("napari-decant", ours), ("tensorstore", theirs)):
        count.value = 0
        call([])
        table.note(f"e: {name} makes {count.value} requests")
    server.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "napari-decant-bench")
    parser.add_argument("--only", nargs="*", default=list("abcde"), choices=list("abcde"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    options.data.mkdir(parents=True, exist_ok=True)
    make_data(options.data)
    packages = ("napari-decant", "tensorstore", "zarr", "zarrs", "dask", "scipy", "numpy", "numba")
    machine = {
        "date": date.today().isoformat(),
        "machine": f"{THREADS} cores, {platform.machine()}, "
        f"{platform.system()}, Python {platform.python_version()}",
        "packages": ", ".join(f"{name} {version(name)}" for name in packages if has(name)),
        "load": f"{os.getloadavg()[0]:.1f} before" if hasattr(os, "getloadavg") else "unknown",
        "command": "python benchmarks/" + " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
    }
    print(json.dumps(machine, indent=1))
    table = Table()
    for letter in options.only:
        globals()[f"workload_{letter}"](options.data, table, options.rounds)
    if hasattr(os, "getloadavg"):
        machine["load"] += f", {os.getloadavg()[0]:.1f} after; our own threads make up to {THREADS}"
    if options.page is not None:
        write_page(options.page, table.summary(machine))
    if options.markdown is not None:
        head = "\n".join(f"- {key}: {value}" for key, value in machine.items())
        options.markdown.write_text(head + "\n\n" + "\n".join(table.lines) + "\n")


if __name__ == "__main__":
    main()
