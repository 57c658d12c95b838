"""Stores that nobody would write on purpose: each opens sensibly, or says one sentence."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from napari.utils.progress import progress
from qtpy.QtCore import QTimer
from tests.plugin.helpers import write_folder, write_zip
from tests.support.ngff import image_keys, ramp

from napari_decant.errors import DecantError
from napari_decant.plugin import get_reader

Told = Callable[[], list[str]]
DATA = ramp((3, 12, 16))
IMAGE = image_keys([DATA, DATA[:, ::2, ::2]], "zyx")


def group(**ome: Any) -> bytes:
    """Metadata of a group."""
    attributes = {"ome": {"version": "0.5", **ome}} if ome else {}
    return json.dumps({"zarr_format": 3, "node_type": "group", "attributes": attributes}).encode()


def read(path: Path | str) -> list[Any]:
    """Read as napari does."""
    reader = get_reader(str(path))
    assert reader is not None
    return list(reader(str(path)))


def below(folder: str, keys: dict[str, bytes]) -> dict[str, bytes]:
    """Keys of an image inside another store."""
    return {f"{folder}/{key}": data for key, data in keys.items()}


PLATE = group(
    plate={
        "columns": [{"name": "1"}, {"name": "2"}],
        "rows": [{"name": "A"}],
        "wells": [{"path": f"A/{n}", "rowIndex": 0, "columnIndex": n - 1} for n in (1, 2)],
    }
)
WELL = group(well={"images": [{"path": "0"}]})


@pytest.mark.parametrize(
    "dtype", ["bool", "float16", "int8", "int64", "uint64", "complex64", ">u2", ">f4", ">i8"]
)
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_arrays_without_any_metadata_open_in_every_number_type(
    tmp_path: Path, dtype: str, zarr_format: int
) -> None:
    if zarr_format == 3 and dtype.startswith(">"):
        pytest.skip("version 3 has the byte order in a codec")
    values = DATA % 3 == 1 if dtype == "bool" else DATA.astype(dtype)
    array = zarr.create_array(
        str(tmp_path / "a.zarr"), shape=DATA.shape, chunks=(1, 12, 16), dtype=dtype, zarr_format=zarr_format
    )
    array[:] = values
    ((data, keywords, kind),) = read(tmp_path / "a.zarr")
    assert (kind, keywords["name"]) == ("image", "a")
    np.testing.assert_array_equal(
        np.asarray(data[1]), np.abs(values[1]) if dtype == "complex64" else values[1]
    )


@pytest.mark.parametrize(
    ("shape", "dtype", "words"),
    [
        ((7,), "u2", "shape (7,)"),
        ((), "u2", "shape ()"),
        ((0, 8, 9), "u2", "shape (0, 8, 9)"),
        ((5, 4), "M8[ns]", "only arrays of numbers"),
        ((5, 4), "<U5", "only arrays of numbers"),
    ],
)
def test_what_cannot_be_shown_is_said_in_one_sentence(
    tmp_path: Path, shape: tuple[int, ...], dtype: str, words: str
) -> None:
    chunks = tuple(max(1, n) for n in shape)
    zarr.create_array(str(tmp_path / "a.zarr"), shape=shape, chunks=chunks, dtype=dtype, zarr_format=2)
    with pytest.raises(DecantError) as caught:
        read(tmp_path / "a.zarr")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_six_axes_open_with_sliders(tmp_path: Path) -> None:
    data = ramp((2, 3, 2, 3, 8, 9))
    zarr.create_array(str(tmp_path / "a.zarr"), data=data, chunks=(1, 1, 1, 1, 8, 9))
    ((shown, _, _),) = read(tmp_path / "a.zarr")
    np.testing.assert_array_equal(np.asarray(shown[1, 2, 0, 1]), data[1, 2, 0, 1])


@pytest.mark.parametrize("name", ["Größe 漢字 %20 #1.zarr", "CON.zarr", "a&b (1).ozx", "x;y'z.zarr.zip"])
def test_names_of_every_kind_open(tmp_path: Path, name: str) -> None:
    write = write_folder if name.endswith(".zarr") else write_zip
    path = write(tmp_path / name, IMAGE)
    for spelled in (str(path), f"{path}/") if path.is_dir() else (str(path),):
        ((data, _, _),) = read(spelled)
        np.testing.assert_array_equal(np.asarray(data[0][2]), DATA[2])


def test_an_image_one_folder_down_opens_and_says_so(tmp_path: Path, told: Told) -> None:
    write_folder(tmp_path / "download" / "img.zarr", IMAGE)
    ((data, _, _),) = read(tmp_path / "download")
    np.testing.assert_array_equal(np.asarray(data[0][1]), DATA[1])
    (message,) = told()
    assert "'img.zarr'" in message
    (tmp_path / "plain" / "img.zarr").mkdir(parents=True)
    assert get_reader(str(tmp_path / "plain")) is None  # a folder that is merely called so
    for n in range(40):
        (tmp_path / "download" / f"{n}.txt").touch()
    assert get_reader(str(tmp_path / "download")) is None  # a folder of many things


def test_the_only_field_of_a_plate_has_its_place_for_a_name(tmp_path: Path) -> None:
    keys = {"zarr.json": PLATE, "A/1/zarr.json": WELL, **below("A/1/0", IMAGE)}
    ((data, keywords, _),) = read(write_folder(tmp_path / "plate.zarr", keys))
    assert keywords["name"] == "A/1/0"
    np.testing.assert_array_equal(np.asarray(data[0][1]), DATA[1])


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"zarr.json": PLATE}, "'A/1'"),
        ({"zarr.json": group()}, "holds no image"),
        ({"zarr.json": b"{nope"}, "not valid JSON"),
        ({k: v for k, v in IMAGE.items() if not k.startswith("0/")}, "level 0"),
    ],
    ids=["plate without wells", "empty group", "broken JSON", "no level 0"],
)
def test_stores_without_an_image_say_why(tmp_path: Path, keys: dict[str, bytes], words: str) -> None:
    with pytest.raises(DecantError, match=words):
        read(write_folder(tmp_path / "a.zarr", keys))


# --- addresses --------------------------------------------------------------------------------------------


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that takes connections and never says anything."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/a.zarr"


@pytest.mark.viewer
def test_a_silent_server_keeps_the_window_awake_and_can_be_given_up(
    qtbot, viewer, told: Told, silent: str
) -> None:
    beats: list[float] = []
    heart = QTimer()
    heart.timeout.connect(lambda: beats.append(time.monotonic()))
    heart.start(20)

    def give_up() -> None:
        (bar,) = [one for one in progress._all_instances if one.desc.startswith("Opening a.zarr")]
        bar.cancel()  # what the button beside the bar does

    QTimer.singleShot(1500, give_up)
    begun = time.monotonic()
    viewer.open(silent, plugin="napari-decant")
    heart.stop()
    assert time.monotonic() - begun < 10
    assert len(beats) > 20
    assert len(viewer.layers) == 0
    assert told() == []
    assert any(thread.name == "decant-work" for thread in threading.enumerate())  # left to itself


@pytest.mark.viewer
def test_an_address_that_refuses_says_so(viewer, told: Told) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}/a.zarr"
    viewer.open(address, plugin="napari-decant")
    (message,) = told()
    assert address in message
    assert len(viewer.layers) == 0
