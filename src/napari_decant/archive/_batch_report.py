"""What became of a batch: its rows, its report files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from napari_decant.archive._report import Jsonable
from napari_decant.errors import TargetExists
from napari_decant.stores._atomic import AtomicFile, make_folder

__all__ = ["BatchReport", "BatchRow", "restore_folder", "write_reports"]

_MAX_REPORT = 1 << 30


@dataclass(frozen=True, slots=True)
class BatchRow(Jsonable):
    """What became of one row of a plan.

    Attributes
    ----------
    source, archive : Path
    state : {"packed", "skipped", "failed", "cancelled"}
        Skipped: the archive was there already, of this very source.
    message : str
        Of a failure.
    exit_code : int
        Of a failure.
    files : tuple of (str, str, int)
        Path, sha256 and size of each original inside; the path is that of the restored file.
    """

    source: Path
    archive: Path
    state: str
    mode: str = ""
    reason: str | None = None
    message: str = ""
    exit_code: int = 0
    original_size: int = 0
    archive_size: int = 0
    files: tuple[tuple[str, str, int], ...] = ()
    relative: str = ""
    mtime_ns: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BatchReport(Jsonable):
    """What `pack_batch` did, row by row in the plan's order."""

    rows: tuple[BatchRow, ...]
    seconds: float

    def count(self, state: str) -> int:
        """Rows in a state."""
        return sum(row.state == state for row in self.rows)

    @property
    def exit_code(self) -> int:
        """Of the first failure; 0 without one."""
        return next((row.exit_code for row in self.rows if row.exit_code), 0)

    def sentence(self) -> str:
        """The result in words."""
        done = [row for row in self.rows if row.state in ("packed", "skipped")]
        files = sum(len(row.files) for row in done)
        what = "1 file is" if files == 1 else f"{files:,} files are"
        where = "1 archive" if len(done) == 1 else f"{len(done):,} archives"
        text = f"{what} in {where}; every byte of what was packed was checked"
        if skipped := self.count("skipped"):
            text += f"; {skipped:,} {'was' if skipped == 1 else 'were'} packed already"
        if self.count("failed"):
            text += f"; {self.count('failed'):,} failed"
        return text


def restore_folder(relative: str, *, series: bool, alone: bool) -> PurePosixPath:
    """Folder, below the one restored into, for the files of an archive that lies at ``relative``.

    The tree is kept. A series gets a folder of its own name, unless its archive was named alone.
    """
    path = PurePosixPath(relative)
    return path if series and not alone else path.parent


def write_reports(report: BatchReport, folder: Path) -> tuple[Path, Path]:
    """Write ``report.json`` and ``SHA256SUMS`` into a folder, replacing older ones of this program.

    Where one of the names belongs to a file of somebody else, both files are called ``decant-report.json``
    and ``decant-SHA256SUMS``. ``sha256sum -c`` accepts the originals once the folder of the archives is
    restored.

    Returns
    -------
    (Path, Path)
        The two files.

    Raises
    ------
    TargetExists
        Those names are taken, too.
    StorageError
        Writing failed.
    """
    data = report.to_json()
    make_folder(folder)
    pairs = [(folder / f"{prefix}report.json", folder / f"{prefix}SHA256SUMS") for prefix in ("", "decant-")]
    outputs = next((pair for pair in pairs if _may_write(*pair)), None)
    if outputs is None:
        raise TargetExists(f"{pairs[1][0]} is not a report of this program; move it to another place")
    texts = (json.dumps(data, indent=1) + "\n", _sums(data["rows"]))
    for target, text in zip(outputs, texts, strict=True):
        with AtomicFile(target, overwrite=True) as output:
            output.file.write(text.encode("utf-8", "surrogateescape"))
            output.commit()
    return outputs


def _may_write(report: Path, sums: Path) -> bool:
    """Whether both names are free, or those of a report of this program and its own sums."""
    taken = [os.path.lexists(path) for path in (report, sums)]
    if not any(taken):
        return True
    try:
        data = json.loads(report.read_bytes()) if report.stat().st_size < _MAX_REPORT else None
        if not isinstance(data, dict) or data.keys() != {"rows", "seconds"}:
            return False
        ours = _sums(data["rows"]).encode("utf-8", "surrogateescape")
        return not taken[1] or (sums.stat().st_size == len(ours) and sums.read_bytes() == ours)
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return False  # whatever it is, it was not written here


def _sums(rows: Iterable[Mapping[str, Any]]) -> str:
    """The list of the originals' hashes, of rows as they stand in the report."""
    lines = []
    for row in rows:
        if row["state"] not in ("packed", "skipped"):
            continue
        folder = restore_folder(row["relative"], series=row["mode"] == "series", alone=False)
        lines += [_line((folder / name).as_posix(), digest) + "\n" for name, digest, _ in row["files"]]
    return "".join(lines)


def _line(path: str, digest: str) -> str:
    """As sha256sum itself writes it: names with a backslash or a line break are escaped, and say so."""
    escaped = path.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return f"{'' if escaped == path else chr(92)}{digest}  {escaped}"
