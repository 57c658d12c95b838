"""Where a crop lies, and how files say it.

OME-Zarr 0.5 has scale and translation only. A crop that is turned gets the scale and the translation that
put its centre in its place, so that every reader shows it there, and the whole map under ``decant.affine``
in the attributes of its group::

    "decant": {"affine": {"convention": "voxel-centre-to-physical",
                          "axes": ["z", "y", "x"],
                          "matrix": [[...], [...], [...]]}}

Convention ``voxel-centre-to-physical``: the physical position of the centre of voxel ``(i, j, k)`` of the
finest level is ``matrix @ (i, j, k, 1)``, rows and columns in the order of ``axes``, in the units that the
axes have in ``multiscales``. It takes the place of scale and translation along these axes.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["CONVENTION", "Placement", "affine_of", "affine_record", "placed", "recorded_affine"]

logger = logging.getLogger(__name__)
CONVENTION: Final = "voxel-centre-to-physical"
_MOST_AXES: Final = 3


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the elements of a crop lie, axes of the crop in order.

    Attributes
    ----------
    scale, translation : tuple of float
        Spacing of elements, and the position of element 0 if the crop were not turned; the centre of the
        crop is in its place either way.
    affine : tuple of tuple of float, shape (n + 1, n + 1), or None
        Applied after scale and translation; None where they say all.
    """

    scale: tuple[float, ...]
    translation: tuple[float, ...]
    affine: tuple[tuple[float, ...], ...] | None

    @property
    def matrix(self) -> NDArray[np.float64]:
        """Position of element ``i``: ``matrix @ (i, 1)``, shape (n, n + 1)."""
        own = np.column_stack([np.diag(self.scale), self.translation])
        if self.affine is None:
            return own
        whole = np.asarray(self.affine)
        return np.column_stack([whole[:-1, :-1] @ own[:, :-1], whole[:-1, :-1] @ own[:, -1] + whole[:-1, -1]])


def placed(linear: NDArray[np.float64], offset: NDArray[np.float64], shape: Sequence[int]) -> Placement:
    """Divide a map into scale and translation and, where they do not say all, an affine map after them."""
    scale = np.linalg.norm(linear, axis=0)
    # what turns less than this moves no element of any image by a thousandth of its size
    dust = np.abs(linear - np.diag(np.diag(linear))).max(initial=0.0) <= 1e-12 * scale.min(initial=np.inf)
    if dust and (np.diag(linear) > 0).all():
        return Placement(tuple(map(float, scale)), tuple(map(float, offset)), None)
    middle = (np.asarray(shape, np.float64) - 1) / 2
    translation = linear @ middle + offset - scale * middle
    turn = linear / scale
    whole = np.eye(len(scale) + 1)
    whole[:-1, :-1] = turn
    whole[:-1, -1] = offset - turn @ translation
    return Placement(
        tuple(map(float, scale)),
        tuple(map(float, translation)),
        tuple(tuple(map(float, row)) for row in whole),
    )


def affine_of(
    matrix: NDArray[np.float64], scale: Sequence[float], translation: Sequence[float]
) -> tuple[tuple[float, ...], ...] | None:
    """The map after a scale and translation that makes a whole map of them.

    Parameters
    ----------
    matrix : array, shape (n, n + 1)
        The whole map.
    scale, translation : sequence of float
        What comes first.

    Returns
    -------
    tuple of tuple of float, shape (n + 1, n + 1), or None
        None where scale and translation are the whole map, but for rounding.
    """
    s, t = np.asarray(scale, np.float64), np.asarray(translation, np.float64)
    linear = matrix[:, :-1] / s
    whole = np.eye(len(s) + 1)
    whole[:-1, :-1] = linear
    whole[:-1, -1] = matrix[:, -1] - linear @ t
    size = 1.0 + np.abs(t).max(initial=0.0)
    if np.abs(whole - np.eye(len(whole))).max() <= 1e-9 * size:
        return None
    return tuple(tuple(map(float, row)) for row in whole)


def affine_record(matrix: NDArray[np.float64], names: Sequence[str]) -> dict[str, Any]:
    """What is written under ``decant.affine``.

    Parameters
    ----------
    matrix : array, shape (n, n + 1)
        Physical position of voxel centres.
    names : sequence of str
        The axes as the file names them.
    """
    return {"convention": CONVENTION, "axes": list(names), "matrix": np.asarray(matrix).tolist()}


def recorded_affine(decant: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any] | None:
    """Read ``decant.affine`` for an image with axes of these names.

    Returns
    -------
    dict or None
        ``axes`` (positions among ``names``) and ``matrix``, shape (n, n + 1); None if nothing usable is
        recorded, which is logged unless there is nothing at all.
    """
    record = decant.get("affine")
    if record is None:
        return None
    problem = _problem(record, names)
    if problem is not None:
        logger.warning("decant.affine is not used: %s", problem)
        return None
    matrix = np.asarray(record["matrix"], np.float64)
    return {"axes": [list(names).index(name) for name in record["axes"]], "matrix": matrix}


def _problem(record: Any, names: Sequence[str]) -> str | None:
    if not isinstance(record, Mapping) or record.get("convention") != CONVENTION:
        return f"its convention is not {CONVENTION!r}"
    axes, matrix = record.get("axes"), record.get("matrix")
    if (
        not isinstance(axes, list)
        or not 0 < len(axes) <= _MOST_AXES
        or len({str(a) for a in axes}) < len(axes)
    ):
        return "its axes are no list of up to three different names"
    if not all(isinstance(name, str) and name in names for name in axes):
        return "it names axes that the image has not"
    rows = matrix if isinstance(matrix, list) and len(matrix) == len(axes) else []
    if not rows or not all(
        isinstance(row, list) and len(row) == len(axes) + 1 and all(_is_number(v) for v in row)
        for row in rows
    ):
        return f"its matrix is not {len(axes)} rows of {len(axes) + 1} finite numbers"
    linear = np.asarray(matrix, np.float64)[:, :-1]
    with np.errstate(all="ignore"):
        regular = np.linalg.cond(linear) < 1e12 and np.isfinite(linear).all()
    return None if regular else "its matrix cannot be inverted"


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and abs(value) < 1e300
        and math.isfinite(value)
    )
