"""Find the axes of a series from its files."""

from __future__ import annotations

from collections.abc import Sequence

from napari_decant.archive._describe import Description
from napari_decant.archive._series import SeriesMember, flat_description

__all__ = ["place_series"]


def place_series(members: Sequence[SeriesMember], pattern: str | None = None) -> Description:
    """Place the planes of all members.

    Parameters
    ----------
    members : sequence of SeriesMember
        In natural order of their names.
    pattern : str, optional
        How names give axes.

    Returns
    -------
    Description
        ``order`` counts the planes of all members one behind the other.
    """
    return flat_description(members)
