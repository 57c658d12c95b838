"""Crops in files: written, opened again, and lying where they were cut; queries that are kept; the verb."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from tests.crop.helpers import at_world, blob, center_of_mass, image_in_memory, mean_pyramid
from tests.plugin.helpers import write_folder
from tests.support.ngff import image_keys

from napari_decant.cli import main
from napari_decant.errors import Cancelled, FormatError, TargetExists, UnsafeInput, UsageError
from napari_decant.images import open_image
from napari_decant.images.crop import (
    CONVENTION,
    Region,
    SavedQuery,
    WorldMap,
    affine_record,
    crop,
    place,
    plan_crop,
    recorded_affine,
    source_of_image,
)
from napari_decant.progress import CancelToken
from napari_decant.spatial import Sampler

SPOT = (15.0, 50.0, 70.0)
SCALE, ORIGIN = (2.0, 0.5, 0.3), (-3.0, 10.0, 4.0)
PHYSICAL = np.array([s * (a - 0.5) + o for s, a, o in zip(SCALE, SPOT, ORIGIN, strict=True)])
TURNED = Region(tuple(PHYSICAL + 0.4), (36.0, 16.0, 14.0), (30.0, 10.0, -20.0))


@pytest.fixture(scope="module")
def image():
    data = mean_pyramid(blob((32, 96, 128), SPOT, (1.2, 2.0, 3.0)), 2)
    ome = {"omero": {"channels": [{"color": "FF00FF", "label": "dye", "window": {"start": 5, "end": 900}}]}}
    return image_in_memory(data, "zyx", SCALE, ORIGIN, chunks=(8, 32, 32), ome=ome)


@pytest.fixture
def folder(tmp_path):
    data = mean_pyramid(blob((32, 96, 128), SPOT, (1.2, 2.0, 3.0)), 2)
    scales = [list(SCALE), [2 * s for s in SCALE]]
    shifts = [list(ORIGIN), [o + 0.5 * s for s, o in zip(SCALE, ORIGIN, strict=True)]]
    keys = image_keys(data, "zyx", scales=scales, translations=shifts, chunks=(8, 32, 32))
    return write_folder(tmp_path / "cells.zarr", keys)


def turned_query(image):
    source = source_of_image(image)
    return place(TURNED, source, WorldMap.physical(source), sampler=Sampler("linear", "constant"))


def layer_matrix(layer):
    """Where a viewer puts the pixels of a layer."""
    own = np.column_stack([np.diag(layer.scale), layer.translate])
    if layer.affine is None:
        return own
    whole = np.asarray(layer.affine)
    return np.column_stack([whole[:-1, :-1] @ own[:, :-1], whole[:-1, :-1] @ own[:, -1] + whole[:-1, -1]])


@pytest.mark.parametrize("suffix", [".zarr", ".ozx"])
def test_a_turned_crop_comes_back_in_its_place(image, tmp_path, suffix):
    target = tmp_path / f"crop{suffix}"
    report = crop(image, turned_query(image), target, memory=1 << 30)
    made = crop(image, turned_query(image)).array
    assert report.size > 0
    with_file = open_image(target)
    (layer,) = with_file.layers()
    assert layer.axis_labels == ("t", "z", "y", "x")
    assert layer.color == "FF00FF"
    assert layer.contrast_limits == (5, 900)
    assert layer.units[1:] == ("micrometer",) * 3
    pixels = np.asarray(layer.levels[0])
    np.testing.assert_array_equal(pixels[0], made)
    np.testing.assert_allclose(layer_matrix(layer)[1:, 1:], report.placement.matrix, atol=1e-9)
    found = at_world(layer_matrix(layer)[1:, 1:], center_of_mass(pixels[0]))
    np.testing.assert_allclose(found, PHYSICAL, atol=0.15)
    record = with_file.ngff.decant
    assert record["affine"]["convention"] == CONVENTION
    assert record["affine"]["axes"] == ["z", "y", "x"]
    assert SavedQuery.from_json(record["crop"]["query"]).fit(source_of_image(image)) == turned_query(image)
    with_file.close()


def test_readers_that_know_no_affine_show_the_crop_around_the_same_centre(image, tmp_path):
    crop(image, turned_query(image), tmp_path / "crop.zarr", memory=1 << 30)
    again = open_image(tmp_path / "crop.zarr")
    middle = [
        s * (n - 1) / 2 + t
        for s, n, t in zip(again.scales[0], again.shape, again.translations[0], strict=True)
    ]
    np.testing.assert_allclose(middle[2:], TURNED.center, atol=1e-6)


def test_a_crop_of_a_turned_crop_lies_right_too(image, tmp_path):
    crop(image, turned_query(image), tmp_path / "crop.zarr", memory=1 << 30)
    again = open_image(tmp_path / "crop.zarr")
    source = source_of_image(again)
    region = Region(tuple(PHYSICAL), (30.0, 9.0, 9.0), (0.0, 0.0, 0.0))
    sized = place(region, source, WorldMap.physical(source), sampler=Sampler("linear", "constant"))
    report = crop(again, sized)
    matrix = report.placement.matrix[2:, 2:]
    np.testing.assert_allclose(at_world(matrix, center_of_mass(report.array[0, 0])), PHYSICAL, atol=0.2)


def test_labels_stay_labels_and_channels_keep_their_colours(tmp_path):
    labels = np.zeros((40, 40), "u4")
    labels[10:30, 12:25] = 4000000001
    image = image_in_memory(
        [labels], "yx", (0.5, 0.5),
        ome={"image-label": {"colors": [{"label-value": 4000000001, "rgba": [255, 0, 0, 255]}]}},
    )  # fmt: skip
    source = source_of_image(image)
    region = Region((9.0, 9.0), (12.0, 14.0), (30.0,))
    sized = place(region, source, WorldMap.physical(source), sampler=Sampler("nearest", "constant"))
    crop(image, sized, tmp_path / "labels.zarr", memory=1 << 30)
    again = open_image(tmp_path / "labels.zarr")
    assert again.is_labels
    assert again.label.colors == {4000000001: (255, 0, 0, 255)}
    assert set(np.unique(np.asarray(again.levels[0]))) == {0, 4000000001}
    assert again.layers()[0].affine is not None


def test_two_channels_and_one_of_them(tmp_path):
    planes = np.stack([blob((40, 48), (20.0, 24.0), 4.0), blob((40, 48), (12.0, 30.0), 4.0)])
    channels = [{"color": "FF0000", "label": "red"}, {"color": "00FF00", "label": "green"}]
    image = image_in_memory(
        [planes], "cyx", (1.0, 0.5, 0.5), chunks=(1, 16, 16), ome={"omero": {"channels": channels}}
    )
    source = source_of_image(image)
    region = Region((9.75, 11.75), (10.0, 12.0), (0.0,))
    both = place(region, source, WorldMap.physical(source))
    crop(image, both, tmp_path / "both.zarr", memory=1 << 30)
    assert [layer.color for layer in open_image(tmp_path / "both.zarr").layers()] == ["FF0000", "00FF00"]
    one = place(region, source, WorldMap.physical(source), index={"c": (1, 2)})
    crop(image, one, tmp_path / "one.zarr", memory=1 << 30)
    (layer,) = open_image(tmp_path / "one.zarr").layers()
    assert layer.color == "00FF00"
    np.testing.assert_array_equal(np.asarray(layer.levels[0])[0, 0], planes[1][10:30, 12:36])


def test_a_cancelled_or_failed_crop_leaves_nothing(image, tmp_path):
    token = CancelToken()
    with pytest.raises(Cancelled):
        crop(
            image,
            turned_query(image),
            tmp_path / "crop.zarr",
            progress=lambda event: token.cancel(),
            cancel=token,
        )
    assert os.listdir(tmp_path) == []
    (tmp_path / "crop.zarr").mkdir()
    with pytest.raises(TargetExists):
        crop(image, turned_query(image), tmp_path / "crop.zarr")
    with pytest.raises(UsageError, match="zarr"):
        crop(image, turned_query(image), tmp_path / "crop.png")
    assert os.listdir(tmp_path) == ["crop.zarr"]


def test_queries_are_kept_and_used_on_other_images(image, tmp_path):
    saved = SavedQuery.of(turned_query(image), source_of_image(image), "f4")
    saved.save(tmp_path / "q.json")
    with pytest.raises(TargetExists):
        saved.save(tmp_path / "q.json")
    assert SavedQuery.load(tmp_path / "q.json") == saved
    plain = json.loads((tmp_path / "q.json").read_text())
    assert set(plain) == {"output_to_reference", "shape", "level", "sampler", "dtype", "axes"}
    assert set(plain["sampler"]) == {"filter", "boundary", "constant_value"}
    other = image_in_memory(
        [np.full((2, 32, 96, 128), 9, "u1")], "czyx", (1.0, *SCALE), chunks=(1, 32, 32, 32)
    )
    report = crop(other, saved)
    assert report.array.shape == (2, *saved.shape)
    assert report.array.dtype == np.float32
    flat = image_in_memory([np.full((96, 128), 9, "u1")], "yx")
    with pytest.raises(UsageError, match="axis 'z'"):
        crop(flat, saved)


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("[1, 2]", FormatError, "no JSON object"),
        ("{}", FormatError, "lacks the field 'output_to_reference'"),
        ('{"output_to_reference": "rows", "shape": [1]}', FormatError, "rows of numbers"),
        ('{"output_to_reference": [[1, 0]], "shape": [1.5]}', FormatError, "whole numbers"),
        ('{"output_to_reference": [[1, 0]], "shape": [0]}', UsageError, "between 1 and"),
        ('{"output_to_reference": [[1, 0], [1]], "shape": [1, 1]}', UsageError, "matrix"),
        ('{"output_to_reference": [[1, 0]], "shape": [1, 2]}', UsageError, "rank"),
        ('{"output_to_reference": [[1, 0]], "shape": [1], "level": true}', FormatError, "level"),
        ('{"output_to_reference": [[1, 0]], "shape": [1], "dtype": "object"}', UsageError, "numeric"),
        ('{"output_to_reference": [[1, 0]], "shape": [1], "dtype": 7}', FormatError, "dtype"),
        ('{"output_to_reference": [[1, 0]], "shape": [1], "axes": [1]}', FormatError, "axes"),
        ('{"output_to_reference": [[1, 0]], "shape": [1], "sampler": {"filter": "x3"}}', UsageError, "x3"),
        ('{"output_to_reference": [[1, 1e999]], "shape": [1]}', FormatError, "rows of numbers"),
        ('{"shape": [1], "shape": [2], "output_to_reference": [[1, 0]]}', FormatError, "more than once"),
        ("[" * 100000, UnsafeInput, "deep"),
        ("not json", FormatError, "not valid JSON"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_query_is_refused_in_one_sentence(tmp_path, text, error, words):
    (tmp_path / "q.json").write_text(text)
    with pytest.raises(error, match=words):
        SavedQuery.load(tmp_path / "q.json")


def test_a_query_file_that_is_too_large_or_missing(tmp_path):
    (tmp_path / "q.json").write_bytes(b" " * ((1 << 20) + 1))
    with pytest.raises(UnsafeInput, match="not read"):
        SavedQuery.load(tmp_path / "q.json")
    with pytest.raises(UsageError, match="does not exist"):
        SavedQuery.load(tmp_path / "none.json")


@pytest.mark.parametrize(
    "change",
    [
        {"convention": "something else"},
        {"axes": ["z", "y", "q"]},
        {"axes": ["z", "z", "x"]},
        {"axes": "zyx"},
        {"axes": []},
        {"matrix": [[1, 0, 0, 0]]},
        {"matrix": [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, "1", 0]]},
        {"matrix": [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, float("nan"), 0]]},
        {"matrix": [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 10**400, 0]]},
        {"matrix": [[1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0]]},
        {"matrix": [[0, 0, 0, 0]] * 3},
    ],
)
def test_a_recorded_affine_that_makes_no_sense_is_not_used(change, caplog):
    record = affine_record(np.column_stack([np.eye(3), np.ones(3)]), "zyx")
    assert recorded_affine({"affine": record}, ["c", "z", "y", "x"])["axes"] == [1, 2, 3]
    assert recorded_affine({}, ["z", "y", "x"]) is None
    assert not caplog.records
    assert recorded_affine({"affine": record | change}, ["c", "z", "y", "x"]) is None
    assert "decant.affine is not used" in caplog.text


def run(capsys, *words):
    code = main([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_verb_cuts_a_straight_box(folder, tmp_path, capsys):
    target = tmp_path / "out.zarr"
    code, out, _ = run(
        capsys,
        "crop",
        folder,
        "-o",
        target,
        "--origin",
        "y=20,x=30",
        "--size",
        "y=40,x=50",
        "--json",
        "--quiet",
    )
    assert code == 0
    result = json.loads(out)
    assert result["ok"]
    assert result["facts"]["shape"] == [32, 40, 50]
    assert not result["facts"]["resampled"]
    assert result["facts"]["chunks"] == 4 * 2 * 3
    again, source = open_image(target), open_image(folder)
    np.testing.assert_array_equal(
        np.asarray(again.levels[0])[0, 0], np.asarray(source.levels[0])[:, 20:60, 30:80]
    )
    np.testing.assert_allclose(again.translations[0][2:], [ORIGIN[0], 10 + 0.5 * 20, 4 + 0.3 * 30])


def test_the_verb_turns_plans_saves_the_query_and_runs_it_again(folder, tmp_path, capsys):
    words = ["crop", folder, "-o", tmp_path / "a.zarr", "--physical", "--origin", "17,27,18", "--size",
             "16,16,14",
             "--rotate", "30,10,-20", "--boundary", "constant", "--dtype", "f32", "--level", "0"]  # fmt: skip
    code, out, _ = run(capsys, *words, "--dry-run")
    assert code == 0
    assert "resampled" in out
    assert not (tmp_path / "a.zarr").exists()
    assert run(capsys, *words, "--save-query", tmp_path / "q.json", "--quiet")[0] == 0
    code, out, _ = run(
        capsys, "crop", folder, "-o", tmp_path / "b.ozx", "--query", tmp_path / "q.json", "--quiet"
    )
    assert code == 0
    assert "level 0, resampled" in out
    a, b = open_image(tmp_path / "a.zarr"), open_image(tmp_path / "b.ozx")
    assert a.dtype == b.dtype == np.float32
    np.testing.assert_array_equal(np.asarray(a.levels[0]), np.asarray(b.levels[0]))
    matrix = layer_matrix(b.layers()[0])[1:, 1:]
    np.testing.assert_allclose(
        at_world(matrix, center_of_mass(np.asarray(b.levels[0])[0, 0])), PHYSICAL, atol=0.2
    )


def test_the_verb_takes_a_matrix(folder, tmp_path, capsys):
    code, _, _ = run(
        capsys, "crop", folder, "-o", tmp_path / "m.zarr", "--matrix", "1,0,0,8;0,1,0,16;0,0,1,16", "--shape",
        "16,32,32", "--quiet",
    )  # fmt: skip
    assert code == 0
    made, source = open_image(tmp_path / "m.zarr"), open_image(folder)
    np.testing.assert_array_equal(
        np.asarray(made.levels[0])[0, 0], np.asarray(source.levels[0])[8:24, 16:48, 16:48]
    )


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["-o", "x.png"], 2, "end it with .zarr"),
        (["-o", "x.zarr", "--size", "1,2"], 2, "the spatial axes are z, y, x"),
        (["-o", "x.zarr", "--size", "q=2"], 2, "names 'q'"),
        (["-o", "x.zarr", "--origin", "a,b,c"], 2, "numbers without units, divided by commas"),
        (["-o", "x.zarr", "--size", "5um,5um,5um"], 2, "'5um,5um,5um'; numbers without units"),
        (["-o", "x.zarr", "--origin", "-9,0,0", "--size", "3,3,3"], 2, "needs indices -9 to -7 of axis 'z'"),
        ([], 2, "say what to write: -o NAME.zarr"),
        (["-o", "x.zarr", "--workers", "0"], 2, "0 workers cannot do anything"),
        (["-o", "x.zarr", "--memory", "20M"], 3, "memory allows 20,971,520"),
        (["-o", "x.zarr", "--image", "nothere"], 3, "holds no image"),
        (["-o", "x.zarr", "--query", "q.json"], 2, "q.json does not exist"),
        (["-o", "x.zarr", "--query", "garbage.json"], 3, "garbage.json is not valid JSON"),
        (["-o", "x.zarr", "--query", "flat.json"], 2, "flat.json makes no query: output_to_reference has"),
        (
            ["-o", "x.zarr", "--matrix", "1,0,0,0;0,1,0,0;0,0,1,0", "--shape", "4,4"],
            2,
            "--matrix and --shape",
        ),
        (["-o", "x.zarr", "--save-query", "garbage.json"], 2, "garbage.json exists already"),
        (["-o", "garbage.json/x.zarr", "--size", "4,4,4"], 2, "garbage.json is no folder"),
        (["-o", "x.zarr", "--size", "0,1,1"], 2, "the box is empty"),
        (["-o", "x.zarr", "--rotate", "1,2"], 2, "has 2 angles"),
        (["-o", "x.zarr", "--matrix", "1,0"], 2, "needs --shape"),
        (["-o", "x.zarr", "--shape", "1"], 2, "belongs to --matrix"),
        (["-o", "x.zarr", "--query", "q.json", "--origin", "1,1,1"], 2, "leave out --origin"),
        (["-o", "x.zarr", "--index", "t"], 2, "write for example t=3"),
        (["-o", "x.zarr", "--index", "t=3"], 2, "no axis 't'"),
        (["-o", "x.zarr", "--index", "c=2:1"], 2, "'c=2:1'; indices count from 0"),
        (["-o", "x.zarr", "--index", "c=1", "--index", "c=2"], 2, "names 'c' twice"),
        (["-o", "x.zarr", "--level", "9"], 2, "level 9 is not there"),
        (["-o", "x.zarr", "--level", "fine"], 2, "auto or the number"),
        (["-o", "x.zarr", "--origin", "0,0,0", "--size", "99,9,9"], 2, "move it inside"),
        (["-o", "x.zarr", "--device", "cuda"], 3, "no GPU can be used"),
        (["-o", "x.zarr", "--memory", "1M"], 3, "memory"),
        (["-o", "x.zarr", "--dtype", "text"], 2, "text"),
    ],
)
def test_the_verb_refuses_in_one_sentence(folder, tmp_path, monkeypatch, capsys, words, code, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "garbage.json").write_bytes(bytes(range(256)))
    (tmp_path / "flat.json").write_text('{"output_to_reference": [[1, 0], [0, 1]], "shape": [4, 4]}')
    before = sorted(os.listdir(tmp_path))
    found, out, err = run(capsys, "crop", folder, *words)
    assert found == code
    assert says in err
    assert err.count("\n") == 1
    assert out == ""
    assert "Traceback" not in err
    assert sorted(os.listdir(tmp_path)) == before


def test_a_failure_is_one_json_object_too(folder, tmp_path, capsys):
    code, out, err = run(capsys, "crop", folder, "-o", tmp_path / "x.zarr", "--level", "9", "--json")
    told = json.loads(out)
    assert (code, told["ok"], told["exit_code"]) == (2, False, 2)
    assert told["error"] in err
    code, out, _ = run(capsys, "crop", folder, "--nothing", "--json")
    assert (code, json.loads(out)["exit_code"]) == (2, 2)


def test_the_verb_refuses_what_is_no_image_and_never_writes_over_its_source(folder, tmp_path, capsys):
    (tmp_path / "text.txt").write_text("no image")
    (tmp_path / "empty.zarr").mkdir()
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    for image, target, code, says in (
        (tmp_path / "none.zarr", "x.zarr", 2, "none.zarr does not exist; check the path"),
        (tmp_path / "text.txt", "x.zarr", 3, "neither OME-Zarr"),
        (tmp_path / "empty.zarr", "x.zarr", 3, "holds no image"),
        (folder, "cells.zarr", 2, "is the image that is cut"),
        (folder, "cells.zarr/0/x.zarr", 2, "or within it"),
    ):
        found, out, err = run(
            capsys, "crop", image, "-o", tmp_path / target, "--overwrite", "--size", "y=4,x=4"
        )
        assert (found, out) == (code, "")
        assert says in err
        assert err.count("\n") == 1
    assert sorted(os.listdir(tmp_path)) == ["cells.zarr", "empty.zarr", "text.txt"]
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) == size


def test_the_verb_takes_numbers_below_zero_and_saves_the_query_of_what_was_made(folder, tmp_path, capsys):
    query = tmp_path / "q.json"
    words = ["--origin", "-4,-8,0", "--size", "16,24,32", "--boundary", "constant", "--constant", "-3"]
    words += ["--dtype", "i16", "--save-query", query, "--quiet"]
    code, out, _ = run(capsys, "crop", folder, "-o", tmp_path / "a.ome.tif", *words)
    assert code == 0
    assert "16 x 24 x 32 int16" in out
    made, source = open_image(tmp_path / "a.ome.tif"), open_image(folder)
    found = np.asarray(made.levels[0])
    assert (found[:4] == -3).all()
    np.testing.assert_array_equal(found[4:, 8:], np.asarray(source.levels[0])[:12, :16, :32])
    assert SavedQuery.load(query).query.output_to_reference[0][-1] == -4
    made.close()
    source.close()
    code, _, err = run(capsys, "crop", folder, "-o", tmp_path / "b.zarr", "--rotate", "-30", "--save-query",
                       tmp_path / "p.json")  # fmt: skip
    assert code == 2
    assert "boundary" in err
    assert not (tmp_path / "p.json").exists()


def test_a_plan_says_the_same_as_the_crop(image):
    planned, made = plan_crop(image, turned_query(image)), crop(image, turned_query(image))
    assert planned.facts.shape == made.array.shape
    assert planned.facts.chunks == made.facts.chunks
    assert planned.placement == made.placement
