"""File names give the planes of a series their places, and say what is missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.metatiff import ascii_tag, numbers_tag
from tests.support.seriesfiles import Placed, pack_row, pack_set, write_planes

from napari_decant.archive import plan
from napari_decant.archive._name_axes import NameAxes, axes_of_columns
from napari_decant.archive._names import natural_key
from napari_decant.archive._patterns import match_pattern, split_names
from napari_decant.cli import main
from napari_decant.errors import UsageError

Names = Callable[..., str]


def write_grid(folder: Path, name: Names, *axes: Sequence[Any]) -> dict[tuple[Any, ...], int]:
    """Write a file for each place, and return the value of its plane."""
    values = {}
    for number, place in enumerate(product(*axes), 1):
        values[place] = 1000 * number
        write_planes(folder / name(*place), [values[place]])
    return values


def check(placed: Placed, axes: str, values: dict[tuple[Any, ...], int], *order: Sequence[Any]) -> None:
    """Planes are where ``order`` (texts along each canonical axis) says."""
    assert placed.axes == axes
    want = np.vectorize(lambda *at: values[tuple(order[k][i] for k, i in enumerate(at))])
    assert np.array_equal(placed.array[..., 0, 0], want(*np.indices([len(texts) for texts in order])))


def test_time_slice_channel(tmp_path: Path) -> None:
    t, z, c = range(1, 4), range(2), (1, 2)
    values = write_grid(tmp_path / "s", lambda t, z, c: f"img_t{t:03}_z{z:02}_c{c}.tif", t, z, c)
    placed = pack_set(tmp_path / "s", tmp_path, recovered=True)
    by_canonical = {(a, b, d): values[a, d, b] for a, b, d in product(t, c, z)}
    check(placed, "t c z", by_canonical, t, c, z)
    assert "read from file names: t 1-3, z 0-1, c 1-2" in placed.notes
    assert placed.plan.description is not None
    assert placed.plan.description.axes.plane_order == ("t", "z", "c")


def test_metamorph(tmp_path: Path) -> None:
    w, t = ("1DAPI", "2FITC-GFP"), range(1, 13)
    values = write_grid(tmp_path / "s", lambda w, t: f"exp_w{w}_s3_t{t}.TIF", w, t)
    placed = pack_set(tmp_path / "s", tmp_path)
    check(placed, "t c", {(b, a): values[a, b] for a, b in values}, t, w)
    assert placed.labels == ["DAPI", "FITC-GFP"]
    assert "c DAPI FITC-GFP, t 1-12" in placed.notes


def test_micromanager_1_4(tmp_path: Path) -> None:
    t, c, z = range(2), ("Cy5-long pass", "DAPI"), range(3)
    values = write_grid(tmp_path / "s", lambda t, c, z: f"img_{t:09}_{c}_{z:03}.tif", t, c, z)
    placed = pack_set(tmp_path / "s", tmp_path)
    check(placed, "t c z", values, t, c, z)
    assert placed.labels == list(c)


def test_micromanager_2(tmp_path: Path) -> None:
    def name(c: int, t: int, z: int) -> str:
        return f"img_channel{c:03}_position001_time{t:09}_z{z:03}.tif"

    values = write_grid(tmp_path / "s", name, range(2), range(3), range(2))
    placed = pack_set(tmp_path / "s", tmp_path)
    by_canonical = {(t, c, z): value for (c, t, z), value in values.items()}
    check(placed, "t c z", by_canonical, range(3), range(2), range(2))


def test_wells_beside_channels(tmp_path: Path) -> None:
    def name(p: int, z: int, c: int) -> str:
        return f"Image--W0001--P{p:05}--Z{z:05}--T00000--C{c:02}.tif"

    values = write_grid(tmp_path / "s", name, (1, 2), range(3), (1,))
    placed = pack_set(tmp_path / "s", tmp_path)
    check(placed, "p z", {(p, z): v for (p, z, _), v in values.items()}, (1, 2), range(3))


def test_position_folders(tmp_path: Path) -> None:
    values = write_grid(tmp_path / "s", lambda p, z: f"Pos{p}/img_z{z}.tif", (9, 10), range(3))
    (tmp_path / "s" / "comments.txt").write_text("one acquisition")
    placed = pack_set(tmp_path / "s", tmp_path)
    check(placed, "p z", values, (9, 10), range(3))


def test_more_axes_than_an_image_may_have(tmp_path: Path) -> None:
    axes = (range(2), range(2), range(2), range(2))
    values = write_grid(tmp_path / "s", lambda p, t, c, z: f"img_s{p}_t{t}_c{c}_z{z}.tif", *axes)
    placed = pack_set(tmp_path / "s", tmp_path)
    assert placed.axes == "z"
    assert placed.values == list(values.values())
    assert placed.decant["true_axes"] == [["p", 2], ["t", 2], ["c", 2], ["z", 2]]
    assert "the axes p t c z are more than" in placed.notes


def test_plain_numbers_and_a_gap(tmp_path: Path) -> None:
    for i in range(1, 13):
        if i != 7:
            write_planes(tmp_path / "s" / f"img_{i}.tif", [i])
    placed = pack_set(tmp_path / "s", tmp_path)
    assert "img_7.tif is missing" in placed.notes
    assert placed.axes == "z"
    assert placed.values == [i for i in range(1, 13) if i != 7]
    assert placed.size("z") == (1.0, None)
    write_planes(tmp_path / "s" / "img_7.tif", [7])
    whole = pack_set(tmp_path / "s", tmp_path)
    assert whole.values == list(range(1, 13))
    assert "missing" not in whole.notes


def test_gaps_of_a_grid_are_listed_and_never_filled(tmp_path: Path) -> None:
    values = write_grid(tmp_path / "s", lambda t, z: f"a_t{t:02}_z{z}.tif", range(3), range(3))
    for t, z in ((0, 2), (2, 1)):
        (tmp_path / "s" / f"a_t{t:02}_z{z}.tif").unlink()
        del values[t, z]
    placed = pack_set(tmp_path / "s", tmp_path)
    assert placed.axes == "z"
    assert placed.values == list(values.values())
    assert "2 files are missing: a_t00_z2.tif, a_t02_z1.tif" in placed.notes
    assert placed.acquisition["absent"] == [{"t": 0, "z": 2}, {"t": 2, "z": 1}]
    assert placed.decant["true_axes"] == [["t", 3], ["z", 3]]


def test_an_empty_file_is_not_called_missing(tmp_path: Path) -> None:
    for i in range(1, 6):
        write_planes(tmp_path / "s" / f"img_{i}.tif", [i])
    (tmp_path / "s" / "img_3.tif").write_bytes(b"")
    placed = pack_set(tmp_path / "s", tmp_path)
    assert "img_3.tif is empty" in placed.notes
    assert "missing" not in placed.notes
    assert placed.values == [1, 2, 4, 5]


def test_stacks_inside_the_files(tmp_path: Path) -> None:
    text = "ImageJ=1.54f\nimages=6\nchannels=2\nslices=3\nhyperstack=true\nspacing=2\nunit=um\n"
    tags = {
        270: ascii_tag(text),
        282: numbers_tag(5, 4, 1),
        283: numbers_tag(5, 4, 1),
        296: numbers_tag(3, 1),
    }
    for t in range(1, 4):
        write_planes(tmp_path / "s" / f"movie_{t}.tif", [10 * t + i for i in range(6)], tags)
    placed = pack_set(tmp_path / "s", tmp_path, recovered=True)
    assert placed.axes == "t c z"
    want = [[[10 * t + c + 2 * z for z in range(3)] for c in range(2)] for t in range(1, 4)]
    assert placed.values == want
    assert placed.size("x") == placed.size("y") == (0.25, "micrometer")
    assert placed.size("z") == (2.0, "micrometer")


def test_stacks_of_unlike_length_stay_flat(tmp_path: Path) -> None:
    for t, count in enumerate((3, 3, 2), 1):
        write_planes(tmp_path / "s" / f"a_t{t}.tif", [10 * t + i for i in range(count)])
    placed = pack_set(tmp_path / "s", tmp_path)
    assert placed.axes == "z"
    assert placed.values == [10, 11, 12, 20, 21, 22, 30, 31]
    assert placed.acquisition["absent"] == [{"t": 2, "z": 2}]


def test_stage_labels_name_the_positions(tmp_path: Path) -> None:
    for site, label in ((1, "embryo"), (2, "blank")):
        xml = f'<MetaData><prop id="stage-label" value="{label}"/></MetaData>'
        write_planes(tmp_path / "s" / f"exp_s{site}.tif", [site], {270: ascii_tag(xml)})
    placed = pack_set(tmp_path / "s", tmp_path)
    assert placed.axes == "p"
    assert placed.acquisition["positions"] == ["embryo", "blank"]


def test_pixel_sizes_that_differ_are_named(tmp_path: Path) -> None:
    for i in range(1, 4):
        size = 4 if i < 3 else 5
        tags = {282: numbers_tag(5, size, 1), 283: numbers_tag(5, size, 1), 296: numbers_tag(3, 3)}
        write_planes(tmp_path / "s" / f"img_{i}.tif", [i], tags)
    placed = pack_set(tmp_path / "s", tmp_path)
    assert placed.size("x") == (2500.0, "micrometer")
    assert "those of img_1.tif are kept, not those of img_3.tif" in placed.notes


def test_a_pattern_says_what_the_names_do_not(tmp_path: Path) -> None:
    values = write_grid(tmp_path / "s", lambda z, t, c: f"x{z}y{t}_{c}_end.tif", range(2), range(3), "ab")
    placed = pack_set(tmp_path / "s", tmp_path, "x{z}y{t}_{channel}_end.tif")
    by_canonical = {(t, c, z): value for (z, t, c), value in values.items()}
    check(placed, "t c z", by_canonical, range(3), "ab", range(2))
    assert placed.labels == ["a", "b"]


def test_a_file_that_does_not_match_the_pattern(tmp_path: Path) -> None:
    write_grid(tmp_path / "s", lambda t, z: f"img_t{t}_z{z}.tif", range(2), range(2))
    (tmp_path / "s" / "notes.txt").write_text("no planes, so no matter")
    assert pack_set(tmp_path / "s", tmp_path, "img_t{t}_z{z}.tif").axes == "t z"
    write_planes(tmp_path / "s" / "overview.tif", [7])
    placed = pack_set(tmp_path / "s", tmp_path, "img_t{t}_z{z}.tif")
    assert placed.axes == "z"
    assert "overview.tif does not match the pattern" in placed.notes


@pytest.mark.parametrize(
    "pattern",
    [
        "img.tif",
        "img_{t}{z}.tif",
        "a_{t}_{t}.tif",
        "a_{x}.tif",
        "a_{t",
        "a_{}.tif",
        "{a}_{b}_{c}_{d}_{e}",
        "",
    ],
)
def test_patterns_that_say_nothing(tmp_path: Path, pattern: str) -> None:
    write_planes(tmp_path / "s" / "img_1.tif", [1])
    with pytest.raises(UsageError, match="pattern"):
        plan([tmp_path / "s"], series=True, pattern=pattern)


def test_the_dry_run_shows_what_was_understood(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_grid(tmp_path / "s", lambda t, c: f"img_t{t:03}_{c}.tif", range(1, 4), ("DAPI", "GFP"))
    assert main(["pack", str(tmp_path / "s"), "--series", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "read from file names: t 1-3, c DAPI GFP" in shown
    assert "t3 c2" in shown
    assert not list(tmp_path.glob("*.zip"))


def axes_of(names: Sequence[str], inside: Sequence[str] = ()) -> NameAxes | None:
    columns = split_names(sorted(names, key=natural_key))
    return None if columns is None else axes_of_columns(columns, inside=inside)


GUID = "64FBEEF7-F77C-4892-86F5-72D0160D4F%02X"


@pytest.mark.parametrize(
    ("names", "understood"),
    [
        (["DAPI.tif", "GFP.tif"], "c DAPI GFP"),
        (["a_561nm.tif", "a_488nm.tif"], "c 488nm 561nm"),
        (["a_Cy3.tif", "a_Cy5.tif"], "c Cy3 Cy5"),
        (["kidney.tif", "brain.tif"], None),
        ([f"scan_{a}_{b:03}.tif" for a in (1, 2) for b in range(4)], "t 1-2, z 0-3"),
        ([f"x_z{n}.tif" for n in (0, 5, 10)], "z 0-10 step 5"),
        ([f"a_{n}.tif" for n in (3, 99, 2000, 100000)], "z 4 values from 3 to 100000"),
        ([f"s_A{w:02}_z{z}.tif" for w in (1, 2) for z in range(2)], "p A01 A02, z 0-1"),
        ([f"e_t{t}_s{s}_w{w}{GUID % (4 * t + 2 * s + w)}.tif" for t, s, w in product((1, 2), (0, 1), (1, 2))],
         "t 1-2, p 0-1, c 1-2"),
        ([f"i_20240101T12{t:02}30_t{t}_{c}.tif" for t in range(3) for c in "ab"], "t 0-2, c a b"),
        ([f"i_c{c}_z{z}.tif" for c in ("1_DAPI", "2_GFP") for z in range(2)], "c DAPI GFP, z 0-1"),
        ([f"r01c01f{f:02}p{p:02}-ch{h}sk1fk1fl1.tiff" for f, p, h in product((1, 2), repeat=3)],
         "p 1-2, z 1-2, c 1-2"),
        ([f"time_{t:02}_z_{z}.tif" for t in range(2) for z in range(2)], "t 0-1, z 0-1"),
    ],
)  # fmt: skip
def test_names_of_many_programs(names: list[str], understood: str | None) -> None:
    found = axes_of(names)
    assert (None if found is None else found.understood) == understood
    if found is not None:
        assert len(np.unique(found.index, axis=0)) == len(names)
        assert found.missing_count == 0


def test_numbers_around_stacks_are_time(tmp_path: Path) -> None:
    found = axes_of([f"img_{i}.tif" for i in range(4)], inside=["z"])
    assert found is not None
    assert found.names == ("t",)


@given(
    st.permutations(["t", "z", "c", "s"]),
    st.lists(st.integers(1, 4), min_size=4, max_size=4),
    st.lists(st.integers(0, 3), min_size=4, max_size=4),
    st.integers(0, 4),
    st.sampled_from(["_", "-", ""]),
)
@settings(max_examples=60, deadline=None)
def test_any_order_of_axes_is_read_back(
    keys: list[str], extents: list[int], starts: list[int], width: int, separator: str
) -> None:
    ranges = [range(a, a + n) for a, n in zip(starts, extents, strict=True)]
    places = list(product(*ranges))
    names = [
        "img_" + separator.join(f"{k}{n:0{width}}" for k, n in zip(keys, place, strict=True)) + ".tif"
        for place in places
    ]
    order = sorted(range(len(names)), key=lambda i: natural_key(names[i]))
    found = axes_of([names[i] for i in order])
    varying = [i for i, extent in enumerate(extents) if extent > 1]
    if not varying:
        assert found is None
        return
    assert found is not None
    assert found.names == tuple({"s": "p"}.get(keys[i], keys[i]) for i in varying)
    want = [[places[i][k] - starts[k] for k in varying] for i in order]
    assert found.index.tolist() == want


@given(st.lists(st.text("abw1_-{}.é² \u0663", min_size=1, max_size=12), min_size=2, max_size=8, unique=True))
@settings(max_examples=80, deadline=None)
def test_any_names_do(names: list[str]) -> None:
    ordered = sorted(names, key=natural_key)
    columns = split_names(ordered)
    if columns is not None:
        assert ["".join(column.texts[i] for column in columns) for i in range(len(names))] == ordered
        found = axes_of_columns(columns)
        assert found is None or found.index.shape == (len(names), len(found.names))
    parts, unmatched = match_pattern(ordered, "a*-{z}")
    assert len(unmatched) + (len(parts[0].texts) if parts else 0) == len(names)


def test_axes_of_100000_names_take_seconds() -> None:
    names = [f"img_t{t:04}_z{z:03}.tif" for t in range(1000) for z in range(100)]
    columns = split_names(names)
    assert columns is not None
    found = axes_of_columns(columns)
    assert found is not None
    assert found.extents == (1000, 100)


def test_a_shuffled_list_of_files(tmp_path: Path) -> None:
    values = write_grid(tmp_path / "s", lambda t, z: f"img_t{t}_z{z}.tif", range(2), range(11))
    files = [tmp_path / "s" / f"img_t{t}_z{z}.tif" for t, z in values]
    order = np.random.default_rng(5).permutation(len(files))
    (row,) = plan([files[i] for i in order], tmp_path / "o", series=True, estimate=False)
    (tmp_path / "o").mkdir()
    check(pack_row(row), "t z", values, range(2), range(11))
