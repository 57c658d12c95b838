"""What became of a batch: its rows, its report files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from napari_decant.archive._report import Jsonable
from napari_decant.stores._atomic import AtomicFile, make_folder

__all__ = ["BatchReport", "BatchRow", "restore_folder", "write_reports"]


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
        text = f"{files:,} files are in {len(done):,} archives; every byte of what was packed was checked"
        if self.count("skipped"):
            text += f"; {self.count('skipped'):,} were packed already"
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
    """Write ``report.json`` and ``SHA256SUMS`` into a folder, replacing older ones.

    ``sha256sum -c SHA256SUMS`` accepts the originals once the folder of the archives is restored.

    Returns
    -------
    (Path, Path)
        The two files.
    """
    lines = []
    for row in report.rows:
        if row.state not in ("packed", "skipped"):
            continue
        folder_of_row = restore_folder(row.relative, series=row.mode == "series", alone=False)
        lines += [_line((folder_of_row / name).as_posix(), digest) for name, digest, _ in row.files]
    make_folder(folder)
    outputs = (folder / "report.json", folder / "SHA256SUMS")
    texts = (json.dumps(report.to_json(), indent=1) + "\n", "".join(line + "\n" for line in lines))
    for target, text in zip(outputs, texts, strict=True):
        with AtomicFile(target, overwrite=True) as output:
            output.file.write(text.encode("utf-8", "surrogateescape"))
            output.commit()
    return outputs


def _line(path: str, digest: str) -> str:
    """As sha256sum itself writes it: names with a backslash or a line break are escaped, and say so."""
    escaped = path.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return f"{'' if escaped == path else chr(92)}{digest}  {escaped}"
