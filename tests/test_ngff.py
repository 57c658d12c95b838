"""What people see of an OME-Zarr image is what its metadata say, and odd metadata open with a warning."""

from __future__ import annotations

import json
import pickle
import time
import zipfile
from collections.abc import Iterable
from dataclasses import FrozenInstanceError
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.ngff import AXES, array_keys, group_keys, image_keys, ramp
from tests.support.servers import serve_http, serve_s3

from napari_decant.errors import (
    BudgetExceeded,
    ChoiceNeeded,
    FormatError,
    StorageError,
    UnsafeInput,
    UnsupportedOperation,
    UsageError,
)
from napari_decant.ngff import NgffImage, NgffLimits, list_images
from napari_decant.ngff._image import image_name
from napari_decant.stores import FileMetadataReader, MemoryStore, Store

VERSIONS = ["0.4", "0.5"]


def load(keys: dict[str, bytes], **kwargs: Any) -> NgffImage:
    return NgffImage(MemoryStore(keys), **kwargs)


def pyramid(axes: str = "zyx") -> list[np.ndarray]:
    shape = {"t": 2, "c": 3, "z": 4, "y": 16, "x": 12}
    return [ramp([shape[a] if a in "tcz" else shape[a] >> level for a in axes]) for level in range(3)]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("axes", ["yx", "zyx", "cyx", "tcyx", "tczyx"])
def test_a_regular_image_is_strict_and_complete(version: str, axes: str) -> None:
    scales = [[1.0 if a in "tcz" else 0.5 * 2**level for a in axes] for level in range(3)]
    image = load(image_keys(pyramid(axes), axes, version=version, scales=scales, name="cells"))
    assert (image.version, image.zarr_format, image.name) == (version, 3 if version == "0.5" else 2, "cells")
    assert [(a.name, a.type, a.unit) for a in image.axes] == [
        (a, AXES[a]["type"], AXES[a].get("unit")) for a in axes
    ]
    assert [level.shape for level in image.levels] == [level.shape for level in pyramid(axes)]
    assert [level.scale for level in image.levels] == [tuple(s) for s in scales]
    assert image.levels[2].scale_to_reference == tuple(1.0 if a in "tcz" else 4.0 for a in axes)
    assert image.levels[2].origin_reference_index == tuple(0.0 if a in "tcz" else -1.5 for a in axes)
    assert image.levels[0].dtype == np.uint16
    assert image.warnings == ()
    assert image.strict_error is None
    image.require_strict()


def test_it_never_changes_and_pickles() -> None:
    image = load(image_keys(pyramid()))
    with pytest.raises(FrozenInstanceError):
        image.name = "other"  # type: ignore[misc]
    again = pickle.loads(pickle.dumps(image))
    assert again.levels == image.levels
    assert (again.axes, again.uri, again.name) == (image.axes, image.uri, image.name)


class WholeShape:
    def resolve(self, image: NgffImage, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        return image.uri, shape


def test_resolve_hands_the_image_to_the_query() -> None:
    image = load(image_keys(pyramid()))
    assert image.resolve(WholeShape(), shape=(1, 2, 3)) == (image.uri, (1, 2, 3))


def test_levels_map_to_the_reference_by_the_documents_formulas() -> None:
    levels = [ramp((64, 64)), ramp((32, 32)), ramp((16, 16))]
    halves = load(
        image_keys(
            levels,
            "yx",
            scales=[[0.5] * 2, [1.0] * 2, [2.0] * 2],
            translations=[[0, 0], [0.25] * 2, [0.75] * 2],
        )
    )
    assert [level.origin_reference_index for level in halves.levels] == [(0.0, 0.0)] * 3
    bare = load(image_keys(levels, "yx", scales=[[1.0] * 2, [2.0] * 2, [4.0] * 2]))
    assert [level.origin_reference_index for level in bare.levels] == [(0.0,) * 2, (-0.5,) * 2, (-1.5,) * 2]
    rounded = load(image_keys([ramp((9, 9)), ramp((3, 3))], "yx", scales=[[0.1, 0.1], [0.3, 0.3]]))
    assert 0.3 / 0.1 != 3.0
    assert rounded.levels[1].scale_to_reference == (3.0, 3.0)
    assert rounded.levels[1].origin_reference_index == (-1.0, -1.0)
    odd = load(image_keys([ramp((9, 9)), ramp((3, 3))], "yx", scales=[[1.0, 1.0], [3.0001, 3.0]]))
    assert odd.levels[1].scale_to_reference == (3.0001, 3.0)


@settings(deadline=None, max_examples=200)
@given(
    base=st.decimals("0.001", "1000", places=4, allow_nan=False).filter(lambda d: d > 0),
    step=st.integers(1, 64),
    halves=st.integers(-40, 40),
)
def test_rounding_of_writers_never_shows(base: Any, step: int, halves: int) -> None:
    """Scales and translations computed in floating point give the exact ratio and origin."""
    s0 = float(base)
    s1 = s0 * step
    moved = float(Fraction(base) * Fraction(halves, 2))
    image = load(
        image_keys(
            [ramp((64 * 2, 64)), ramp((2, 1))],
            "yx",
            scales=[[s0, s0], [s1, s1]],
            translations=[[0, 0], [moved, 0]],
        )
    )
    level = image.levels[1]
    assert level.scale_to_reference == (float(step), float(step))
    assert level.origin_reference_index[0] == float(Fraction(halves, 2) + Fraction(1 - step, 2))


def test_scale_is_composed_of_both_transforms() -> None:
    """Field report A-07."""
    shared = {"coordinateTransformations": [{"type": "scale", "scale": [1, 1, 0.1625, 0.1625]}]}
    levels = [ramp((2, 3, 16, 16)), ramp((2, 3, 8, 8))]
    image = load(
        image_keys(levels, "czyx", version="0.4", scales=[[1, 1, 1, 1], [1, 1, 2, 2]], multiscale=shared)
    )
    assert image.levels[0].scale == (1.0, 1.0, 0.1625, 0.1625)
    assert image.levels[1].scale == (1.0, 1.0, 0.325, 0.325)
    assert image.levels[1].scale_to_reference == (1.0, 1.0, 2.0, 2.0)
    assert [axis.unit for axis in image.axes] == [None, "micrometer", "micrometer", "micrometer"]
    assert image.strict_error is None
    moved = {
        "coordinateTransformations": [
            {"type": "scale", "scale": [2, 2]},
            {"type": "translation", "translation": [5, 7]},
        ]
    }
    image = load(image_keys([ramp((4, 4))], "yx", scales=[[3, 4]], translations=[[1, 1]], multiscale=moved))
    assert (image.levels[0].scale, image.levels[0].translation) == ((6.0, 8.0), (7.0, 9.0))


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf"), "NaN", None, [1]])
def test_a_scale_that_is_none_becomes_1_with_a_warning(bad: Any) -> None:
    image = load(image_keys([ramp((3, 8, 8))], "tyx", version="0.4", scales=[[bad, 0.5, 0.5]]))
    wrong_type = isinstance(bad, str | list) or bad is None
    assert image.levels[0].scale == ((1.0, 1.0, 1.0) if wrong_type else (1.0, 0.5, 0.5))
    assert any("scale" in text for text in image.warnings)
    with pytest.raises(UnsupportedOperation, match="spatial query"):
        image.require_strict()


def replace(keys: dict[str, bytes], key: str, change: Any) -> dict[str, bytes]:
    document = json.loads(keys[key])
    change(document)
    return keys | {key: json.dumps(document).encode()}


def level0(keys: dict[str, bytes], change: Any) -> dict[str, bytes]:
    return replace(keys, "0/zarr.json", change)


def multiscale(document: dict[str, Any]) -> dict[str, Any]:
    return document["attributes"]["ome"]["multiscales"][0]


def steps(entry: dict[str, Any], level: int) -> list[dict[str, Any]]:
    return entry["datasets"][level]["coordinateTransformations"]


NO_SHIFT = {"type": "translation", "translation": [0, 0, 0]}
ELSEWHERE = [{"type": "scale", "path": "s"}]
STRICT = {
    "custom axis": (lambda m: m["axes"][0].update(type="phase"), "custom"),
    "no axis type": (lambda m: m["axes"][0].pop("type"), "no type"),
    "one spatial axis": (lambda m: m["axes"][1].update(type="channel"), r"more than one|spatial axes"),
    "two scales": (lambda m: steps(m, 1).append({"type": "scale", "scale": [1] * 3}), "one scale"),
    "translation first": (lambda m: steps(m, 0).insert(0, NO_SHIFT), "one scale"),
    "affine": (lambda m: steps(m, 0).append({"type": "affine"}), "affine"),
    "elsewhere": (lambda m: m["datasets"][0].update(coordinateTransformations=ELSEWHERE), "another array"),
    "none": (lambda m: m["datasets"][0].pop("coordinateTransformations"), "no scale"),
    "shrinking scale": (lambda m: steps(m, 1)[0].update(scale=[1, 0.5, 1]), "finer"),
    "channel scale": (lambda m: steps(m, 1)[0].update(scale=[2, 2, 2]), "not spatial"),
    "renamed axis": (lambda m: m["axes"][1].update(name="h"), "dimension_names"),
}


@pytest.mark.parametrize("fault", STRICT)
def test_strict_rules_are_remembered_and_do_not_stop_viewing(fault: str) -> None:
    change, reason = STRICT[fault]
    keys = image_keys([ramp((3, 8, 8)), ramp((3, 4, 4))], "cyx")
    image = load(replace(keys, "zarr.json", lambda d: change(multiscale(d))))
    assert [level.shape for level in image.levels] == [(3, 8, 8), (3, 4, 4)]
    with pytest.raises(UnsupportedOperation, match=reason):
        image.require_strict()


def test_levels_of_unlike_kind() -> None:
    mixed = load(image_keys([ramp((8, 8)), ramp((4, 4)).astype("float32")], "yx"))
    assert any("data type" in text for text in mixed.warnings)
    assert mixed.strict_error is not None
    growing = load(image_keys([ramp((4, 4)), ramp((8, 8))], "yx", scales=[[1, 1], [2, 2]]))
    assert growing.strict_error is not None
    flat = load(image_keys([ramp((2, 8, 8)), ramp((4, 4))], "zyx", scales=[[1] * 3, [1] * 3]))
    assert len(flat.levels) == 1
    assert any("left out" in text for text in flat.warnings)


def test_a_trailing_colour_channel_and_too_many_axes() -> None:
    image = load(image_keys([ramp((8, 6, 3), "uint8")], "yx", scales=[[1, 1]]))
    assert [(a.name, a.type) for a in image.axes] == [("y", "space"), ("x", "space"), ("c", "channel")]
    image = load(image_keys([ramp((8, 6))], "tyx", scales=[[1, 1, 1]]))
    assert [a.name for a in image.axes] == ["y", "x"]
    assert image.warnings


@pytest.mark.parametrize("version", ["0.1", "0.2", "0.3"])
def test_earlier_versions_open(version: str) -> None:
    levels = [ramp((1, 2, 3, 8, 8)), ramp((1, 2, 3, 4, 4))]
    keys = image_keys(levels, "tczyx", version=version)
    document = json.loads(keys[".zattrs"])
    entry = document["multiscales"][0]
    for dataset in entry["datasets"]:
        del dataset["coordinateTransformations"]
    if version == "0.3":
        entry["axes"] = list("tczyx")
    else:
        del entry["axes"]
    image = load(keys | {".zattrs": json.dumps(document).encode()})
    assert [(a.name, a.type) for a in image.axes] == [(a, AXES[a]["type"]) for a in "tczyx"]
    assert image.levels[1].scale == (1.0, 1.0, 1.0, 2.0, 2.0)
    assert image.strict_error is not None


def test_channels_labels_and_archive_facts() -> None:
    omero = {
        "channels": [
            {"label": "DAPI", "color": "0000ff", "window": {"start": 10, "end": 500, "min": 0, "max": 4095}},
            {"label": 7, "color": "#00FF00FF", "active": False, "inverted": True},
            {"color": "green", "window": {"start": 5, "end": 5}},
        ],
        "rdefs": {"defaultT": 1, "defaultZ": 2},
    }
    keys = image_keys(
        pyramid("czyx"), "czyx", version="0.4", ome={"omero": omero}, attributes={"decant": {"samples": 1}}
    )
    keys |= group_keys("labels", {"labels": ["nuclei", "../evil"]}, "0.4")
    colors = [
        {"label-value": 1, "rgba": [255, 0, 0, 128]},
        {"label-value": "x"},
        {"label-value": 2.0, "rgba": [1] * 4},
    ]
    keys |= image_keys(
        [ramp((4, 16, 12), "uint8")],
        "zyx",
        version="0.4",
        path="labels/nuclei",
        ome={"image-label": {"colors": colors, "source": {"image": "../../"}}},
    )
    image = load(keys)
    first, second, third = image.channels
    assert (first.label, first.color, first.window, first.limits) == ("DAPI", "0000FF", (10, 500), (0, 4095))
    assert (second.label, second.color, second.active, second.inverted) == ("7", "00FF00", False, True)
    assert (third.color, third.window) == (None, None)
    assert (image.default_t, image.default_z, image.decant) == (1, 2, {"samples": 1})
    assert image.labels == ("nuclei",)
    assert not image.is_label
    assert any("colour" in text for text in image.warnings)
    assert any("evil" in text for text in image.warnings)
    label = load(keys, path="labels/nuclei")
    assert label.is_label
    assert label.label is not None
    assert label.label.colors == {1: (255, 0, 0, 128), 2: (1, 1, 1, 1)}
    assert [(e.path, e.kind) for e in list_images(MemoryStore(keys))] == [
        ("", "image"),
        ("labels/nuclei", "labels"),
    ]


@pytest.mark.parametrize("path", ["../0", "/0", "a/../../0", "..\\0", "C:\\0", "a\0b"])
def test_paths_that_leave_the_store_are_refused(path: str) -> None:
    keys = image_keys([ramp((4, 4))], "yx")
    with pytest.raises(UnsafeInput):
        load(replace(keys, "zarr.json", lambda d: multiscale(d)["datasets"][0].update(path=path)))
    with pytest.raises(UnsafeInput):
        load(keys, path=path)
    series = {"bioformats2raw.layout": 3}
    with pytest.raises(UnsafeInput):
        list_images(MemoryStore(group_keys("", series) | group_keys("OME", {"series": [path]})))


def test_limits_hold_before_anything_is_read() -> None:
    keys = image_keys([ramp((4, 4))] * 3, "yx", scales=[[1, 1]] * 3)
    with pytest.raises(BudgetExceeded, match="max_levels"):
        load(keys, limits=NgffLimits(max_levels=2))
    with pytest.raises(BudgetExceeded, match="max_metadata_bytes"):
        load(keys, limits=NgffLimits(max_metadata_bytes=500))
    with pytest.raises(UsageError):
        NgffLimits(max_levels=0)
    total = sum(len(v) for k, v in keys.items() if k.endswith("zarr.json"))
    load(keys, limits=NgffLimits(max_metadata_bytes=total))
    with pytest.raises(BudgetExceeded):
        load(keys, limits=NgffLimits(max_metadata_bytes=total - 1))


def test_documents_made_to_exhaust_memory_are_refused_at_once(tmp_path: Path) -> None:
    """Field report S-05."""
    started = time.perf_counter()
    keys = image_keys([ramp((4, 4))], "yx")
    with pytest.raises(UnsafeInput, match="deeper"):
        load(keys | {"zarr.json": b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"})
    many = {"datasets": [{"path": str(i)} for i in range(100_000)]}
    with pytest.raises(BudgetExceeded, match="max_levels"):
        load(image_keys([ramp((4, 4))], "yx", multiscale=many))
    huge = replace(keys, "0/zarr.json", lambda d: d.update(shape=[2**60, 4]))
    with pytest.raises(UnsafeInput):
        load(huge)
    wide = replace(
        keys, "0/zarr.json", lambda d: d["chunk_grid"]["configuration"].update(chunk_shape=[2**40, 4])
    )
    with pytest.raises(UnsafeInput):
        load(wide)
    with (tmp_path / "zarr.json").open("wb") as file:
        file.truncate(200 << 20)
    with pytest.raises(BudgetExceeded, match="max_metadata_bytes"):
        NgffImage(tmp_path)
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize(
    ("change", "error", "reason"),
    [
        (lambda k: k | {"zarr.json": b"{broken"}, FormatError, "JSON"),
        (lambda k: k | {"zarr.json": b"[]"}, FormatError, "object"),
        (
            lambda k: {n: v for n, v in k.items() if not n.startswith("0/")},
            FormatError,
            "level 0 .* no array",
        ),
        (lambda k: group_keys("", {"multiscales": [3]}), FormatError, "no multiscales"),
        (lambda k: group_keys("", {"multiscales": [{"datasets": []}]}), FormatError, "no datasets"),
        (lambda k: {"readme": b"x"}, FormatError, "no image"),
        (lambda k: {}, FormatError, "no image"),
        (lambda k: level0(k, lambda d: d.update(data_type="string")), UnsupportedOperation, "numbers"),
        (
            lambda k: level0(k, lambda d: d["codecs"].append({"name": "numcodecs.pickle"})),
            UnsafeInput,
            "code",
        ),
    ],
)
def test_what_is_no_image_says_why(change: Any, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        load(change(image_keys([ramp((4, 4))], "yx")))


def test_bare_nan_and_repeated_fields_are_read_with_a_warning() -> None:
    keys = image_keys([ramp((4, 4))], "yx", ome={"extra": float("nan")})
    assert b"NaN" in keys["zarr.json"]
    assert any("NaN" in text for text in load(keys).warnings)
    text_only = image_keys([ramp((4, 4))], "yx", name="NaN")
    assert load(text_only).warnings == ()
    assert load(text_only).name == "NaN"
    twice = keys["zarr.json"].replace(b'"axes":', b'"axes": [], "axes":').replace(b"NaN", b"0")
    image = load(keys | {"zarr.json": twice})
    assert [a.name for a in image.axes] == ["y", "x"]
    assert any("more than once" in text for text in image.warnings)
    assert image.strict_error is not None


def test_several_multiscales_are_chosen_by_index() -> None:
    first, second = (
        image_keys([ramp((4, 4))], "yx", name="a"),
        image_keys([ramp((6, 6))], "yx", name="b", path="sub"),
    )
    entry = multiscale(json.loads(second["sub/zarr.json"]))
    entry["datasets"][0]["path"] = "sub/0"
    keys = first | second
    del keys["sub/zarr.json"]
    keys = replace(keys, "zarr.json", lambda d: d["attributes"]["ome"]["multiscales"].append(entry))
    assert load(keys).shape == (4, 4)
    assert "2 multiscales" in load(keys).warnings[0]
    assert (load(keys, multiscale_index=1).shape, load(keys, multiscale_index=1).name) == ((6, 6), "b")
    with pytest.raises(UsageError, match="number 2"):
        load(keys, multiscale_index=2)
    assert [(e.name, e.multiscale_index, e.shape) for e in list_images(MemoryStore(keys))] == [
        ("a", 0, (4, 4)),
        ("b", 1, (6, 6)),
    ]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("listed", [True, False])
def test_a_series_gives_a_choice(version: str, listed: bool) -> None:
    """Field report A-04."""
    keys = group_keys("", {"bioformats2raw.layout": 3}, version)
    keys |= image_keys([ramp((4, 4))], "yx", version=version, path="0")
    keys |= image_keys([ramp((2, 6, 6)).astype("float32")], "zyx", version=version, path="1")
    if listed:
        keys |= group_keys("OME", {"series": ["0", "1"]}, version)
        keys["OME/METADATA.ome.xml"] = (
            b'<OME><Image ID="Image:0" Name="overview &amp; map"><Pixels/></Image>'
            b"<Image Name='detail' ID='Image:1'/></OME>"
        )
    store = MemoryStore(keys)
    with pytest.raises(ChoiceNeeded, match="2 images") as caught:
        NgffImage(store)
    entries = list_images(store)
    assert tuple(entries) == caught.value.choices
    names = ["0 - overview & map", "1 - detail"] if listed else ["0", "1"]
    assert [(e.name, e.path, e.shape, e.dtype, e.axes) for e in entries] == [
        (names[0], "0", (4, 4), "uint16", "yx"),
        (names[1], "1", (2, 6, 6), "float32", "zyx"),
    ]
    assert NgffImage(store, path="1").shape == (2, 6, 6)
    alone = MemoryStore({k: v for k, v in keys.items() if not k.startswith("1/")})
    if not listed:
        assert NgffImage(alone).shape == (4, 4)


def test_xml_with_entities_is_not_looked_at() -> None:
    """Field report S-04."""
    keys = group_keys("", {"bioformats2raw.layout": 3}) | group_keys("OME", {"series": ["0"]})
    keys |= image_keys([ramp((4, 4))], "yx", path="0")
    keys["OME/METADATA.ome.xml"] = b'<!DOCTYPE x [<!ENTITY a "aaaa">]><OME><Image Name="&a;"/></OME>'
    assert [e.name for e in list_images(MemoryStore(keys))] == ["0"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_plate_lists_wells_and_fields(version: str) -> None:
    keys = group_keys("", {"plate": {"wells": [{"path": "A/1"}, {"path": "B/2"}, {"path": "C/3"}]}}, version)
    for well in ("A/1", "B/2"):
        keys |= group_keys(well, {"well": {"images": [{"path": "0"}, {"path": "1"}]}}, version)
        for image in "01":
            keys |= image_keys([ramp((4, 4))], "yx", version=version, path=f"{well}/{image}")
    entries = list_images(MemoryStore(keys))
    assert [e.path for e in entries if e.error is None] == ["A/1/0", "A/1/1", "B/2/0", "B/2/1"]
    assert [e.path for e in entries if e.error] == ["C/3"]
    with pytest.raises(ChoiceNeeded, match="4 images"):
        load(keys)


def test_plain_arrays_and_unknown_groups_are_listed() -> None:
    keys = array_keys("raw/a", ramp((5, 6, 7)), (5, 6, 7), 3) | array_keys("raw/b", ramp((3,)), (3,), 2)
    keys |= {"zarr.json": b'{"zarr_format": 3, "node_type": "group"}'}
    entries = list_images(MemoryStore(keys))
    assert [(e.path, e.kind, e.shape, e.axes) for e in entries] == [
        ("raw/a", "array", (5, 6, 7), "zyx"),
        ("raw/b", "array", (3,), "x"),
    ]
    image = load(keys, path="raw/a")
    assert image.levels[0].path == "raw/a"
    assert image.strict_error is not None


@pytest.mark.parametrize("noise", [False, True])
def test_one_outer_folder_is_opened_with_a_notice(tmp_path: Path, noise: bool) -> None:
    """Field report A-02."""
    path = tmp_path / "a.zarr.zip"
    keys = {f"img.zarr/{k}": v for k, v in image_keys([ramp((4, 4))], "yx").items()}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("img.zarr/", b"")
        for key, value in keys.items():
            archive.writestr(key, value)
        if noise:
            archive.writestr("__MACOSX/img.zarr/zarr.json", b"\0")
            archive.writestr(".DS_Store", b"\0")
    image = NgffImage(path)
    assert (image.path, image.levels[0].path, image.name) == ("img.zarr", "img.zarr/0", "img")
    assert "img.zarr" in image.warnings[0]
    with zipfile.ZipFile(path, "a") as archive:
        for key, value in keys.items():
            archive.writestr(key.replace("img", "other"), value)
    with pytest.raises(ChoiceNeeded):
        NgffImage(path)
    assert NgffImage(path, path="other.zarr").shape == (4, 4)


def test_a_group_that_contains_itself_ends(tmp_path: Path) -> None:
    for key, value in group_keys("", {"bioformats2raw.layout": 3}).items():
        (tmp_path / key).write_bytes(value)
    try:
        (tmp_path / "0").symlink_to(tmp_path)
    except OSError:
        pytest.skip("no links here")
    with pytest.raises(UnsafeInput, match="deeper"):
        list_images(tmp_path)


def test_http_and_s3_load_the_same_image(tmp_path: Path) -> None:
    keys = image_keys(pyramid("czyx"), "czyx", version="0.4")
    for key, value in keys.items():
        (tmp_path / "img.zarr" / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "img.zarr" / key).write_bytes(value)
    local = NgffImage(tmp_path / "img.zarr")
    with serve_http(tmp_path) as server:
        remote = NgffImage(f"{server.url}/img.zarr", reader=FileMetadataReader(concurrency=8))
        assert (remote.levels, remote.axes, remote.name) == (local.levels, local.axes, "img")
        assert [e.shape for e in list_images(f"{server.url}/img.zarr")] == [local.shape]
        with pytest.raises(FormatError, match="no image"):
            NgffImage(f"{server.url}/nothing.zarr")
    with pytest.raises(StorageError):
        NgffImage(f"{server.url}/img.zarr")
    with serve_s3({f"img.zarr/{k}": v for k, v in keys.items()}) as bucket:
        assert NgffImage(f"{bucket}/img.zarr").levels == local.levels
        with pytest.raises(FormatError):
            NgffImage(f"{bucket}/nothing")


@pytest.mark.parametrize(
    ("location", "name"),
    [
        ("https://example.org/a%20b%C3%BC.ome.zarr/", "a bü"),
        ("s3://bucket/100%.zarr.zip", "100%"),
        ("folder/a%20b.zarr", "a%20b"),
    ],
)
def test_addresses_name_images_for_people(location: str, name: str) -> None:
    assert image_name(location) == name


@pytest.mark.parametrize("version", VERSIONS)
def test_remote_metadata_takes_two_round_trips(version: str, tmp_path: Path) -> None:
    for key, value in image_keys(pyramid(), version=version).items():
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_bytes(value)
    rounds: list[int] = []

    class Counting(FileMetadataReader):
        def read_many(self, store: Store, keys: Iterable[str], *budget: Any) -> dict[str, bytes]:
            asked = list(keys)
            rounds.append(len(asked))
            return super().read_many(store, asked, *budget)

    with serve_http(tmp_path) as server:
        NgffImage(server.url, reader=Counting(concurrency=16))
        assert len(rounds) == 2
        assert sum(rounds) == len(server.requests)  # nothing was asked for beside them
        assert max(rounds) <= 16  # so each is in flight together
