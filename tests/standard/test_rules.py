"""Every rule holds for one small store and is broken by another one, which breaks nothing else."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.conforming import conforming, edit, halve
from tests.support.ngff import array_keys, group_keys, ramp
from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec

from napari_decant.standard import RULES, CheckReport, check, export
from napari_decant.stores import MemoryStore

Keys = dict[str, bytes]
ROOT = "zarr.json"


def noise(shape: tuple[int, ...], dtype: str = "uint16") -> np.ndarray:
    return np.random.default_rng(1).integers(1, 60_000, shape).astype(dtype)


def each_second(data: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(data[:, :, ::2, ::2, ::2])


def made_by(make: Callable[[np.ndarray], np.ndarray], dtype: str = "uint16", label: bool = False) -> Keys:
    first = noise((1, 1, 20, 40, 48), dtype)
    return conforming(data=[first, make(first), make(make(first))], label=label)


def root(change: Callable[[dict[str, Any]], Any], keys: Keys | None = None) -> Keys:
    """Change the OME attributes."""
    return edit(keys or conforming(), ROOT, lambda d: change(d["attributes"]["ome"]))


def datasets(change: Callable[[list[dict[str, Any]]], Any], keys: Keys | None = None) -> Keys:
    return root(lambda ome: change(ome["multiscales"][0]["datasets"]), keys)


def transform(level: int, place: int, kind: str, values: list[float]) -> Callable[[Any], None]:
    def change(listed: Any) -> None:
        listed[level]["coordinateTransformations"][place] = {"type": kind, kind: values}

    return change


def described(
    shape: list[int],
    chunk: list[int],
    shard: list[int] | None = None,
    dtype: str = "uint16",
    levels: int = 1,
) -> Keys:
    """Metadata only, for sizes that no test could fill; every level has the same."""
    keys = conforming(levels=levels)
    for level in range(levels):

        def change(document: dict[str, Any], level: int = level) -> None:
            half = [-(-n // 2**level) if i > 1 else n for i, n in enumerate(shape)]
            document |= {"shape": half, "data_type": dtype}
            document["chunk_grid"]["configuration"]["chunk_shape"] = shard or chunk
            if shard:
                document["codecs"][0]["configuration"]["chunk_shape"] = chunk
            else:
                document["codecs"] = document["codecs"][0]["configuration"]["codecs"]

        keys = edit(keys, f"{level}/zarr.json", change)
    return {key: value for key, value in keys.items() if key.endswith("zarr.json")}


GOOD_SHAPE, CUBE, GOOD_SHARD = [20, 1, 256, 256, 256], [1, 1, 128, 128, 128], [16, 1, 256, 256, 256]
FLAT, FLAT_SHARD = [100, 2, 1, 2000, 2000], [128, 2, 1, 2048, 2048]


def halved_in_the_plane_only() -> Keys:
    first = noise((1, 1, 20, 40, 48))

    def halve_plane(data: np.ndarray) -> np.ndarray:
        t, c, z, y, x = data.shape
        return np.rint(data.reshape(t, c, z, y // 2, 2, x // 2, 2).mean(axis=(4, 6))).astype(data.dtype)

    second = halve_plane(first)
    keys = conforming(data=[first, second, halve_plane(second)])
    for level, step in ((1, 1.0), (2, 2.0)):
        keys = datasets(transform(level, 0, "scale", [1, 1, 1, step, step]), keys)
        shift = (step - 0.5) / 2
        keys = datasets(transform(level, 1, "translation", [0, 0, 0, shift, shift]), keys)
    return keys


def time_halved() -> Keys:
    first = noise((2, 1, 20, 40, 48))
    keys = conforming(data=[first, halve(first)[:1], halve(halve(first))[:1]])
    for level in (1, 2):
        scale = [2.0, 1.0, 2.0**level, 0.5 * 2**level, 0.5 * 2**level]
        keys = datasets(transform(level, 0, "scale", scale), keys)
    return keys


def without_time() -> Keys:
    keys = conforming()
    for level in "012":

        def change(document: dict[str, Any]) -> None:
            for place in (document, document["chunk_grid"]["configuration"]):
                key = "shape" if place is document else "chunk_shape"
                place[key] = place[key][1:]
            document["codecs"][0]["configuration"]["chunk_shape"].pop(0)
            document["dimension_names"].pop(0)

        keys = edit(keys, f"{level}/zarr.json", change)
        keys[f"{level}/c/0/0/0/0"] = keys.pop(f"{level}/c/0/0/0/0/0")
        for place, kind in enumerate(("scale", "translation")):
            keys = datasets(
                lambda d, n=int(level), p=place, k=kind: d[n]["coordinateTransformations"][p][k].pop(0), keys
            )
    return root(lambda ome: ome["multiscales"][0]["axes"].pop(0), keys)


def zarr_v2() -> Keys:
    """An image that follows every rule as far as OME-Zarr 0.4 can."""
    first = noise((1, 1, 20, 40, 48))
    arrays = [first, halve(first), halve(halve(first))]
    ome = json.loads(conforming()[ROOT])["attributes"]["ome"]
    ome["multiscales"][0]["version"] = "0.4"
    keys = group_keys("", {"multiscales": ome["multiscales"]}, "0.4")
    for level, data in enumerate(arrays):
        made = array_keys(str(level), data, data.shape, 2)
        made = edit(made, f"{level}/.zarray", lambda d: d.update(compressor={"id": "zstd", "level": 1}))
        (chunk,) = [key for key in made if not key.endswith(".zarray")]
        from numcodecs import Zstd

        keys |= made | {chunk: bytes(Zstd(1).encode(made[chunk]))}
    return keys


def level_of_another_type() -> Keys:
    first = noise((1, 1, 20, 40, 48))
    return conforming(data=[first, halve(first).astype(np.uint32), halve(halve(first))])


def dotted() -> Keys:
    keys = conforming()
    for level in "012":
        keys = edit(
            keys,
            f"{level}/zarr.json",
            lambda d: d.update(chunk_key_encoding={"name": "default", "configuration": {"separator": "."}}),
        )
        keys[f"{level}/c.0.0.0.0.0"] = keys.pop(f"{level}/c/0/0/0/0/0")
    return keys


def torn() -> Keys:
    keys = conforming()
    return keys | {"1/c/0/0/0/0/0": keys["1/c/0/0/0/0/0"][:-9]}


def without(key: str) -> Keys:
    keys = conforming()
    del keys[key]
    return keys


def plate(*, fields: int = 1) -> Keys:
    content = {
        "rows": [{"name": "A"}],
        "columns": [{"name": "1"}],
        "wells": [{"path": "A/1", "rowIndex": 0, "columnIndex": 0}],
    }
    keys = group_keys("", {"plate": {"name": "p", "field_count": fields, **content}}) | group_keys("A", {})
    keys |= group_keys("A/1", {"well": {"images": [{"path": str(i)} for i in range(fields)]}})
    return keys | conforming(path="A/1/0")


def three_dimensional_chunks(document: dict[str, Any]) -> None:
    document["chunk_grid"]["configuration"]["chunk_shape"] = [1, 20, 40]


def wrong_names(document: dict[str, Any]) -> None:
    document["dimension_names"] = list("tczxy")


GOOD: dict[str, Callable[[], Keys]] = {
    "image": conforming,
    "big": lambda: described(GOOD_SHAPE, CUBE, GOOD_SHARD),
    "flat": lambda: described(FLAT, [32, 1, 1, 128, 128], FLAT_SHARD),
    "labels": lambda: conforming(dtype="uint32", how="max", label=True),
    "floats": lambda: conforming(dtype="float32", compressors=[shuffle(), ZstdCodec(level=1)]),
    "with labels": lambda: (
        conforming()
        | group_keys("labels", {"labels": ["cells"]})
        | conforming(dtype="uint32", how="max", label=True, path="labels/cells")
    ),
    "plate": plate,
}


def shuffle() -> Any:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from zarr.codecs import numcodecs

        return numcodecs.Shuffle(elementsize=4)


# rule, a store that breaks it, and the rules that cannot hold then either
BAD: list[tuple[str, Callable[[], Keys], set[str]]] = [
    ("M1", lambda: conforming(levels=2), set()),
    ("M2", lambda: described([1, 1, 128, 128, 4096], CUBE, [1, 1, 128, 128, 2048]), set()),
    ("M3", lambda: made_by(each_second), set()),
    ("M4", lambda: made_by(each_second, "uint32", label=True), set()),
    ("M5", lambda: made_by(halve, "uint32", label=True), set()),
    ("M6", halved_in_the_plane_only, set()),
    ("M7", time_halved, set()),
    ("L1", lambda: conforming() | group_keys("labels", {"labels": ["cells"]}), set()),
    ("P1", lambda: edit(plate(), ROOT, lambda d: d["attributes"]["ome"]["plate"].pop("columns")), set()),
    ("D1", without_time, set()),
    ("T1", lambda: conforming(dtype="int16"), set()),
    ("T2", lambda: conforming(dtype="uint16", how="max", label=True), set()),
    ("C1", lambda: described(FLAT, [1, 1, 1, 128, 128], FLAT_SHARD), {"C2"}),
    ("C2", lambda: described(GOOD_SHAPE, [1, 1, 64, 128, 64], GOOD_SHARD), {"C4"}),
    ("C3", lambda: described(GOOD_SHAPE, [2, 1, 128, 128, 128], GOOD_SHARD), set()),
    ("C4", lambda: described(GOOD_SHAPE, [1, 1, 128, 128, 256], GOOD_SHARD), set()),
    ("C5", lambda: described(FLAT, [1, 1, 1, 1024, 1024], FLAT_SHARD), set()),
    ("S1", lambda: described([64, 1, 512, 2048, 2048], CUBE, [16, 1, 128, 512, 128]), set()),
    ("S2", lambda: described([64, 1, 128, 2048, 2048], CUBE, [8192, 1, 128, 2048, 2048]), {"S3"}),
    ("S3", lambda: described([64, 1, 512, 2048, 2048], CUBE, [2, 1, 512, 2048, 2048]), set()),
    ("S4", lambda: described(GOOD_SHAPE, CUBE, [16, 1, 128, 256, 256]), set()),
    ("S5", lambda: described([64, 1, 128, 1024, 4096], CUBE, [16, 1, 128, 256, 4096]), set()),
    ("S6", lambda: described(GOOD_SHAPE, CUBE, [8, 1, 256, 256, 256]), set()),
    ("Z1", lambda: conforming(compressors=[GzipCodec()]), {"Z3"}),
    ("Z3", lambda: conforming(compressors=[BloscCodec(cname="zstd", clevel=3)]), set()),
    ("Z4", lambda: conforming(compressors=[ZstdCodec(level=4)]), set()),
    ("Z5", lambda: conforming(dtype="float32"), set()),
    ("N1", lambda: root(lambda ome: ome["multiscales"][0]["axes"][3].pop("type")), set()),
    ("N2", zarr_v2, set()),
    ("N3", lambda: edit(conforming(), "1/zarr.json", three_dimensional_chunks), set()),
    ("N4", lambda: datasets(list.reverse), set()),
    ("N5", level_of_another_type, set()),
    ("N6", lambda: datasets(transform(0, 0, "scale", [1, 1, 1, 0.5, 0.8])), {"M6", "N8"}),
    (
        "N7",
        lambda: edit(conforming(), "2/zarr.json", lambda d: d.update(dimension_names=list("tczxy"))),
        set(),
    ),
    ("N8", lambda: datasets(transform(1, 1, "translation", [0, 0, 0, 0, 0])), set()),
    ("N9", dotted, set()),
    ("N10", lambda: edit(conforming(), ROOT, lambda d: d["attributes"].update(a=float("nan"))), set()),
    ("N11", lambda: root(lambda ome: ome["multiscales"][0]["axes"][4].update(unit="furlong")), set()),
    ("B1", torn, set()),
    ("B2", lambda: without("1/c/0/0/0/0/0"), set()),
]


def unmet(report: CheckReport) -> set[str]:
    """Rules that are broken, or not met without a reason in the data."""
    return {f.rule for f in report.every if f.status == "fail" or (f.status == "warn" and not f.because)}


def report_of(keys: Keys, rule: str = "") -> CheckReport:
    return check(MemoryStore(keys), "dca-0.2" if rule in ("M2", "M5") else "dca-0.1")


ABSENT = {"B2"}  # stores of metadata only have no chunks


@pytest.fixture(scope="module")
def held() -> dict[str, set[str]]:
    """Which rules each good store passes, and which it does not apply to."""
    passed: dict[str, set[str]] = {}
    for name, make in GOOD.items():
        for standard in ("dca-0.1", "dca-0.2"):
            report = check(MemoryStore(make()), standard)
            if name in ("big", "flat"):
                assert unmet(report) - ABSENT == ({"M1"} if standard == "dca-0.1" else set()), name
            else:
                assert unmet(report) == set(), (name, unmet(report))
            passed.setdefault(name, set()).update(f.rule for f in report.every if f.status == "pass")
    return passed


@pytest.mark.parametrize(("rule", "make", "implied"), BAD, ids=[case[0] for case in BAD])
def test_each_rule_is_broken_alone(rule: str, make: Callable[[], Keys], implied: set[str]) -> None:
    keys = make()
    report = report_of(keys, rule)
    few = {"M1"} if not any(key.startswith("2/") for key in keys) and rule != "M1" else set()
    bare = ABSENT if not any("/c" in key or key[-1].isdigit() for key in keys) else set()
    assert unmet(report) - (few | bare) - {rule} == implied
    broken = [f for f in report.every if f.rule == rule and f.status in ("fail", "warn")]
    assert len(broken) == 1  # one finding for one fault
    assert broken[0].status == ("fail" if broken[0].keyword == "MUST" else "warn")
    assert broken[0].found
    assert broken[0].wanted
    assert broken[0].fix or broken[0].because


def zipped(
    path: Path,
    keys: Keys,
    *,
    prefix: str = "",
    last: str = "",
    method: int = zipfile.ZIP_STORED,
    comment: bytes = b'{"ome": {"version": "0.5"}}',
    zip64: bool = True,
) -> Path:
    names = sorted(keys, key=lambda k: (not k.endswith("zarr.json"), k == last, k.count("/"), k))
    with zipfile.ZipFile(path, "w", method) as file:
        for name in sorted(names, key=lambda k: k == last):
            info = zipfile.ZipInfo(prefix + name)
            info.compress_type = method
            with file.open(info, "w", force_zip64=zip64) as entry:
                entry.write(keys[name])
        file.comment = comment
    return path


ZIPS: list[tuple[str, dict[str, Any], str, set[str]]] = [
    ("", {}, "a.ozx", set()),
    ("R1", {"prefix": "a.zarr/"}, "a.ozx", set()),
    ("R2", {"last": ROOT}, "a.ozx", set()),
    ("R3", {"method": zipfile.ZIP_DEFLATED}, "a.ozx", set()),
    ("R4", {"comment": b""}, "a.ozx", set()),
    ("R5", {}, "a.zarr.zip", set()),
    ("R6", {"zip64": False}, "a.ozx", set()),
]


@pytest.mark.parametrize(("rule", "options", "name", "implied"), ZIPS, ids=[z[0] or "good" for z in ZIPS])
def test_each_rule_of_single_files_is_broken_alone(
    rule: str, options: dict[str, Any], name: str, implied: set[str], tmp_path: Path
) -> None:
    report = check(zipped(tmp_path / name, conforming(), **options))
    assert unmet(report) == ({rule} | implied if rule else set())
    if not rule:
        passed = {f.rule for f in report.every if f.status == "pass"}
        assert passed >= {r.id for r in RULES if r.id[0] == "R"}


def test_a_location_that_holds_nothing_breaks_the_first_rule(tmp_path: Path) -> None:
    report = check(tmp_path)
    assert [(f.rule, f.status) for f in report.every] == [("O1", "fail")]


def test_every_rule_is_tried_both_ways(held: dict[str, set[str]], tmp_path: Path) -> None:
    export(_tiff(tmp_path), tmp_path / "a.ozx")
    exported = {f.rule for f in check(tmp_path / "a.ozx").every if f.status == "pass"}
    passed = set().union(*held.values(), exported)
    broken = {case[0] for case in BAD} | {case[0] for case in ZIPS} | {"O1"}
    for rule in RULES:
        assert rule.id in passed, rule.id
        assert (rule.id in broken) == (rule.keyword != "MAY"), rule.id


def _tiff(folder: Path) -> Path:
    import tifffile

    tifffile.imwrite(folder / "a.tif", ramp((9, 30, 31)), imagej=True, metadata={"axes": "ZYX"})
    return folder / "a.tif"
