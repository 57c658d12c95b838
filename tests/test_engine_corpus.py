"""Every Zarr store of the corpus reads as zarr-python reads it, or is refused for a reason that is right."""

from __future__ import annotations

import csv
import os
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.support.images import image_of

from napari_decant.engine import ChunkPlanner, CpuExecutor, ZarrArray
from napari_decant.errors import DecantError, FormatError, UnsafeInput, UnsupportedOperation
from napari_decant.spatial import IndexQuery
from napari_decant.stores import open_store

CORPUS = os.environ.get("NAPARI_DECANT_CORPUS")
RIGHT = re.compile(
    r"only arrays of numbers|not among the supported codecs|nests sharding|only stored and deflated entries"
)

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(not CORPUS, reason="NAPARI_DECANT_CORPUS does not name the corpus"),
    pytest.mark.filterwarnings("ignore"),
]


def stores(container):
    rows = list(csv.DictReader((Path(CORPUS) / "ZARR.tsv").open(), delimiter="\t"))
    return [Path(CORPUS) / "files" / row["path"] for row in rows if row["container"] == container]


def check(right, message):
    assert right, message


def arrays(store):
    for key in store.keys():  # noqa: SIM118
        folder, _, name = key.rpartition("/")
        if name == ".zarray":
            yield folder, 2
        elif name == "zarr.json":
            try:
                document = store.read(key)
            except UnsupportedOperation as error:
                check(RIGHT.search(str(error)), error)
                continue
            if b'"array"' in document and b'"consolidated_metadata"' not in document:
                yield folder, 3


def theirs(path, folder, version, window):
    """What zarr-python reads, or the error that it raises."""
    try:
        store = zarr.storage.ZipStore(path, mode="r") if path.is_file() else path
        return zarr.open_array(store, path=folder, mode="r", zarr_format=version)[window]
    except Exception as error:  # noqa: BLE001 - anything it raises means that it cannot read this
        return error


def window_of(shape):
    return tuple(slice(n // 3, min(n, n // 3 + 200)) for n in shape)


@pytest.mark.parametrize("container", ["dir", "zip"])
def test_every_store_reads_equal_or_is_refused_rightly(container):
    warnings.simplefilter("ignore")
    equal = refused = 0
    executor, planner = CpuExecutor(), ChunkPlanner()
    for path in stores(container):
        try:
            store = open_store(path)
        except DecantError:
            refused += 1  # damaged zips; they have tests of their own
            continue
        for folder, version in arrays(store):
            where = f"{path}: {folder}"
            try:
                array = ZarrArray(store, path=folder)
                window = window_of(array.shape)
                mine = array.read(window)
            except (UnsupportedOperation, UnsafeInput) as error:
                check(RIGHT.search(str(error)) or "Python objects" in str(error), f"{where}: {error}")
                refused += 1
                continue
            except FormatError as error:
                other = theirs(path, folder, version, ...)
                check(
                    isinstance(other, Exception) or "describes a 'group'" in str(error), f"{where}: {error}"
                )
                refused += 1
                continue
            image = image_of([], [{"shape": array.shape}], uri=store.uri, arrays=[array.meta])
            image.levels[0].path = folder
            (planned,) = executor.run(planner.plan([IndexQuery(list(window)).resolve(image)]))
            np.testing.assert_array_equal(planned, mine, err_msg=where)
            other = theirs(path, folder, version, window)
            if isinstance(other, Exception):
                assert "codec" in str(other), f"{where}: only we can read this: {other!r}"
                continue
            np.testing.assert_array_equal(mine, other, err_msg=where)
            equal += 1
        store.close()
    assert equal > 50
    assert refused > 3
    executor.close()
