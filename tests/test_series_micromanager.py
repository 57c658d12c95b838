"""Micro-Manager's acquisitions of several files: stacks, NDTiff, single planes with a metadata.txt."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from tests.support.corpus import corpus_root
from tests.support.metatiff import ascii_tag
from tests.support.seriesfiles import contents, pack_set, write_planes

from napari_decant.archive import find_set, plan_series, restore

SUMMARY = {
    "Channels": 2,
    "Slices": 2,
    "Frames": 3,
    "ChNames": ["GFP", "DAPI"],
    "PixelSize_um": 0.5,
    "z-step_um": 2.0,
    "Interval_ms": 1500,
    "MicroManagerVersion": "2.0.0",
}
Row = tuple[int, int, int, int]
"""Channel, slice, frame, position, as in an MMStack's map."""


def value(c: int, z: int, t: int, p: int = 0) -> int:
    return 1 + 1000 * p + 100 * t + 10 * z + c


def mmstack(path: Path, rows: Sequence[Row], names: Sequence[str] = (), summary: Any = SUMMARY) -> Path:
    """Write a stack with a map of its planes."""
    text = json.dumps(summary).encode()
    head = struct.pack("<8I", 54773648, 0, 0, 0, 0, 0, 2355492, len(text)) + text

    def tail(offsets: Sequence[int]) -> tuple[int, bytes]:
        table = b"".join(struct.pack("<5I", *row, at) for row, at in zip(rows, offsets, strict=True))
        return 12, struct.pack("<2I", 3453623, len(rows)) + table

    def tags(i: int) -> dict[int, Any]:
        page = {
            "PositionName": names[rows[i][3]] if names else None,
            "Exposure-ms": 10,
            "ElapsedTime-ms": 5 * i,
        }
        return {51123: ascii_tag(json.dumps(page))}

    return write_planes(path, [value(*row) for row in rows], tags, head=head, tail=tail)  # type: ignore[arg-type]


def test_stacks_split_at_a_limit(tmp_path: Path) -> None:
    rows = [(c, z, t, 0) for t in range(3) for c in range(2) for z in range(2)]
    folder = tmp_path / "s"
    files = [
        mmstack(folder / "run_MMStack_Pos0.ome.tif", rows[:5]),
        mmstack(folder / "run_MMStack_Pos0_1.ome.tif", rows[5:]),
    ]
    notes = folder / "run_MMStack_Pos0_metadata.txt"
    notes.write_text("{}")
    for given in (folder, *files):
        if given.is_file():
            assert set(find_set(given) or ()) == {*files, notes}
        placed = pack_set(given, tmp_path, recovered=given == folder)
        assert placed.axes == "t c z"
        assert placed.values == [[[value(c, z, t) for z in range(2)] for c in range(2)] for t in range(3)]
        assert placed.labels == ["GFP", "DAPI"]
        assert placed.size("x") == (0.5, "micrometer")
        assert placed.size("z") == (2.0, "micrometer")
        assert placed.size("t") == (1.5, "second")
        assert placed.acquisition["exposure_seconds"] == 0.01
        assert "read from Micro-Manager metadata: t 3, c GFP DAPI, z 2" in placed.notes


def test_a_stack_for_each_position(tmp_path: Path) -> None:
    for p in range(2):
        rows = [(0, z, t, p) for t in range(3) for z in range(2)]
        summary = {**SUMMARY, "Channels": 1, "ChNames": ["DAPI"]}
        mmstack(tmp_path / "s" / f"a_MMStack_{p}-Site_{p}.ome.tif", rows, ["A1", "B7"], summary)
    placed = pack_set(tmp_path / "s", tmp_path)
    assert placed.axes == "t p z"
    assert placed.acquisition["positions"] == ["A1", "B7"]
    assert "2 positions: A1 B7" in placed.notes
    assert placed.values == [[[value(0, z, t, p) for z in range(2)] for p in range(2)] for t in range(3)]


def test_stacks_that_count_every_position_from_zero(tmp_path: Path) -> None:
    summary = {**SUMMARY, "Channels": 1, "Frames": 1, "ChNames": ["DAPI"]}
    for p in range(2):
        folder = tmp_path / "s"
        mmstack(folder / f"a_MMStack_Pos{p}.ome.tif", [(0, z, 0, 0) for z in range(2)], (), summary)
    placed = pack_set(tmp_path / "s", tmp_path)
    assert placed.axes == "p z"
    assert placed.values == [[1, 11], [1, 11]]
    assert "read from file names: p 0-1" in placed.notes


def test_an_acquisition_that_was_broken_off(tmp_path: Path) -> None:
    rows = [(c, z, t, 0) for t in range(3) for c in range(2) for z in range(2)]
    mmstack(tmp_path / "s" / "run_MMStack_Pos0.ome.tif", rows[:5])
    mmstack(tmp_path / "s" / "run_MMStack_Pos0_1.ome.tif", rows[5:9])
    placed = pack_set(tmp_path / "s", tmp_path)
    assert placed.axes == "z"
    assert placed.values == [value(*row) for row in rows[:9]]
    assert "3 of 12 declared frames absent from this series" in placed.notes
    missing = [(c, z) for c, z, t, _ in rows[9:]]
    absent = placed.acquisition["absent"]
    assert sorted((place["c"], place["z"]) for place in absent) == missing
    assert {place["t"] for place in absent} == {2}


def ndtiff_files(folder: Path, index: bool = True) -> list[Path]:
    """Write an NDTiff of two files; the second one begins with another channel than the first."""
    axes = [{"time": t, "channel": c, "z": z} for t in range(2) for z in range(3) for c in ("DAPI", "GFP")]
    entries = b""
    files = []
    for k, listed in enumerate((range(5), range(5, 12))):
        name = "run_NDTiffStack.tif" if k == 0 else "run_NDTiffStack_1.tif"
        summary = b'{"PixelSize_um": 0.5, "z-step_um": 2}'
        head = struct.pack("<5I", 483729, 3, 3, 2355492, len(summary)) + summary
        mine = [axes[i] for i in listed]

        def tags(i: int, mine: list[dict[str, Any]] = mine) -> dict[int, Any]:
            return {} if index else {51123: ascii_tag(json.dumps({"Axes": mine[i]}))}

        path = write_planes(folder / name, [i + 1 for i in listed], tags, head=head)  # type: ignore[arg-type]
        files.append(path)
        planned = plan_series([path], folder)
        for place, plane in zip(mine, planned.members[0].layout.planes, strict=True):
            text, file = json.dumps(place).encode(), name.encode()
            numbers = struct.pack("<8I", int(plane.offsets[0]), 5, 6, 1, 0, 0, 0, 0)
            entries += struct.pack("<I", len(text)) + text + struct.pack("<I", len(file)) + file + numbers
    if index:
        (folder / "NDTiff.index").write_bytes(entries)
        files.append(folder / "NDTiff.index")
    return files


@pytest.mark.parametrize("index", [True, False], ids=["by-its-index", "by-its-pages"])
def test_ndtiff_of_several_files(tmp_path: Path, index: bool) -> None:
    files = ndtiff_files(tmp_path / "s", index)
    for given in (tmp_path / "s", *files):
        if given.is_file():
            assert set(find_set(given) or ()) == set(files)
        placed = pack_set(given, tmp_path)
        assert placed.axes == "t c z"
        want = [[[1 + 6 * t + 2 * z + c for z in range(3)] for c in range(2)] for t in range(2)]
        assert placed.values == want
        assert placed.labels == ["DAPI", "GFP"]
        assert placed.size("z") == (2.0, "micrometer")
    assert "read from NDTiff metadata: t 2, z 3, c DAPI GFP" in placed.notes


@pytest.mark.parametrize("spoil", ["cut", "huge", "noise"])
def test_an_ndtiff_index_that_cannot_be_trusted(tmp_path: Path, spoil: str) -> None:
    files = ndtiff_files(tmp_path / "s")
    index = files[-1].read_bytes()
    files[-1].write_bytes(
        {"cut": index[:-9], "huge": b"\xff\xff\xff\x7f" + index, "noise": bytes(range(256)) * 9}[spoil]
    )
    placed = pack_set(tmp_path / "s", tmp_path)
    assert sorted(placed.array[..., 0, 0].ravel().tolist()) == list(range(1, 13))
    assert "NDTiff.index could not be read" in placed.notes
    restore(tmp_path / "s.zarr.zip", tmp_path / "back")
    assert contents(tmp_path / "back") == contents(tmp_path / "s")


def single_planes(folder: Path, version: int, position: int = 0, name: str = "") -> list[Path]:
    """Write a file for each plane and a ``metadata.txt``, as version 1.4 or 2 does."""
    metadata: dict[str, Any] = {"Summary": {**SUMMARY, "Positions": 2}}
    files = []
    for t, c, z in product(range(3), range(2), range(2)):
        channel = SUMMARY["ChNames"][c]  # type: ignore[index]
        file = f"img_{t:09}_{channel}_{z:03}.tif"
        numbers = {"FrameIndex": t, "SliceIndex": z, "ChannelIndex": c, "PositionIndex": position}
        facts = {"Exposure-ms": 20, "ElapsedTime-ms": 1000 * t, "PositionName": name, "Other": "x" * 50}
        if version == 1:
            metadata[f"FrameKey-{t}-{c}-{z}"] = {"FileName": file, **numbers, **facts, "PixelSizeUm": 0.5}
        else:
            file = f"img_channel{c:03}_position{position:03}_time{t:09}_z{z:03}.tif"
            metadata[f"Coords-{name}/{file}"] = {"time": t, "z": z, "channel": c, "position": position}
            metadata[f"Metadata-{name}/{file}"] = {**facts, "PositionIndex": position}
        files.append(write_planes(folder / file, [value(c, z, t, position)]))
    (folder / "metadata.txt").write_text(json.dumps(metadata, indent=2))
    return [*files, folder / "metadata.txt"]


@pytest.mark.parametrize("version", [1, 2])
def test_single_planes(tmp_path: Path, version: int) -> None:
    files = single_planes(tmp_path / "s", version, name="Pos0")
    write_planes(tmp_path / "s" / "snap.tif", [9])
    for given in (files[3], files[-1]):
        assert set(find_set(given) or ()) == set(files)
    (tmp_path / "s" / "snap.tif").unlink()
    placed = pack_set(tmp_path / "s", tmp_path, recovered=True)
    assert placed.axes == "t c z"
    assert placed.values == [[[value(c, z, t) for z in range(2)] for c in range(2)] for t in range(3)]
    assert placed.labels == ["GFP", "DAPI"]  # the order of the acquisition, not of the alphabet
    assert placed.size("x") == (0.5, "micrometer")
    assert placed.size("z") == (2.0, "micrometer")
    assert placed.acquisition["exposure_seconds"] == 0.02
    assert sorted(placed.acquisition["plane_times_seconds"]) == [0.0] * 4 + [1.0] * 4 + [2.0] * 4
    assert "read from Micro-Manager metadata" in placed.notes


@pytest.mark.parametrize("cut", [0, 200], ids=["last-brace", "many-planes"])
def test_a_metadata_txt_that_was_never_finished(tmp_path: Path, cut: int) -> None:
    files = single_planes(tmp_path / "s", 1)
    text = files[-1].read_text().rstrip("}\n ")
    files[-1].write_text(text + "}" if not cut else text[:-cut])
    placed = pack_set(tmp_path / "s", tmp_path)
    assert placed.axes == "t c z"
    by_label = [placed.labels.index(name) for name in ("GFP", "DAPI")]
    assert placed.values == [
        [[value(by_label[c], z, t) for z in range(2)] for c in range(2)] for t in range(3)
    ]


def test_single_planes_of_two_positions(tmp_path: Path) -> None:
    for p in range(2):
        single_planes(tmp_path / "s" / f"Pos{p}", 2, p, f"Pos{p}")
    (tmp_path / "s" / "display_and_comments.txt").write_text("{}")
    placed = pack_set(tmp_path / "s", tmp_path)
    assert placed.decant["true_axes"] == [["p", 2], ["c", 2], ["t", 3], ["z", 2]]
    assert placed.acquisition["positions"] == ["Pos0", "Pos1"]
    want = [value(c, z, t, p) for p in range(2) for c in range(2) for t in range(3) for z in range(2)]
    assert placed.values == want


@pytest.mark.parametrize(
    "text", ["", "[1]", '{"Summary": 3}', '{"a": ' * 20000, '{"Summary": {}, "Coords-x": 4}']
)
def test_a_metadata_txt_of_something_else(tmp_path: Path, text: str) -> None:
    for i in range(1, 4):
        write_planes(tmp_path / "s" / f"img_{i}.tif", [i])
    (tmp_path / "s" / "metadata.txt").write_text(text)
    placed = pack_set(tmp_path / "s", tmp_path)
    assert placed.values == [1, 2, 3]
    assert "read from file names: z 1-3" in placed.notes


def test_ndtiff_of_the_corpus(tmp_path: Path) -> None:
    root = corpus_root()
    if root is None:
        pytest.skip("NAPARI_DECANT_CORPUS names no folder of real files")
    base = root / "files" / "micro-manager+NDTiffStorage" / "test_data"
    for name, axes in (
        ("v2/ndtiffv2.0_test/Full resolution", (("t", 5), ("c", 2))),
        ("v3/12_bit_pycromanager_mda", (("t", 4), ("c", 2))),
        ("v3/ndtiff3.2_11bit_1", (("t", 10),)),
    ):
        files = sorted((base / name).iterdir())
        assert len(files) == 2
        assert [sorted(find_set(file) or ()) for file in files] == [files, files]
        description = plan_series(files, base / name).description
        assert description is not None
        found = description.axes
        assert tuple(zip(found.canonical_order, found.canonical_shape, strict=True)) == axes
