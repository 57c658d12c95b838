"""`napari-decant export` of everything people have, and `check` of what comes out."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
import pytest
import tifffile
import yaozarrs
import zarr
from tests.support.conforming import conforming, halve
from tests.support.ngff import group_keys, image_keys, ramp
from tests.support.servers import serve_http

import napari_decant
from napari_decant._resources import sample_path
from napari_decant.cli import main
from napari_decant.errors import (
    ChoiceNeeded,
    FormatError,
    StorageError,
    TargetExists,
    UnsupportedOperation,
    UsageError,
)
from napari_decant.images import _write_zarr, open_image
from napari_decant.standard import check, export, plan_export


def put(keys: dict[str, bytes], folder: Path) -> Path:
    for key, value in keys.items():
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(value)
    return folder


def pixels_of(location: Path, image: str | None = None) -> np.ndarray:
    opened = open_image(location, image=image)
    try:
        return np.asarray(opened.levels[0])
    finally:
        opened.close()


def demo_archive(folder: Path) -> tuple[Path, np.ndarray]:
    report = napari_decant.pack(sample_path(), folder)
    return report.archive, tifffile.imread(sample_path())[None, :, None]


def ome_tiff(folder: Path) -> tuple[Path, np.ndarray]:
    data = ramp((2, 3, 5, 61, 67))
    metadata = {
        "axes": "TCZYX",
        "PhysicalSizeX": 0.25,
        "PhysicalSizeXUnit": "µm",
        "Channel": {"Name": ["a", "b", "c"]},
    }
    tifffile.imwrite(folder / "a.ome.tif", data, ome=True, metadata=metadata)
    return folder / "a.ome.tif", data


def prime_stack(folder: Path) -> tuple[Path, np.ndarray]:
    data = ramp((131, 137, 139))
    tifffile.imwrite(folder / "primes.tif", data, imagej=True, metadata={"axes": "ZYX"})
    return folder / "primes.tif", data[None, None]


def labels_image(folder: Path) -> tuple[Path, np.ndarray]:
    data = ramp((20, 41, 43))
    keys = image_keys([data, data[::2, ::2, ::2]], "zyx", version="0.4", ome={"image-label": {}})
    return put(keys, folder / "labels.zarr"), data[None, None].astype(np.uint32)


def plate(folder: Path, version: str = "0.4") -> tuple[Path, np.ndarray]:
    wells = [
        {"path": f"{r}/{c}", "rowIndex": i, "columnIndex": j}
        for i, r in enumerate("AB")
        for j, c in enumerate("12")
    ]
    names = {"rows": [{"name": r} for r in "AB"], "columns": [{"name": c} for c in "12"]}
    keys = group_keys(
        "", {"plate": {"name": "p", "version": version, "wells": wells, "field_count": 2, **names}}, version
    )
    data = ramp((2, 33, 35))
    for number, well in enumerate(wells):
        keys |= group_keys(str(well["path"])[:1], {}, version)
        content = {"well": {"version": version, "images": [{"path": "0"}, {"path": "1"}]}}
        keys |= group_keys(str(well["path"]), content, version)
        for field in (0, 1):
            keys |= image_keys(
                [data + 100 * number + field], "cyx", version=version, path=f"{well['path']}/{field}"
            )
    return put(keys, folder / "plate.zarr"), (data + 100)[None, :, None]


KINDS = [demo_archive, ome_tiff, prime_stack, labels_image, plate]


@pytest.mark.parametrize("suffix", ["zarr", "ozx"])
@pytest.mark.parametrize("make", KINDS, ids=lambda f: f.__name__)
def test_what_people_have_passes_the_check_and_says_why_where_it_falls_short(
    make: Any, suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, expected = make(tmp_path)
    target = tmp_path / f"out.{suffix}"
    assert main(["export", str(source), "-o", str(target), "--quiet"]) == 0
    for standard in ("dca-0.2", "dca-0.1"):
        capsys.readouterr()
        assert main(["check", str(target), "--json", "--standard", standard]) == 0
        (report,) = json.loads(capsys.readouterr().out)["results"]
        findings = [f for image in report["images"] for f in image["findings"]] + report["store"]
        assert not [f for f in findings if f["status"] == "fail"]
        assert all(f["because"] for f in findings if f["status"] == "warn")
    found = pixels_of(target, "A/2/0" if make is plate else None)
    np.testing.assert_array_equal(found, expected)
    if suffix == "zarr":
        yaozarrs.open_group(str(target)).validate()
    if make is plate:
        assert {i["path"] for i in report["images"]} == {
            f"{r}/{c}/{f}" for r in "AB" for c in "12" for f in "01"
        }


def test_physical_sizes_and_channel_names_go_along(tmp_path: Path) -> None:
    source, _ = ome_tiff(tmp_path)
    export(source, tmp_path / "a.zarr")
    opened = open_image(tmp_path / "a.zarr")
    assert opened.scales[0][4] == 0.25
    assert opened.axes[4].unit == "micrometer"
    assert [c.label for c in opened.channels] == ["a", "b", "c"]
    # iohub asks for both of these where a viewer starts
    assert (opened.default_t, opened.default_z) == (0, 2)
    opened.close()


@pytest.mark.parametrize("dtype", [">u2", ">f4", ">i2"])
def test_big_endian_values_stay_what_they_are_a11(dtype: str, tmp_path: Path) -> None:
    data = ramp((7, 50, 60)).astype(dtype)
    export(put(image_keys([data], "zyx", version="0.4"), tmp_path / "in.zarr"), tmp_path / "a.zarr")
    np.testing.assert_array_equal(pixels_of(tmp_path / "a.zarr")[0, 0], data)
    meta = json.loads((tmp_path / "a.zarr" / "0" / "zarr.json").read_text())
    assert meta["codecs"][0]["configuration"]["codecs"][0]["configuration"]["endian"] == "little"


def test_colour_stays_colour(tmp_path: Path) -> None:
    data = ramp((40, 50, 3), "uint8")
    tifffile.imwrite(tmp_path / "a.tif", data, photometric="rgb")
    export(tmp_path / "a.tif", tmp_path / "a.zarr")
    opened = open_image(tmp_path / "a.zarr")
    assert opened.is_rgb
    np.testing.assert_array_equal(np.squeeze(np.asarray(opened.levels[0])), data)
    opened.close()


def test_labels_of_an_image_go_along_by_the_maximum(tmp_path: Path) -> None:
    cells = ramp((20, 40, 48), "uint8")
    keys = image_keys([ramp((20, 40, 48))], "zyx", version="0.4")
    keys |= group_keys("labels", {"labels": ["cells"]}, "0.4")
    colors = [{"label-value": 1, "rgba": [1, 2, 3, 255]}]
    keys |= image_keys(
        [cells], "zyx", version="0.4", path="labels/cells", ome={"image-label": {"colors": colors}}
    )
    export(put(keys, tmp_path / "in.zarr"), tmp_path / "a.zarr")
    group = zarr.open_group(tmp_path / "a.zarr" / "labels" / "cells", mode="r")
    wanted = cells[None, None].astype(np.uint32)
    for name in "012":
        np.testing.assert_array_equal(group[name][...], wanted)
        wanted = halve(wanted, "max")
    assert json.loads((tmp_path / "a.zarr/labels/zarr.json").read_text())["attributes"]["ome"]["labels"] == [
        "cells"
    ]
    report = check(tmp_path / "a.zarr")
    assert report.ok
    assert [f.status for f in report.every if f.rule == "M4"] == ["skip", "pass"]


@pytest.mark.parametrize("name", ["Zellen ü", "nuclei/at 37 °C", "labels"])
@pytest.mark.parametrize("target", ["a.zarr", "a.ozx"])
def test_labels_of_any_name_go_along(tmp_path: Path, name: str, target: str) -> None:
    cells = ramp((8, 9), "uint32")
    keys = image_keys([ramp((8, 9))], "yx") | image_keys([cells], "yx", path=f"labels/{name}")
    keys |= group_keys("labels", {"labels": [name]})
    export(put(keys, tmp_path / "in.zarr"), tmp_path / target)
    opened = open_image(tmp_path / target)
    assert opened.labels == (name,)
    (path,) = opened.label_paths
    opened.close()
    np.testing.assert_array_equal(np.squeeze(pixels_of(tmp_path / target, path)), cells)
    if target == "a.ozx":
        with zipfile.ZipFile(tmp_path / target) as file:
            document = json.loads(file.read(f"{path}/zarr.json"))
    else:
        document = json.loads((tmp_path / target / path / "zarr.json").read_text())
    above = document["attributes"]["ome"]["image-label"]["source"]["image"]
    assert above == "../" * (path.count("/") + 1)


@pytest.mark.parametrize("plate", [{"wells": None}, {"wells": 5, "rows": None}, {"wells": [3, {"path": 4}]}])
def test_a_plate_without_wells_says_so(tmp_path: Path, plate: dict[str, Any]) -> None:
    source = put(group_keys("", {"plate": plate}), tmp_path / "plate.zarr")
    with pytest.raises(UnsupportedOperation, match="no field that opens: it lists no wells"):
        export(source, tmp_path / "a.zarr")


def test_metadata_that_do_not_fit_are_refused_before_a_pixel_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    well = {"path": "A/1", "rowIndex": 0, "columnIndex": 0}
    keys = group_keys(
        "", {"plate": {"rows": [{"name": "A"}], "columns": [{"name": "1"}], "wells": [well, well]}}, "0.4"
    )
    keys |= group_keys("A/1", {"well": {"images": [{"path": "0"}]}}, "0.4")
    keys |= image_keys([ramp((8, 9))], "yx", version="0.4", path="A/1/0")
    source = put(keys, tmp_path / "plate.zarr")
    monkeypatch.setattr(_write_zarr, "_write_voxels", None)
    with pytest.raises(FormatError, match=r"plate\.wells.*correct them in the source"):
        export(source, tmp_path / "a.zarr")
    assert [path.name for path in tmp_path.iterdir()] == ["plate.zarr"]


def test_names_that_nothing_can_have_never_crash(tmp_path: Path) -> None:
    omero = {"channels": [{"label": "DNA\ud800", "color": "FF0000"}]}
    keys = image_keys([ramp((8, 9))], "yx", name="a\udc00b", ome={"omero": omero})
    export(put(keys, tmp_path / "halves.zarr"), tmp_path / "c.zarr")
    opened = open_image(tmp_path / "c.zarr")
    assert (opened.name, opened.channels[0].label) == ("a?b", "DNA?")
    opened.close()
    keys = image_keys([ramp((8, 9))], "yx") | group_keys("labels", {"labels": ["\ud800"]})
    report = export(put(keys, tmp_path / "in.zarr"), tmp_path / "a.zarr")
    assert any("'\\ud800'" in note for note in report.notes)
    keys = image_keys([ramp((8, 9))], "yx", version="0.4")
    keys |= image_keys([ramp((8, 9), "uint32")], "yx", version="0.4", path="labels/zarr.json")
    keys |= group_keys("labels", {"labels": ["zarr.json"]}, "0.4")
    with pytest.raises(UsageError, match="metadata file"):
        export(put(keys, tmp_path / "other.zarr"), tmp_path / "b.zarr")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "a.zarr",
        "c.zarr",
        "halves.zarr",
        "in.zarr",
        "other.zarr",
    ]


def test_labels_that_do_not_fit_are_refused_or_kept(tmp_path: Path) -> None:
    data = ramp((20, 30), "uint64") + 2**33
    source = put(image_keys([data], "yx", version="0.4", ome={"image-label": {}}), tmp_path / "in.zarr")
    with pytest.raises(UnsupportedOperation, match=r"8589934\d+.*--keep-label-type"):
        export(source, tmp_path / "a.zarr")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.zarr"]
    report = export(source, tmp_path / "a.zarr", keep_label_type=True)
    np.testing.assert_array_equal(pixels_of(tmp_path / "a.zarr")[0, 0, 0], data)
    assert [f.because for f in report.check.every if f.rule == "T2"] == ["ids of 64 bits may not fit"]
    fits = put(
        image_keys([ramp((20, 30), "int64")], "yx", version="0.4", ome={"image-label": {}}),
        tmp_path / "b.in.zarr",
    )
    export(fits, tmp_path / "b.zarr")
    assert pixels_of(tmp_path / "b.zarr").dtype == np.uint32


def test_a_tiff_of_labels_is_one_if_told_so(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", ramp((40, 41)))
    assert (
        main(["export", str(tmp_path / "a.tif"), "-o", str(tmp_path / "a.zarr"), "--labels", "--quiet"]) == 0
    )
    (image,) = check(tmp_path / "a.zarr").images
    assert (image.kind, image.dtype) == ("labels", "uint32")


def test_quantising_is_recorded_and_undone(tmp_path: Path) -> None:
    values = np.random.default_rng(3).normal(10, 200, (9, 60, 70)).astype(np.float32)
    values[0, 0, 0] = np.nan
    source = put(image_keys([values], "zyx"), tmp_path / "in.zarr")
    plain = export(source, tmp_path / "plain.zarr")
    assert pixels_of(tmp_path / "plain.zarr").dtype == np.float32
    (because,) = [f.because for f in plain.check.every if f.rule == "T1"]
    assert because.startswith("quantising float32")
    export(source, tmp_path / "a.zarr", quantize=True)
    stored = pixels_of(tmp_path / "a.zarr")[0, 0]
    assert stored.dtype == np.uint16
    assert (stored.min(), stored.max()) == (0, 65535)
    record = json.loads((tmp_path / "a.zarr/zarr.json").read_text())["attributes"]["decant"]["quantized"]
    back = stored * record["scale"] + record["offset"]
    assert record["from"] == "float32"
    assert np.nanmax(np.abs(back - values)) <= record["largest_error"] * 1.001
    assert stored[0, 0, 0] == 0
    assert plan_export(source, tmp_path / "b.zarr", quantize=True)["passes"] == 2
    export(source, tmp_path / "c.zarr", quantize=(0.0, 100.0))
    assert np.mean(pixels_of(tmp_path / "c.zarr") == 65535) > 0.2
    with pytest.raises(UsageError, match="cannot be quantised"):
        export(source, tmp_path / "d.zarr", quantize=(1.0, 1.0))


def test_integers_of_a_small_range_lose_nothing_by_quantising(tmp_path: Path) -> None:
    values = ramp((30, 70, 31)).astype(np.int32) - 20_000
    source = put(image_keys([values], "zyx"), tmp_path / "in.zarr")
    export(source, tmp_path / "a.zarr", quantize=True)
    stored = pixels_of(tmp_path / "a.zarr")[0, 0].astype(np.int64)
    record = json.loads((tmp_path / "a.zarr/zarr.json").read_text())["attributes"]["decant"]["quantized"]
    assert (record["scale"], record["largest_error"]) == (1.0, 0.0)
    np.testing.assert_array_equal(stored + int(record["offset"]), values)


def test_one_of_several_images_must_be_named(tmp_path: Path) -> None:
    keys = group_keys("", {"bioformats2raw.layout": 3}) | group_keys("OME", {"series": ["0", "1"]})
    keys |= conforming(path="0") | conforming((1, 1, 1, 20, 30), path="1")
    source = put(keys, tmp_path / "in.zarr")
    with pytest.raises(ChoiceNeeded):
        export(source, tmp_path / "a.zarr")
    assert main(["export", str(source), "--image", "1", "-o", str(tmp_path / "a.zarr"), "--quiet"]) == 0
    np.testing.assert_array_equal(pixels_of(tmp_path / "a.zarr"), ramp((1, 1, 1, 20, 30)))


def test_a_plate_goes_on_without_the_field_that_is_broken(tmp_path: Path) -> None:
    source, _ = plate(tmp_path)
    (source / "A/1/1/0/.zarray").write_text("{")
    report = export(source, tmp_path / "a.zarr")
    assert any("A/1/1 is left out" in note for note in report.notes)
    assert len(report.check.images) == 7
    assert report.check.ok


def test_a_dry_run_says_what_it_takes_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, _ = prime_stack(tmp_path)
    assert main(["export", str(source), "-o", str(tmp_path / "a.zarr"), "--dry-run", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["passes"] == 1.0
    assert plan["images"][0]["levels"][0] == {
        "shape": [1, 1, 131, 137, 139],
        "chunk": [1, 1, 128, 128, 128],
        "shard": [1, 1, 256, 256, 256],
    }
    assert sorted(p.name for p in tmp_path.iterdir()) == ["primes.tif"]


def test_errors_have_their_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, _ = prime_stack(tmp_path)
    assert main(["export", str(source), "-o", str(tmp_path / "a.tif")]) == 2
    assert main(["export", str(source), "-o", str(tmp_path / "a.zarr"), "--memory", "1M"]) == 3
    assert main(["export", str(tmp_path / "none.tif"), "-o", str(tmp_path / "a.zarr")]) in (2, 4)
    assert main(["export", str(source), "-o", str(tmp_path / "a.zarr"), "--standard", "x"]) == 2
    assert "Traceback" not in capsys.readouterr().err


class RangedFile(io.RawIOBase):
    """A remote file read by ranges only, as viewers in a browser do."""

    def __init__(self, url: str) -> None:
        with urlopen(Request(url, method="HEAD")) as answer:
            self.size = int(answer.headers["Content-Length"])
        self.url, self.at, self.requests = url, 0, 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.at

    def seek(self, offset: int, whence: int = 0) -> int:
        self.at = offset + (0, self.at, self.size)[whence]
        return self.at

    def readinto(self, buffer: Any) -> int:
        stop = min(self.at + len(buffer), self.size)
        if stop <= self.at:
            return 0
        self.requests += 1
        request = Request(self.url, headers={"Range": f"bytes={self.at}-{stop - 1}"})
        with urlopen(request) as answer:
            data = answer.read()
        buffer[: len(data)] = data
        self.at += len(data)
        return len(data)


def test_a_single_file_is_read_by_ranges(tmp_path: Path) -> None:
    data = ramp((70, 140, 150))
    tifffile.imwrite(tmp_path / "a.tif", data, imagej=True, metadata={"axes": "ZYX"})
    export(tmp_path / "a.tif", tmp_path / "a.ozx")
    raw = (tmp_path / "a.ozx").read_bytes()
    with serve_http(tmp_path) as server:
        # any zip reader with ranges: documents first, nothing compressed, ZIP64, the comment
        with zipfile.ZipFile(io.BufferedReader(RangedFile(f"{server.url}/a.ozx"))) as opened:
            entries = opened.infolist()
            assert [e.filename for e in entries[:4]] == [
                "zarr.json",
                "0/zarr.json",
                "1/zarr.json",
                "2/zarr.json",
            ]
            assert [e.header_offset for e in entries] == sorted(e.header_offset for e in entries)
            assert {e.compress_type for e in entries} == {zipfile.ZIP_STORED}
            assert {e.extract_version for e in entries} == {45}
            assert opened.comment == b'{"ome":{"version":"0.5"}}'
            # a chunk: the shard's index from its end, then the chunk's own range, nothing else
            meta = json.loads(opened.read("0/zarr.json"))
            shard = opened.getinfo("0/c/0/0/0/0/0")
            begin = shard.header_offset + 30 + sum(struct.unpack("<HH", raw[shard.header_offset + 26 :][:4]))
            assert meta["codecs"][0]["name"] == "sharding_indexed"
            assert raw[begin : begin + 4] == b"\x28\xb5\x2f\xfd"  # a zstd frame lies there as it is
        server.requests.clear()
        opened_image = open_image(f"{server.url}/a.ozx")
        np.testing.assert_array_equal(
            np.asarray(opened_image.levels[2])[0, 0], halve(halve(data[None, None]))[0, 0]
        )
        opened_image.close()
    total = sum(_length(wanted) for _, _, wanted in server.requests)
    assert total < len(raw)  # the finest level was not fetched


def _length(wanted: str) -> int:
    first, _, last = wanted.removeprefix("bytes=").partition("-")
    return int(last) - int(first) + 1 if first and last else 0


def test_an_export_with_another_range_is_never_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from napari_decant.images import _write_zarr_stage as staging

    source = put(image_keys([ramp((20, 30, 40), "float32")], "zyx"), tmp_path / "in.zarr")

    def stop(self: Any, *, overwrite: bool) -> int:
        raise StorageError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(staging.Stage, "commit", stop)
        with pytest.raises(StorageError, match="goes on from there"):
            export(source, tmp_path / "a.zarr", quantize=(0.0, 100.0))
    with pytest.raises(TargetExists, match="something else"):
        export(source, tmp_path / "a.zarr", quantize=(0.0, 200.0))
    assert export(source, tmp_path / "a.zarr", quantize=(0.0, 100.0)).written.resumed_shards == 3


def test_the_source_stays_as_it_is_whatever_the_target(tmp_path: Path) -> None:
    source = put(image_keys([ramp((4, 20, 21))], "zyx"), tmp_path / "in.zarr")
    before = sorted(p for p in tmp_path.rglob("*"))
    for target, how in ((source / "a.zarr", "lies in"), (source / "0" / "a.ozx", "lies in"), (source, "is")):
        with pytest.raises(UsageError, match=f"{how} the source"):
            export(source, target, overwrite=True)
    inner = put(image_keys([ramp((4, 20, 21))], "zyx"), tmp_path / "out.zarr" / "in.zarr")
    with pytest.raises(UsageError, match="holds the source"):
        export(inner, tmp_path / "out.zarr", overwrite=True)
    assert [p for p in before if not p.exists()] == []


def test_types_that_the_standard_does_not_want_are_kept_and_the_options_named(tmp_path: Path) -> None:
    for dtype, words in (("int32", "--labels makes uint32"), ("float64", "--quantize makes uint16")):
        data = ramp((4, 20, 21), dtype)
        report = export(
            put(image_keys([data], "zyx"), tmp_path / f"{dtype}.in.zarr"), tmp_path / f"{dtype}.zarr"
        )
        np.testing.assert_array_equal(pixels_of(tmp_path / f"{dtype}.zarr")[0, 0], data)
        assert any(words in note for note in report.notes)
    source = put(image_keys([data.astype("complex64")], "zyx"), tmp_path / "complex.zarr")
    with pytest.raises(UnsupportedOperation, match=r"complex64.*only real numbers"):
        export(source, tmp_path / "c.zarr")


def test_an_unfinished_export_is_not_taken_up_for_a_source_that_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from napari_decant.images import _write_zarr_stage as staging

    def stop(self: Any, *, overwrite: bool) -> int:
        raise StorageError("the disk is gone")

    source = put(image_keys([ramp((4, 20, 21))], "zyx"), tmp_path / "in.zarr")
    with monkeypatch.context() as patch:
        patch.setattr(staging.Stage, "commit", stop)
        with pytest.raises(StorageError):
            export(source, tmp_path / "a.zarr")
    chunk = source / "0" / "c" / "0" / "0" / "0"
    chunk.write_bytes(chunk.read_bytes()[::-1])  # the metadata are the same
    with pytest.raises(TargetExists, match="something else"):
        export(source, tmp_path / "a.zarr")
    export(source, tmp_path / "a.zarr", overwrite=True)
    np.testing.assert_array_equal(pixels_of(tmp_path / "a.zarr"), pixels_of(source)[None, None])
