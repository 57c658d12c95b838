"""What the archives of series say of themselves, consolidated and nested alike."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from napari_decant.archive._manifest import FORMAT, Manifest, Member
from napari_decant.archive._names import stored_name
from napari_decant.archive._pack import SOFTWARE, new_manifest
from napari_decant.archive._series import SeriesPlan, folder_times

__all__ = ["series_facts", "series_manifest"]


def series_manifest(plan: SeriesPlan, target: Path, members: Sequence[Member], **image: Any) -> Manifest:
    """Make the manifest of a series; ``image`` says how it is stored (see `Manifest`)."""
    return new_manifest(
        "series", stored_name(target.name), 0, "", notes="; ".join(plan.notes), members=members, **image
    )


def series_facts(plan: SeriesPlan, members: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What is kept under ``decant`` in the attributes: facts of the members, times of their folders."""
    kept: dict[str, Any] = {"format": FORMAT, "software": SOFTWARE, "members": members}
    folders = folder_times(plan.members, plan.base)
    if folders:
        kept["folders"] = folders
    return kept
