"""OME-TIFF in several files: whichever file is given, the set is found, and planes are where the XML says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pytest
from tests.support.corpus import corpus_root
from tests.support.seriesfiles import (
    contents,
    described,
    ome_xml,
    pack_row,
    pack_set,
    tiff_data,
    with_companion,
    write_planes,
)

from napari_decant.archive import find_set, plan, plan_series, restore
from napari_decant.archive._source import Source

SIZES = {"T": 3, "Z": 2, "C": 2}
NAMES = ("run_MMStack_Pos000_000.ome.tif", "run_MMStack_Pos001_000.ome.tif")
CHANNELS = '<Channel ID="C:0" Name="DAPI"/><Channel ID="C:1" Name="GFP"/>'


def value(p: int, t: int, z: int, c: int) -> int:
    return 1 + 1000 * p + 100 * t + 10 * z + c


def two_positions(folder: Path, split: bool = False) -> list[Path]:
    """Write an acquisition of two positions, every file naming every file; the second may be in two parts."""
    order = list(product(range(3), range(2), range(2)))
    parts = {0: [(NAMES[0], order)], 1: [(NAMES[1], order)]}
    if split:
        parts[1] = [(NAMES[1], order[:5]), (NAMES[1].replace(".ome", "_1.ome"), order[5:])]
    data = [
        [tiff_data(name, i, *place) for name, places in parts[p] for i, place in enumerate(places)]
        for p in (0, 1)
    ]
    files = []
    for p, (name, places) in [(p, part) for p, several in parts.items() for part in several]:
        images = [("Pos000_000", SIZES, data[0]), ("Pos001_000", SIZES, data[1])]
        xml = ome_xml(images, uuid=name, inner=CHANNELS)
        files.append(write_planes(folder / name, [value(p, *place) for place in places], described(xml)))
    return files


@pytest.mark.parametrize("split", [False, True], ids=["a-file-a-position", "one-split-in-two"])
def test_B03_any_file_or_the_folder_is_the_same_set(tmp_path: Path, split: bool) -> None:
    files = two_positions(tmp_path / "s", split)
    want = [(m.name, m.read_bytes()) for m in files]
    for given in (tmp_path / "s", *files):
        if given.is_file():
            assert find_set(given) == files
        (row,) = plan([given], tmp_path, series=True, estimate=False)
        assert row.target == tmp_path / "s.zarr.zip"
        placed = pack_row(row, recovered=given == files[-1])
        assert [(m.relpath, m.path.read_bytes()) for m in placed.plan.members] == want
        assert placed.acquisition["positions"] == ["Pos000_000", "Pos001_000"]
        assert "2 positions: Pos000_000 Pos001_000" in placed.notes
        assert "absent" not in placed.notes
        # four axes are more than an image may have: storage order, and the true axes beside it
        assert placed.decant["true_axes"] == [["p", 2], ["t", 3], ["z", 2], ["c", 2]]
        assert placed.values == [value(*at) for at in product(range(2), range(3), range(2), range(2))]
    (row,) = plan(files, tmp_path, series=True, estimate=False)
    assert row.series is not None
    assert [member.path for member in row.series.members] == files


def test_B03_one_position_is_placed_in_full(tmp_path: Path) -> None:
    names = [f"{i}.ome.tif" for i in range(3)]
    data = [tiff_data(names[t], z * 2 + c, t, z, c) for t, z, c in product(range(3), range(2), range(2))]
    for t, name in enumerate(names):
        xml = ome_xml([("a", SIZES, data)], uuid=name, inner=CHANNELS)
        values = [value(0, t, z, c) for z in range(2) for c in range(2)]
        write_planes(tmp_path / "s" / name, values, described(xml))
    placed = pack_set(tmp_path / "s" / names[1], tmp_path)
    assert placed.axes == "t c z"
    assert placed.values == [[[value(0, t, z, c) for z in range(2)] for c in range(2)] for t in range(3)]
    assert placed.labels == ["DAPI", "GFP"]
    assert placed.size("x") == (0.25, "micrometer")
    assert placed.size("z") == (2.0, "micrometer")


def test_B03_a_position_that_is_gone(tmp_path: Path) -> None:
    files = two_positions(tmp_path / "s")
    files[1].unlink()
    placed = pack_set(tmp_path / "s", tmp_path)
    assert f"{NAMES[1]} is missing" in placed.notes
    assert placed.axes == "t c z"


def test_B04_more_frames_declared_than_there_are(tmp_path: Path) -> None:
    sizes = {"T": 50, "Z": 1, "C": 1}
    data = [tiff_data("ab"[t % 2] + ".ome.tif", t // 2, t) for t in range(50)]
    for k, name in enumerate(("a.ome.tif", "b.ome.tif")):
        xml = ome_xml([("x", sizes, data)], uuid=name)
        write_planes(tmp_path / "s" / name, [1 + t for t in range(7) if t % 2 == k], described(xml))
    placed = pack_set(tmp_path / "s", tmp_path)
    assert "43 of 50 declared frames absent from this series" in placed.notes
    assert placed.axes == "t"
    assert placed.values == list(range(1, 8))
    restore(tmp_path / "s.zarr.zip", tmp_path / "back")
    assert contents(tmp_path / "back") == contents(tmp_path / "s")


def test_B04_a_stack_cut_short_beside_others(tmp_path: Path) -> None:
    for t in range(1, 4):
        xml = ome_xml([("x", {"T": 1, "Z": 50, "C": 1}, ["<TiffData/>"])])
        write_planes(tmp_path / "s" / f"a_t{t}.ome.tif", [10 * t + i for i in range(7)], described(xml))
    placed = pack_set(tmp_path / "s", tmp_path)
    assert "a_t2.ome.tif: 43 of 50 declared frames absent" in placed.notes
    assert placed.axes == "t z"
    assert placed.values == [[10 * t + i for i in range(7)] for t in range(1, 4)]


def test_B05_the_companion_belongs_to_the_set(tmp_path: Path) -> None:
    companion, files = with_companion(tmp_path / "s")
    for given in (companion, *files, tmp_path / "s"):
        if given.is_file():
            assert find_set(given) == [*files, companion]
        placed = pack_set(given, tmp_path, recovered=given == companion)
        assert placed.axes == "t z"
        assert placed.values == [[11, 12, 13], [1, 2, 3]]
        assert "set.companion.ome" in [member.relpath for member in placed.plan.members]
    assert "missing" not in placed.notes


def test_B05_the_companion_is_gone(tmp_path: Path) -> None:
    companion, files = with_companion(tmp_path / "s")
    companion.unlink()
    assert find_set(files[0]) is None
    placed = pack_set(tmp_path / "s", tmp_path)
    assert "set.companion.ome is missing: the OME metadata of first.ome.tif, second.ome.tif" in placed.notes
    assert [member.relpath for member in placed.plan.members] == ["first.ome.tif", "second.ome.tif"]
    assert placed.axes == "z"
    assert placed.values == [1, 2, 3, 11, 12, 13]
    alone = pack_set(files[1], tmp_path / "alone")
    assert alone.values == [11, 12, 13]


def test_B05_the_companion_was_renamed(tmp_path: Path) -> None:
    companion, files = with_companion(tmp_path / "s")
    renamed = companion.rename(companion.with_name("other.companion.ome"))
    assert find_set(files[0]) == [files[0], renamed, files[1]]
    placed = pack_set(tmp_path / "s", tmp_path)
    assert placed.values == [[11, 12, 13], [1, 2, 3]]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda xml: xml[: len(xml) // 2],
        lambda xml: xml.replace("?>", '?><!DOCTYPE OME [<!ENTITY a "aaaa">]>', 1),
        lambda xml: "",
        lambda xml: xml.replace('SizeZ="3"', 'SizeZ="999999999"'),
        lambda xml: xml.replace("<TiffData", "<TiffData" + " " * 100, 1) + "<",
    ],
    ids=["cut", "entities", "empty", "huge", "trailing"],
)
def test_B05_a_companion_that_cannot_be_trusted(tmp_path: Path, spoil: Callable[[str], str]) -> None:
    companion, files = with_companion(tmp_path / "s")
    companion.write_text(spoil(companion.read_text()))
    placed = pack_set(tmp_path / "s", tmp_path)
    assert sorted(placed.array[..., 0, 0].ravel().tolist()) == [1, 2, 3, 11, 12, 13]
    restore(tmp_path / "s.zarr.zip", tmp_path / "back")
    assert contents(tmp_path / "back") == contents(tmp_path / "s")
    assert find_set(files[0]) is not None


def test_files_that_were_renamed_are_known_by_their_uuid(tmp_path: Path) -> None:
    _, files = with_companion(tmp_path / "s")
    files[0].rename(tmp_path / "s" / "x.ome.tif")
    files[1].rename(tmp_path / "s" / "y.ome.tif")
    placed = pack_set(tmp_path / "s", tmp_path)
    assert placed.values == [[11, 12, 13], [1, 2, 3]]
    assert "missing" not in placed.notes


def test_a_master_file_holds_the_metadata(tmp_path: Path) -> None:
    names = [f"m_{i}.ome.tif" for i in range(4)]
    data = [tiff_data(name, 0, z=3 - i, uuid=str(i)) for i, name in enumerate(names)]
    for i, name in enumerate(names):
        binary = '<OME xmlns="x"><BinaryOnly MetadataFile="m_2.ome.tif" UUID="urn:uuid:2"/></OME>'
        xml = ome_xml([("x", {"T": 1, "Z": 4, "C": 1}, data)], uuid="2") if i == 2 else binary
        write_planes(tmp_path / "s" / name, [i + 1], described(xml))
    for given in (tmp_path / "s", tmp_path / "s" / names[0], tmp_path / "s" / names[2]):
        assert pack_set(given, tmp_path).values == [4, 3, 2, 1]


def test_files_that_point_at_each_other(tmp_path: Path) -> None:
    for name, other in (("a", "b"), ("b", "a"), ("c", "c"), ("d", "gone")):
        pointer = f'<OME xmlns="x"><BinaryOnly MetadataFile="{other}.ome.tif"/></OME>'
        write_planes(tmp_path / "s" / f"{name}.ome.tif", [ord(name)], described(pointer))
    placed = pack_set(tmp_path / "s", tmp_path)
    assert placed.values == [ord(name) for name in "abcd"]
    assert "gone.ome.tif is missing: the OME metadata of d.ome.tif is in it" in placed.notes


def test_nothing_outside_the_folder_is_named_or_read(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    secret = write_planes(tmp_path / "secret" / "b.ome.tif", [9])
    inside = write_planes(tmp_path / "s" / "sub" / "c.ome.tif", [8])
    names = ["a.ome.tif", "../secret/b.ome.tif", str(secret), "sub/c.ome.tif", "link.ome.tif", "..", ""]
    data = [tiff_data(name, 0, z=i) for i, name in enumerate(names)]
    xml = ome_xml([("x", {"T": 1, "Z": 7, "C": 1}, data)], uuid="a.ome.tif")
    first = write_planes(tmp_path / "s" / "a.ome.tif", [1], described(xml))
    (tmp_path / "s" / "link.ome.tif").symlink_to(secret)
    pointer = '<OME xmlns="x"><BinaryOnly MetadataFile="../secret/b.ome.tif"/></OME>'
    other = write_planes(tmp_path / "s" / "p.ome.tif", [2], described(pointer))
    assert find_set(first) is None
    assert find_set(other) is None
    planned = plan_series([first, inside], tmp_path / "s")
    assert [member.path for member in planned.members] == [first, inside]


def test_one_document_is_enough_for_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 60
    names = [f"f{i:03}.ome.tif" for i in range(count)]
    data = [tiff_data(name, 0, t=i) for i, name in enumerate(names)]
    xml = ome_xml([("x", {"T": count, "Z": 1, "C": 1}, data)], uuid=names[0])
    for i, name in enumerate(names):
        write_planes(tmp_path / "s" / name, [i + 1], described(xml.replace(names[0], name, 1)))
    planned = plan_series(sorted((tmp_path / "s").iterdir()), tmp_path / "s")
    opened: list[str] = []
    was = Source.__init__

    def count_opened(self: Source, path: Path) -> None:
        opened.append(path.name)
        was(self, path)

    monkeypatch.setattr(Source, "__init__", count_opened)
    from napari_decant.archive._place import place_series

    described_ = place_series(planned.members)
    assert described_.axes.plane_order == ("t",)
    assert set(opened) == {names[0]}


def test_a_file_that_the_metadata_does_not_know(tmp_path: Path) -> None:
    two_positions(tmp_path / "s")
    write_planes(tmp_path / "s" / "stray.tif", [9])
    placed = pack_set(tmp_path / "s", tmp_path)
    assert "the OME metadata does not speak of stray.tif" in placed.notes
    assert placed.axes == "z"
    assert len(placed.values) == 25


def corpus_sets(root: Path) -> Iterator[tuple[str, list[Path], tuple[tuple[str, int], ...]]]:
    files = root / "files"
    made = files / "generated+bioformats"
    yield "4d", sorted(made.glob("bf_4d_z*_t*.ome.tif")), (("t", 7), ("z", 5))
    yield "channels", sorted(made.glob("bf_c?_multifile.ome.tif")), (("c", 4),)
    many = files / "tlnagy+exampletiffs" / "ometiff_testdata" / "multiples"
    yield "companion", sorted((many / "companion").iterdir()), (("z", 5),)
    yield "master", sorted((many / "master").iterdir()), (("z", 5),)


def test_sets_of_the_corpus(tmp_path: Path) -> None:
    root = corpus_root()
    if root is None:
        pytest.skip("NAPARI_DECANT_CORPUS names no folder of real files")
    for name, files, axes in corpus_sets(root):
        assert len(files) > 1
        for file in files[::7]:
            assert sorted(find_set(file) or []) == files
        folder = tmp_path / name
        folder.mkdir()
        for file in files:
            (folder / file.name).write_bytes(file.read_bytes())
        (row,) = plan([folder], tmp_path, series=True, estimate=False)
        assert row.series is not None
        assert row.series.description is not None
        found = row.series.description.axes
        assert tuple(zip(found.canonical_order, found.canonical_shape, strict=True)) == axes, row.notes
