"""Say what is inside an archive from its metadata, reading no pixels."""

from __future__ import annotations

from pathlib import Path

from napari_decant.archive._reader import Archive
from napari_decant.archive._report import ArchiveInfo, MemberState

__all__ = ["info"]


def info(archive: str | Path) -> ArchiveInfo:
    """Describe an archive.

    Parameters
    ----------
    archive : path
        ``NAME.zarr.zip`` or an unpacked archive folder.

    Returns
    -------
    ArchiveInfo

    Raises
    ------
    UsageError
        There is nothing at the path.
    FormatError, UnsafeInput, UnsupportedOperation
        It is no archive, damaged, unsafe, or needs a newer version.
    """
    path = Path(archive)
    with Archive(path) as opened:
        manifest = opened.manifest
        files = list(opened.files())
        pixels = files[0].pixels if files else None
        size = (
            sum(f.stat().st_size for f in path.rglob("*") if f.is_file())
            if path.is_dir()
            else path.stat().st_size
        )
        axes, levels = _image(opened)
        return ArchiveInfo(
            archive=path,
            mode=manifest.mode,
            format=manifest.format,
            archive_size=size,
            original_size=sum(file.size for file in files),
            members=tuple(MemberState(file.name, file.size, file.sha256, None) for file in files),
            axes=axes,
            shape=tuple(pixels.shape) if pixels is not None else (),
            dtype=pixels.dtype.name if pixels is not None else "",
            codec=manifest.pixel_codec,
            husk_size=sum(file.husk_size for file in files if file.pages),
            levels=levels,
            written_by=manifest.decant_version,
            facts=dict(opened.facts),
        )


def _image(opened: Archive) -> tuple[tuple[str, ...], int]:
    """Axis names and number of levels of the image, if its attributes say so."""
    try:
        multiscale = opened.attributes["multiscales"][0]
        return tuple(str(axis["name"]) for axis in multiscale["axes"]), len(multiscale["datasets"])
    except (KeyError, IndexError, TypeError):
        return (), 0
