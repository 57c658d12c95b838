"""`check` says of each fault what it is, where it is and what belongs there, and goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from tests.support.conforming import conforming, edit, halve
from tests.support.ngff import group_keys, image_keys, ramp

from napari_decant.cli import main
from napari_decant.errors import Cancelled, StorageError, UsageError
from napari_decant.progress import CancelToken, Progress
from napari_decant.standard import RULES, STANDARDS, CheckReport, Finding, check
from napari_decant.stores import MemoryStore


def report_of(keys: dict[str, bytes], standard: str = "dca-0.1", **more: Any) -> CheckReport:
    return check(MemoryStore(keys), standard, **more)


def finding(report: CheckReport, rule: str) -> Finding:
    found = [f for f in report.every if f.rule == rule]
    assert len(found) == 1, found
    return found[0]


def failed(report: CheckReport) -> list[str]:
    return [f.rule for f in report.failed()]


def warned(report: CheckReport) -> list[str]:
    return [f.rule for f in report.every if f.status == "warn"]


def test_an_image_that_follows_the_standard_passes_every_rule() -> None:
    report = report_of(conforming())
    assert report.ok
    assert failed(report) == []
    # one chunk holds the whole image of 38 KB: what that rules out says so
    assert warned(report) == ["C2"]
    assert finding(report, "C2").because == "the chunk holds the whole image"
    for rule in (
        "M1",
        "M3",
        "M6",
        "M7",
        "D1",
        "T1",
        "C1",
        "C3",
        "S1",
        "Z1",
        "Z3",
        "N1",
        "N7",
        "N8",
        "B1",
        "B2",
    ):
        assert finding(report, rule).status == "pass", rule


def test_labels_and_floats_pass_too() -> None:
    labels = report_of(conforming(dtype="uint32", how="max", label=True))
    assert failed(labels) == []
    assert finding(labels, "M4").status == "pass"
    assert finding(labels, "T2").status == "pass"
    floats = report_of(conforming(dtype="float32"))
    assert failed(floats) == []
    assert finding(floats, "M3").status == "pass"
    assert "T1" in warned(floats)
    assert "Z5" in warned(floats)


def spoil(key: str, change: Callable[[dict[str, Any]], None]) -> dict[str, bytes]:
    return edit(conforming(), key, change)


def chunks_of_four(document: dict[str, Any]) -> None:
    document["codecs"] = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "zstd"}]
    document["chunk_grid"]["configuration"]["chunk_shape"] = [1, 20, 40, 48]


def coarse_first(document: dict[str, Any]) -> None:
    document["attributes"]["ome"]["multiscales"][0]["datasets"].reverse()


def scale_of_three(document: dict[str, Any]) -> None:
    datasets = document["attributes"]["ome"]["multiscales"][0]["datasets"]
    datasets[1]["coordinateTransformations"][0]["scale"] = [1.0, 1.0, 3.0, 1.5, 1.5]
    datasets[2]["coordinateTransformations"][0]["scale"] = [1.0, 1.0, 4.0, 2.0, 2.0]


def other_names(document: dict[str, Any]) -> None:
    document["dimension_names"] = ["t", "c", "z", "x", "y"]


def single_level() -> dict[str, bytes]:
    return conforming(levels=1)


def level_of_floats() -> dict[str, bytes]:
    first = ramp((1, 1, 20, 40, 48))
    second = halve(first.astype(np.float64))
    return conforming(data=[first, second, halve(halve(first))])


FAULTS = [
    ("N3", lambda: spoil("1/zarr.json", chunks_of_four), "1", "4 dimensions", "5 dimensions"),
    ("M1", single_level, "", "1 level", "at least 3"),
    ("N6", lambda: spoil("zarr.json", scale_of_three), "1", "10 along z", "6.66"),
    ("N5", level_of_floats, "1", "float64", "uint16"),
    ("N4", lambda: spoil("zarr.json", coarse_first), "1", "stands before", "the larger one first"),
    ("N7", lambda: spoil("2/zarr.json", other_names), "2", "'x', 'y'", "'y', 'x'"),
]


@pytest.mark.parametrize(("rule", "keys", "path", "found", "wanted"), FAULTS, ids=[f[0] for f in FAULTS])
def test_e04_each_fault_is_one_error_with_place_value_and_what_belongs_there(
    rule: str, keys: Callable[[], dict[str, bytes]], path: str, found: str, wanted: str
) -> None:
    report = report_of(keys())
    assert failed(report) == [rule]
    error = finding(report, rule)
    assert error.path == path
    assert found in error.found
    assert wanted in error.wanted
    assert error.fix
    # nothing else was cut short by it
    assert {f.rule for f in report.every} == {r.id for r in RULES if "dca-0.1" in r.standards}


def test_e04_several_faults_are_all_reported() -> None:
    keys = edit(conforming(), "2/zarr.json", other_names)
    keys = edit(keys, "1/zarr.json", chunks_of_four)
    keys = edit(keys, "zarr.json", lambda d: d["attributes"]["ome"]["multiscales"][0]["axes"][3].pop("type"))
    assert set(failed(report_of(keys))) >= {"N3", "N7", "N1"}


@pytest.mark.parametrize("how", ["strided", "maximum", "sharpened"])
def test_levels_that_are_no_mean_are_found_out(how: str) -> None:
    random = np.random.default_rng(1)
    first = random.integers(1, 60_000, (1, 1, 20, 40, 48)).astype(np.uint16)
    makers: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "strided": lambda a: np.ascontiguousarray(a[:, :, ::2, ::2, ::2]),
        "maximum": lambda a: halve(a, "max"),
        "sharpened": lambda a: (halve(a) // 2 + 7).astype(np.uint16),
    }
    second = makers[how](first)
    report = report_of(conforming(data=[first, second, makers[how](second)]))
    assert failed(report) == ["M3"]
    said = {"strided": "every n-th voxel", "maximum": "the maximum", "sharpened": "off the mean"}
    assert said[how] in finding(report, "M3").found


def test_a_mean_rounded_in_any_way_and_floor_sizes_pass() -> None:
    first = ramp((1, 1, 21, 41, 49))
    second = np.floor(
        first[:, :, :20, :40, :48].reshape(1, 1, 10, 2, 20, 2, 24, 2).mean(axis=(3, 5, 7))
    ).astype(np.uint16)
    third = np.ceil(second.reshape(1, 1, 5, 2, 10, 2, 12, 2).mean(axis=(3, 5, 7))).astype(np.uint16)
    report = report_of(conforming(data=[first, second, third]))
    assert failed(report) == []
    assert finding(report, "M6").status == "pass"


def test_decimated_labels_pass_the_second_version_only() -> None:
    random = np.random.default_rng(2)
    first = random.integers(1, 60_000, (1, 1, 20, 40, 48)).astype(np.uint32)
    second = np.ascontiguousarray(first[:, :, ::2, ::2, ::2])
    keys = conforming(data=[first, second, np.ascontiguousarray(second[:, :, ::2, ::2, ::2])], label=True)
    assert failed(report_of(keys)) == ["M4"]
    assert failed(report_of(keys, "dca-0.2")) == []


def test_the_second_version_asks_for_one_small_level_only() -> None:
    assert failed(report_of(conforming(levels=1), "dca-0.2")) == []
    huge = edit(conforming(levels=1), "0/zarr.json", lambda d: d.update(shape=[1, 1, 2, 40, 4096]))
    assert failed(report_of(huge, "dca-0.2")) == ["M2", "C1"]


def test_an_unknown_standard_is_refused() -> None:
    with pytest.raises(UsageError, match="dca-0"):
        report_of(conforming(), "dca-9")


def described(shape: list[int], chunk: list[int], shard: list[int] | None, dtype: str) -> dict[str, bytes]:
    """Metadata only, for sizes that no test could fill."""

    def change(document: dict[str, Any]) -> None:
        document |= {"shape": shape, "data_type": dtype}
        document["chunk_grid"]["configuration"]["chunk_shape"] = shard or chunk
        if shard:
            document["codecs"][0]["configuration"]["chunk_shape"] = chunk
        else:
            document["codecs"] = document["codecs"][0]["configuration"]["codecs"]

    keys = edit(conforming(levels=1), "0/zarr.json", change)
    return {key: value for key, value in keys.items() if key.endswith("zarr.json")}


def verdicts(
    shape: list[int], chunk: list[int], shard: list[int] | None, dtype: str = "uint16"
) -> dict[str, str]:
    report = report_of(described(shape, chunk, shard, dtype))
    return {f.rule: f.status for f in report.every if f.rule[0] in "CS"}


def test_chunks_near_the_bounds() -> None:
    big = [100, 2, 300, 3000, 3000]
    assert verdicts(big, [1, 1, 128, 128, 128], None)["C1"] == "pass"
    assert verdicts(big, [1, 1, 32, 128, 128], None)["C1"] == "pass"  # 512 KiB exactly
    assert verdicts(big, [1, 1, 32, 128, 127], None)["C1"] == "warn"  # 512 KB, but not KiB
    assert verdicts(big, [1, 1, 32, 128, 120], None)["C1"] == "fail"
    # the document's own example has 256 KiB and is let pass with a warning
    assert verdicts([100, 2, 1, 3000, 3000], [16, 1, 1, 128, 128], None)["C1"] == "warn"
    assert verdicts(big, [1, 1, 64, 128, 128], None)["C2"] == "pass"
    assert verdicts(big, [1, 1, 61, 131, 131], None)["C2"] == "warn"
    assert verdicts(big, [2, 1, 128, 128, 128], None)["C3"] == "warn"
    assert verdicts(big, [1, 1, 128, 128, 256], None)["C4"] == "warn"


def test_thin_stacks_grow_in_time_first() -> None:
    assert verdicts([100, 1, 1, 3000, 3000], [32, 1, 1, 128, 128], None)["C5"] == "pass"
    assert verdicts([100, 1, 1, 3000, 3000], [1, 1, 1, 1024, 1024], None)["C5"] == "warn"
    assert verdicts([4, 1, 1, 3000, 3000], [1, 1, 1, 1024, 1024], None)["C5"] == "pass"
    assert verdicts([4, 1, 1, 3000, 3000], [4, 1, 1, 128, 128], None)["C5"] == "warn"
    report = report_of(described([100, 1, 1, 3000, 3000], [32, 1, 1, 128, 128], None, "uint8"))
    assert "does not reach 512 KB" in finding(report, "C3").because


def test_shards_near_the_bounds() -> None:
    chunk = [1, 1, 128, 128, 128]
    small, large = [1, 1, 256, 1024, 1024], [64, 1, 512, 2048, 2048]
    assert verdicts(small, chunk, None)["S1"] == "pass"  # 512 MiB: no demand
    assert verdicts(large, chunk, None)["S1"] == "fail"
    assert verdicts(large, chunk, [1, 1, 128, 2048, 2048])["S1"] == "pass"  # 1 GiB
    assert verdicts(large, chunk, [1, 1, 128, 1920, 2048])["S1"] == "warn"  # 1.007 GB
    assert verdicts(large, chunk, [1, 1, 128, 1792, 2048])["S1"] == "fail"  # 0.94 GB
    assert verdicts(large, chunk, [1, 1, 512, 2048, 2048])["S3"] == "pass"  # 4.29 GB
    assert verdicts(large, chunk, [2, 1, 512, 2048, 2048])["S3"] == "warn"
    assert verdicts(large, chunk, [2048, 1, 512, 2048, 2048])["S2"] == "fail"
    assert verdicts(large, chunk, [1, 1, 512, 2048, 4096])["S5"] == "warn"
    assert verdicts(large, chunk, [16, 1, 128, 512, 2048])["S6"] == "pass"
    assert verdicts(large, chunk, [8, 1, 128, 1024, 2048])["S6"] == "warn"
    assert verdicts([3, 1, 512, 2048, 2048], chunk, [3, 1, 128, 1024, 2048])["S6"] == "pass"  # all there are
    report = report_of(described(large, chunk, [16, 1, 128, 512, 2048], "uint16"))
    assert "5 GB" in finding(report, "S4").because


def test_stores_of_several_images_and_broken_ones_are_reported_image_by_image() -> None:
    keys = group_keys("", {"bioformats2raw.layout": 3})
    keys |= group_keys("OME", {"series": ["0", "1"]})
    keys |= conforming(path="0") | conforming(path="1", levels=2)
    keys = edit(keys, "1/1/zarr.json", lambda d: d.update(shape="much"))
    report = report_of(keys)
    assert [(image.path, image.ok) for image in report.images] == [("0", True), ("1", False)]
    assert {(f.rule, f.path) for f in report.failed()} == {("M1", "1"), ("N3", "1/1")}
    assert "1 of 2 images break no MUST" in report.to_text()


def plate_keys() -> dict[str, bytes]:
    wells = [
        {"path": "A/1", "rowIndex": 0, "columnIndex": 0},
        {"path": "A/2", "rowIndex": 0, "columnIndex": 1},
    ]
    plate = {
        "name": "p",
        "rows": [{"name": "A"}],
        "columns": [{"name": "1"}, {"name": "2"}],
        "wells": wells,
        "field_count": 2,
    }
    keys = group_keys("", {"plate": plate}) | group_keys("A", {})
    for well in ("A/1", "A/2"):
        keys |= group_keys(well, {"well": {"images": [{"path": "0"}, {"path": "1"}]}})
        for field in ("0", "1"):
            keys |= conforming(path=f"{well}/{field}", levels=3 if (well, field) != ("A/2", "1") else 1)
    return keys


def test_every_field_of_a_plate_is_checked_and_summarised() -> None:
    report = report_of(plate_keys())
    assert [image.path for image in report.images] == ["A/1/0", "A/1/1", "A/2/0", "A/2/1"]
    assert finding(report, "P1").status == "pass"
    row = next(row for row in report.summary() if row.rule == "M1")
    assert (row.counts, row.example.path) == ({"pass": 3, "fail": 1}, "A/2/1")
    keys = {k: v for k, v in plate_keys().items() if not k.startswith("A/2/zarr")}
    lacking = report_of(keys)
    assert any(f.rule == "P1" and "A/2" in f.found for f in lacking.every)


def test_labels_that_are_listed_must_be_there() -> None:
    keys = conforming() | group_keys("labels", {"labels": ["cells"]})
    assert finding(report_of(keys), "L1").status == "warn"
    keys |= conforming(dtype="uint32", how="max", label=True, path="labels/cells")
    report = report_of(keys)
    assert [image.kind for image in report.images] == ["image", "labels"]
    assert [f.status for f in report.every if f.rule == "L1"] == ["pass", "skip"]
    assert failed(report) == []


def test_a_wrong_translation_is_a_warning_d07() -> None:
    def strip(document: dict[str, Any]) -> None:
        for dataset in document["attributes"]["ome"]["multiscales"][0]["datasets"]:
            dataset["coordinateTransformations"] = dataset["coordinateTransformations"][:1]

    report = report_of(edit(conforming(), "zarr.json", strip))
    error = finding(report, "N8")
    assert error.status == "warn"
    assert error.path == "1"
    assert error.wanted == "[0.0, 0.0, 0.5, 0.25, 0.25]"


@pytest.mark.parametrize("separator", [".", None])
def test_a_dotted_separator_is_a_warning_a05(separator: str | None) -> None:
    keys = image_keys([ramp((4, 64, 64))], "zyx", version="0.4", chunks=(2, 32, 32), separator=separator)
    error = finding(report_of(keys), "N9")
    assert error.status == "warn"
    assert error.found == "'.'"


def test_absent_chunks_are_counted_a06() -> None:
    keys = image_keys([ramp((64, 64))], "yx", version="0.4", chunks=(32, 32), fill_value=None)
    del keys["0/1/0"]
    assert finding(report_of(keys), "B2").found == "1 of 4 chunks absent"


def test_names_with_dots_under_metadata_with_slashes_are_told_apart_from_empty_ones() -> None:
    keys = image_keys([ramp((64, 64))], "yx", version="0.4", chunks=(32, 32))
    keys = {k.replace("0/0/0", "0/0.0").replace("0/0/1", "0/0.1"): v for k, v in keys.items()}
    keys = {k.replace("0/1/0", "0/1.0").replace("0/1/1", "0/1.1"): v for k, v in keys.items()}
    assert "names with '.'" in finding(report_of(keys), "B2").found


def test_an_archive_says_that_it_is_0_4() -> None:
    keys = image_keys([ramp((4, 64, 64))], "zyx", version="0.4", attributes={"decant": {"software": "x"}})
    version = finding(report_of(keys), "N2")
    assert version.status == "warn"
    assert "0.4" in version.found
    assert "archives of this program" in version.found
    assert "export" in version.fix


def test_bare_nan_is_a_warning_e05() -> None:
    keys = conforming()
    keys["zarr.json"] = keys["zarr.json"].replace(
        b'"attributes": {', b'"attributes": {"a": NaN, "b": [Infinity], "c": "NaN", '
    )
    report = report_of(keys)
    assert report.ok
    assert finding(report, "N10").status == "warn"
    keys = conforming()
    keys["zarr.json"] = keys["zarr.json"].replace(b'"attributes": {', b'"attributes": {"c": "NaN", ')
    assert finding(report_of(keys), "N10").status == "pass"


def test_what_does_not_open_is_one_finding(tmp_path: Any) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.tif").write_bytes(b"II*\0" + bytes(100))
    (tmp_path / "cut.ozx").write_bytes(b"PK\3\4" + bytes(1000))
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "zarr.json").write_text("{")
    for name in ("empty", "a.tif", "cut.ozx", "bad"):
        report = check(tmp_path / name)
        assert [f.status for f in report.every].count("fail") == 1, name
        assert not report.ok
        assert str(tmp_path) in report.failed()[0].found
    with pytest.raises(StorageError):
        check(tmp_path / "absent")


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_reports_as_json_and_html(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    keys = edit(
        conforming(levels=1),
        "zarr.json",
        lambda d: d["attributes"]["ome"]["multiscales"][0].update(name="<script>alert(1)</script>"),
    )
    for key, value in keys.items():
        path = tmp_path / "image.zarr" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(value)
    page = tmp_path / "report.html"
    assert main(["check", str(tmp_path / "image.zarr"), "--json", "--html", str(page)]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["ok"] is False
    broken = [f for f in data["results"][0]["images"][0]["findings"] if f["status"] == "fail"]
    assert [(f["rule"], f["keyword"], f["found"]) for f in broken] == [("M1", "MUST", "1 level")]
    parser = _Text()
    parser.feed(page.read_text(encoding="utf-8"))
    assert "script" not in parser.tags
    text = " ".join(parser.text)
    assert "An image has at least three spatial scales." in text
    assert "<script>alert(1)</script>" in text
    assert main(["check", str(tmp_path / "image.zarr"), "--standard", "dca-0.2"]) == 0
    assert "every rule that must hold does" in capsys.readouterr().out


def test_half_of_a_character_in_a_name_does_not_stop_a_report(tmp_path: Any) -> None:
    keys = edit(
        conforming(levels=1),
        "zarr.json",
        lambda d: d["attributes"]["ome"]["multiscales"][0].update(name="cell\ud800"),
    )
    for key, value in keys.items():
        path = tmp_path / "image.zarr" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(value)
    assert main(["check", str(tmp_path / "image.zarr"), "--html", str(tmp_path / "a.html")]) == 1
    assert "cell?" in (tmp_path / "a.html").read_text(encoding="utf-8")


def test_rules_are_data() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.keyword in ("MUST", "SHOULD", "MAY")
        assert rule.sentence.endswith(".")
        assert rule.test
        assert rule.fix or rule.keyword == "MAY"
        assert set(rule.standards) <= set(STANDARDS)
        assert rule.standards


def test_a_check_stops_between_two_stored_objects_and_tells_how_far_it_is() -> None:
    cancel, seen = CancelToken(), []

    def hear(event: Progress) -> None:
        seen.append(event)
        if event.stage == "read" and len(seen) > 1:
            cancel.cancel()

    with pytest.raises(Cancelled):
        report_of(conforming(), progress=hear, cancel=cancel)
    assert [event.stage for event in seen] == ["read", "read"], "before the third level, and the end"
    report_of(conforming(), progress=seen.append)
    assert (seen[-1].stage, seen[-1].done, seen[-1].total) == ("check", 1, 1)
