"""`check` of stores that nobody wrote with care: whatever they hold, there is a report, and soon."""

from __future__ import annotations

import copy
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.standard.test_rules import GOOD, zarr_v2
from tests.support.conforming import conforming, edit
from tests.support.ngff import array_keys, group_keys, image_keys, ramp
from tests.support.servers import serve_http

from napari_decant.errors import StorageError
from napari_decant.standard import CheckReport, check
from napari_decant.stores import MemoryStore

Place = tuple[Any, ...]

WINDOW = {"window": {"start": 0, "end": 3, "min": 0, "max": 9}, "color": "FF00FF", "label": "a"}
STORES = {
    **{name: make() for name, make in GOOD.items() if name not in ("big", "flat")},
    "0.4": zarr_v2(),
    "channels": image_keys([ramp((1, 9, 10))], "cyx", version="0.4", ome={"omero": {"channels": [WINDOW]}}),
    "series": group_keys("", {"bioformats2raw.layout": 3})
    | group_keys("OME", {"series": ["0"]})
    | conforming(path="0"),
}
DOCUMENTS = {
    name: sorted(k for k in keys if k.endswith(("json", ".zattrs", ".zarray")))
    for name, keys in STORES.items()
}
DEEP: Any = 0
for _ in range(80):
    DEEP = [DEEP]
ODD = [
    None, True, 0, -1, 3.5, 1e308, float("nan"), float("inf"), 10**30, 2**63, "", "../x", "/etc",
    "\0", "é" * 2000, [], {}, [None], [0] * 5, [-1] * 5, [10**18] * 5, [1.5] * 5, list("tczyx"),
    list(range(3000)), {"a": 1},
    "|O", "uint16", "zstd", [{"name": "bytes"}], [{"name": "sharding_indexed"}], [{}] * 2, DEEP,
]  # fmt: skip


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Every place of a document."""
    if at:
        yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*at, key))


def spoil(data: st.DataObject, keys: dict[str, bytes], key: str) -> dict[str, bytes]:
    """Put something odd at some place of a document, leave that place out, or have it twice."""
    document = json.loads(keys[key])
    *way, last = data.draw(st.sampled_from(list(places(document))))
    inner = document
    for step in way:
        inner = inner[step]
    how = data.draw(st.sampled_from(["odd", "odd", "odd", "absent", "twice"]))
    if how == "absent":
        del inner[last]
    elif how == "twice" and isinstance(inner, list):
        inner.insert(last, copy.deepcopy(inner[last]))
    else:
        inner[last] = copy.deepcopy(data.draw(st.sampled_from(ODD)))
    return keys | {key: json.dumps(document).encode()}


@settings(max_examples=120, deadline=None)
@given(data=st.data(), standard=st.sampled_from(["dca-0.1", "dca-0.2"]), whole=st.booleans())
def test_whatever_the_documents_say_there_is_a_report(
    data: st.DataObject, standard: str, whole: bool
) -> None:
    name = data.draw(st.sampled_from(sorted(STORES)))
    keys = STORES[name]
    for _ in range(data.draw(st.integers(1, 3))):
        keys = spoil(data, keys, data.draw(st.sampled_from(DOCUMENTS[name])))
    report = check(MemoryStore(keys), standard, whole=whole)
    json.dumps(report.to_json(), allow_nan=False)
    report.to_html().encode()
    report.to_text(everything=True).encode()
    assert report.every


def failed(report: CheckReport) -> list[tuple[str, str]]:
    return [(f.rule, f.found) for f in report.failed()]


def sharded(codecs: list[Any], z: int = 10) -> dict[str, Any]:
    return {
        "name": "sharding_indexed",
        "configuration": {
            "chunk_shape": [1, 1, z, 20, 24],
            "codecs": codecs,
            "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        },
    }


def array(**fields: Any) -> dict[str, bytes]:
    """An image whose level 1 has other fields."""
    return edit(conforming(), "1/zarr.json", lambda d: d.update(fields))


BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
WHOLE = conforming()
GROUP = b'{"zarr_format": 3, "node_type": "group"}'


def group(document: bytes) -> dict[str, bytes]:
    return WHOLE | {"zarr.json": document}


def no_datasets(document: dict[str, Any]) -> None:
    document["attributes"]["ome"]["multiscales"][0]["datasets"] = []


BROKEN: dict[str, tuple[dict[str, bytes], str, str]] = {
    "absent arrays": ({"zarr.json": WHOLE["zarr.json"]}, "N3", "no array at '0', '1', '2'"),
    "an absent array": ({k: v for k, v in WHOLE.items() if k[:2] != "1/"}, "N3", "no array at '1'"),
    "no datasets": (edit(WHOLE, "zarr.json", no_datasets), "N1", "lists no levels"),
    "a group without ome": ({"zarr.json": GROUP}, "O1", "no Zarr image"),
    "a cut document": (group(b'{"zarr_format": 3, "attr'), "O1", "not valid JSON"),
    "a list": (group(b"[1, 2]"), "O1", "not a JSON object"),
    "deep": (group(b'{"a": ' * 5000 + b"1" + b"}" * 5000), "O1", "nests deeper"),
    "huge": (group(b'{"a": "' + b"a" * (17 << 20) + b'"}'), "O1", "is not read"),
    "a negative shape": (array(shape=[1, 1, -10, 20, 24]), "N3", "1/zarr.json"),
    "a broken shape": (array(shape=[1, 1, 10.5, 20, 24]), "N3", "1/zarr.json"),
    "an unknown codec": (array(codecs=[BYTES, {"name": "magic"}]), "N3", "'magic'"),
    "nested shards": (array(codecs=[sharded([sharded([BYTES])])]), "N3", "nests sharding"),
    "shards of no whole chunks": (array(codecs=[sharded([BYTES], z=3)]), "N3", "1/zarr.json"),
    "an unknown type": (array(data_type="float99"), "N3", "float99"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_broken_store_has_one_finding_that_says_what_and_where(name: str) -> None:
    keys, rule, words = BROKEN[name]
    ((found, said),) = failed(check(MemoryStore(keys)))
    assert found == rule
    assert words in said
    assert len(said) < 400


def test_labels_alone_and_wells_and_fields_that_are_not_there() -> None:
    labels = group_keys("labels", {"labels": ["cells"]})
    labels |= conforming(dtype="uint32", how="max", label=True, path="labels/cells")
    report = check(MemoryStore(labels))
    assert report.ok
    assert [image.kind for image in report.images] == ["labels"]
    plate = GOOD["plate"]()
    assert [f[0] for f in failed(check(MemoryStore(plate)))] == []
    two = edit(
        plate, "A/1/zarr.json", lambda d: d["attributes"]["ome"]["well"]["images"].append({"path": "1"})
    )
    lacking = check(MemoryStore(two))
    assert [f[0] for f in failed(lacking)] == ["N1"]
    assert "A/1/1" in failed(lacking)[0][1]
    assert any(f.rule == "P1" and f.status == "warn" and "A/1/1" in f.found for f in lacking.every)


def test_plain_arrays_lack_only_what_arrays_lack() -> None:
    report = check(MemoryStore(array_keys("", ramp((20, 30)), (20, 30), 3)))
    assert [f[0] for f in failed(report)] == ["Z1", "N1"]


@pytest.mark.parametrize("keep", [0.05, 0.5, 0.99])
def test_a_zip_file_that_was_cut_is_one_finding(keep: float, tmp_path: Path) -> None:
    path = tmp_path / "a.ozx"
    with zipfile.ZipFile(path, "w") as file:
        for key, value in conforming().items():
            file.writestr(key, value)
    raw = path.read_bytes()
    path.write_bytes(raw[: int(len(raw) * keep)])
    ((rule, said),) = failed(check(path))
    assert rule == "O1"
    assert "a.ozx" in said


def test_a_server_that_lacks_or_refuses_things(tmp_path: Path) -> None:
    for key, value in conforming().items():
        where = tmp_path / "a.zarr" / key
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_bytes(value)
    with serve_http(tmp_path) as server:
        whole = check(f"{server.url}/a.zarr")
        assert failed(whole) == []
        assert [f.status for f in whole.every if f.rule == "B1"] == ["pass"]
        (tmp_path / "a.zarr" / "1" / "zarr.json").unlink()
        report = check(f"{server.url}/a.zarr")
        assert ("N3", "there is no array at '1'") in failed(report)
        nothing = check(f"{server.url}/none.zarr")
        assert [rule for rule, _ in failed(nothing)] == ["O1"]
    with pytest.raises(StorageError):
        check(f"{server.url}/a.zarr")  # nobody answers any more
