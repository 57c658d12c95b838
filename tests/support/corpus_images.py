"""Opens one file of the corpus and compares its pixels with another reader; runs in a limited worker."""

from __future__ import annotations

import io
import logging
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np

MAX_BYTES = 64 << 20


def check_zarr(path: str) -> dict[str, Any]:
    """Compare every array of a store with zarr-python's, level by level."""
    import zarr

    from napari_decant.errors import DecantError
    from napari_decant.images import list_images, open_image

    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    result: dict[str, Any] = {"equal": 0, "refused": [], "different": [], "unreadable_elsewhere": 0}
    try:
        entries = list_images(path)
    except DecantError as error:
        return result | {"refused": [f"{type(error).__name__}: {error}"]}
    result["refused"] = [entry.error for entry in entries if entry.error is not None]
    store: Any = path if Path(path).is_dir() else zarr.storage.ZipStore(path, mode="r")
    for entry in entries:
        if entry.error is not None:
            continue
        try:
            image = open_image(path, image=entry)
            image.layers()
            assert image.ngff is not None
            known = {level.shape: level.path for level in image.ngff.levels}
            for level in image.levels:
                if level.nbytes > MAX_BYTES:
                    continue
                shape = level.shape
                axis = len(shape) - 1 if image.is_rgb else None
                where = known.get(shape) or next(p for s, p in known.items() if sorted(s) == sorted(shape))
                pixels = np.asarray(level)
                try:
                    expected = zarr.open_array(store, path=where, mode="r")[...]
                except Exception:  # noqa: BLE001  (whatever it cannot read is no standard to compare with)
                    result["unreadable_elsewhere"] += 1
                    continue
                expected = np.asarray(expected)
                if axis is not None and expected.shape != shape:
                    expected = np.moveaxis(expected, _colour_axis(image), -1)
                expected = expected.astype(pixels.dtype)
                same = np.array_equal(pixels, expected, equal_nan=pixels.dtype.kind in "fc")
                if same:
                    result["equal"] += 1
                else:
                    result["different"].append(where)
        except DecantError as error:
            result["refused"].append(f"{type(error).__name__}: {error}")
    return result


def _colour_axis(image: Any) -> int:
    return next(i for i, axis in enumerate(image.ngff.axes) if axis.type == "channel")


def check_tiff(path: str) -> dict[str, Any]:
    """Compare the series of a TIFF with what tifffile reads of this file alone."""
    import tifffile

    from napari_decant.errors import DecantError
    from napari_decant.images import list_images, open_image

    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    result: dict[str, Any] = {"equal": 0, "refused": [], "different": [], "unreadable_elsewhere": 0}
    try:
        entries = list_images(path)
    except DecantError as error:
        return result | {"refused": [f"{type(error).__name__}: {error}"]}
    for entry in entries[:4]:
        if math.prod(entry.shape) * np.dtype(entry.dtype).itemsize > MAX_BYTES:
            continue
        try:
            image = open_image(path, image=entry)
            image.layers()
            pixels = np.asarray(image.levels[0])
        except DecantError as error:
            result["refused"].append(f"{type(error).__name__}: {error}")
            continue
        try:
            # From memory: by a file's name, tifffile would look for companions in its folder. Planes that are
            # declared and absent become zeros there; here they are not invented.
            flags = {"is_ome": False} if any("declared planes" in text for text in image.warnings) else {}
            data = io.BytesIO(Path(path).read_bytes())
            expected = tifffile.imread(data, series=int(entry.path), _multifile=False, **flags)
        except Exception:  # noqa: BLE001
            result["unreadable_elsewhere"] += 1
            continue
        if image.is_rgb and expected.shape != pixels.shape:
            expected = np.moveaxis(expected, entry.axes.index("s"), -1)
        if expected.shape == pixels.shape and np.array_equal(
            pixels, expected, equal_nan=pixels.dtype.kind in "fc"
        ):
            result["equal"] += 1
        else:
            result["different"].append(entry.path)
    return result
