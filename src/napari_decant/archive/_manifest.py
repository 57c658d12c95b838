"""The manifest, ``.decant/manifest.json`` (archive format, section 4b), as a checked model."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    model_validator,
)

from napari_decant.archive._geometry import PageLayout
from napari_decant.archive._names import refuse_clashes
from napari_decant.archive._page_table import MAX_CONTAINERS, MAX_VALUES, PageColumns, PageTable, read_columns
from napari_decant.errors import FormatError, UnsafeInput, UnsupportedOperation
from napari_decant.stores import unsafe_name_reason

__all__ = [
    "FORMAT",
    "MANIFEST_KEY",
    "MAX_MANIFEST_BYTES",
    "Manifest",
    "Member",
    "PageRecord",
    "dump_manifest",
    "load_manifest",
    "page_tables",
    "safe_relpath",
]

FORMAT = 1
MANIFEST_KEY = ".decant/manifest.json"
MAX_MANIFEST_BYTES = 1 << 30

_DTYPE_NAME = re.compile(r"[<>|=]?[a-z]{1,10}[0-9]{0,3}", re.ASCII)

Count = Annotated[int, Field(ge=0, lt=1 << 63)]


def _int64_column(values: Any) -> np.ndarray:
    """File offsets or counts as an array: lists of a million numbers would take ten times the memory."""
    if isinstance(values, np.ndarray):
        return values
    if not isinstance(values, list):
        raise ValueError("is not a list")
    if len(values) == 1 and type(values[0]) is int and 0 <= values[0] < 1 << 63:
        return np.array(values, np.int64)  # most pages have one segment, and there may be 100,000 of them
    try:
        column = np.array(values)
    except (ValueError, OverflowError) as error:
        raise ValueError("is not a list of integers") from error
    if not len(values):
        return np.zeros(0, np.int64)
    if column.ndim != 1 or column.dtype != np.int64 or int(column.min()) < 0:
        raise ValueError("is not a list of integers from 0 to 2**63 - 1")
    return column


Column = Annotated[
    np.ndarray,
    PlainValidator(_int64_column),
    PlainSerializer(lambda column: column.tolist(), return_type=list[int]),
    WithJsonSchema(
        {"type": "array", "items": {"type": "integer", "minimum": 0, "exclusiveMaximum": 1 << 63}}
    ),
]
Sha256 = Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]


def safe_relpath(path: str, what: str) -> str:
    """Check that a name stays below the folder it is restored into.

    Raises
    ------
    UnsafeInput
        Absolute, with ``..``, a backslash, a drive letter, a NUL or an empty part.
    """
    reason = unsafe_name_reason(path)
    if reason is not None:
        raise UnsafeInput(f"{what} {path[:200]!r} {reason}; nothing is read from this archive")
    return path


@lru_cache(64)
def _pixel_type(name: str) -> np.dtype:
    # numpy reads far more than names, such as Python literals: it gets nothing but a name
    if _DTYPE_NAME.fullmatch(name) is None:
        raise ValueError(f"unknown dtype {name[:80]!r}")
    try:
        dtype = np.dtype(name).newbyteorder("<")
    except (TypeError, ValueError) as error:
        raise ValueError(f"unknown dtype {name[:80]!r}") from error
    if dtype.kind not in "uifc":
        raise ValueError(f"dtype {name[:80]!r} is no pixel type")
    return dtype


class _Record(BaseModel):
    # Unknown keys are ignored: additive keys do not change the format (section 6).
    model_config = ConfigDict(extra="ignore", frozen=True, arbitrary_types_allowed=True)


class PageRecord(_Record):
    """One plane of the pixel array and where its bytes lie in the file."""

    index: Count
    shape: Annotated[list[Annotated[int, Field(gt=0, lt=1 << 40)]], Field(min_length=2, max_length=3)]
    dtype: str
    dataoffsets: Column
    databytecounts: Column
    samplesperpixel: Annotated[int, Field(gt=0)] = 1
    planarconfig: Literal[1, 2] = 1
    predictor: int = 1
    rowsperstrip: Count = 0
    tilewidth: Count = 0
    tilelength: Count = 0

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(self.dataoffsets) != len(self.databytecounts):
            raise ValueError("dataoffsets and databytecounts differ in length")
        if self.predictor != 1:
            raise ValueError("a listed page has a predictor")
        if (self.tilewidth == 0) != (self.tilelength == 0):
            raise ValueError("only one of tilewidth and tilelength is given")
        counts = self.databytecounts
        listed = int(counts.sum(dtype=np.int64)) if len(counts) != 1 else int(counts[0])
        if listed != prod(self.shape) * _pixel_type(self.dtype).itemsize:
            raise ValueError("the segments do not add up to the page's pixels")
        # The shape has it: whoever leaves it out, or says something else, speaks of the same bytes.
        object.__setattr__(self, "samplesperpixel", self.shape[2] if len(self.shape) == 3 else 1)
        return self

    def layout(self) -> PageLayout:
        """The page's layout as arrays."""
        return PageLayout(
            tuple(self.shape), _pixel_type(self.dtype), self.dataoffsets, self.databytecounts,
            self.planarconfig, self.rowsperstrip, self.tilewidth, self.tilelength,
        )  # fmt: skip

    @classmethod
    def of(cls, index: int, layout: PageLayout) -> PageRecord:
        """The record that stands for a layout."""
        return cls.model_construct(
            index=index,
            shape=list(layout.shape),
            dtype=layout.dtype.name,
            dataoffsets=layout.offsets,
            databytecounts=layout.counts,
            samplesperpixel=layout.samples,
            planarconfig=layout.planarconfig,
            predictor=1,
            rowsperstrip=layout.rowsperstrip,
            tilewidth=layout.tilewidth,
            tilelength=layout.tilelength,
        )


def _keep_table(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    return value if isinstance(value, PageTable) else handler(value)


def _plain_pages(pages: list[PageRecord] | PageTable) -> list[dict[str, Any]]:
    if isinstance(pages, PageTable):
        pages = [PageRecord.of(i, page) for i, page in zip(pages.indices.tolist(), pages, strict=True)]
    return [page.model_dump() for page in pages]


if TYPE_CHECKING:
    Pages = list[PageRecord] | PageTable
else:  # what is read is a table already, what is written are records
    Pages = Annotated[list[PageRecord], WrapValidator(_keep_table), PlainSerializer(_plain_pages)]


class Member(_Record):
    """One file of a series."""

    relpath: str
    original_size: Count
    original_sha256: Sha256
    byteorder: Literal["<", ">"] = "<"
    husk_array: str = ""
    husk_raw_size: Count = 0
    pages: Pages = []
    subarchive: str = ""


class Manifest(_Record):
    """How to get the original back (section 4b)."""

    decant_version: str = ""
    format: int
    mode: Literal["byte-exact", "verbatim", "series"]
    original_name: str
    original_size: Count
    original_sha256: Sha256
    byteorder: Literal["<", ">"] = "<"
    pixel_codec: str = ""
    pages: Pages = []
    plane_order: list[str] = []
    husk_raw_size: Count = 0
    notes: str = ""
    members: list[Member] = []
    series_consolidated: bool = False


def load_manifest(data: bytes, where: str) -> Manifest:
    """Read and check a manifest.

    Raises
    ------
    UnsupportedOperation
        Its ``format`` or ``mode`` is not one that this program implements (section 6).
    UnsafeInput
        A name in it could leave the output folder.
    FormatError
        It is damaged: not JSON, or its numbers contradict each other.
    """
    if data.count(b",") > MAX_VALUES or data.count(b"[") + data.count(b"{") > MAX_CONTAINERS:
        raise UnsafeInput(
            f"the manifest of {where} holds more numbers than any real one; it is made to exhaust memory"
        )
    try:
        raw: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(
            f"the manifest of {where} is not valid JSON ({error}); the archive is damaged"
        ) from error
    if not isinstance(raw, dict):
        raise FormatError(f"the manifest of {where} is not a JSON object; the archive is damaged")
    if raw.get("format") != FORMAT:
        raise UnsupportedOperation(
            f"{where} has archive format {raw.get('format')!r}, "
            f"this program reads format {FORMAT}; use a newer version"
        )
    if raw.get("mode") not in ("byte-exact", "verbatim", "series"):
        raise UnsupportedOperation(f"{where} has the unknown mode {raw.get('mode')!r}; use a newer version")
    _put_tables(raw)
    try:
        manifest = Manifest.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "manifest"
        raise FormatError(f"the manifest of {where} is damaged: {place}: {first['msg']}") from error
    if manifest.mode != "series" and "/" in safe_relpath(manifest.original_name, "the original name"):
        raise UnsafeInput(
            f"the original name {manifest.original_name!r} in {where} is a path; nothing is read from it"
        )
    for member in manifest.members:
        safe_relpath(member.relpath, "the member name")
    refuse_clashes((member.relpath for member in manifest.members), f"in {where} the members")
    return manifest


def _put_tables(raw: dict[str, Any]) -> None:
    """Replace the lists of page records by tables where all are as they should be."""
    members = raw.get("members")
    holders = [raw, *members] if isinstance(members, list) else [raw]
    if not all(isinstance(holder, dict) and isinstance(holder.get("pages", []), list) for holder in holders):
        return
    lists = [holder.get("pages", []) for holder in holders]
    found = read_columns(lists, lambda record: PageRecord.model_validate(record).layout())
    if found is not None:
        columns, starts = found
        for holder, first, stop in zip(holders, starts, starts[1:], strict=False):
            holder["pages"] = PageTable(columns, first, stop)


def page_tables(holders: Sequence[Member]) -> tuple[PageColumns, list[PageTable]]:
    """The pages of all files of an archive.

    Parameters
    ----------
    holders : sequence of Member
        At least one.

    Returns
    -------
    columns : PageColumns
        With those of all files, one behind the other.
    tables : list of PageTable
        One a file.
    """
    tables = [holder.pages for holder in holders if isinstance(holder.pages, PageTable)]
    if len(tables) == len(holders) and tables:
        return tables[0].columns, tables
    records = [[] if isinstance(holder.pages, PageTable) else holder.pages for holder in holders]
    columns = PageColumns.of([(record.index, record.layout()) for pages in records for record in pages])
    stops = np.cumsum([len(pages) for pages in records], dtype=np.int64).tolist()
    return columns, [PageTable(columns, a, b) for a, b in zip([0, *stops], stops, strict=False)]


def dump_manifest(manifest: Manifest) -> bytes:
    """Bytes of a manifest; equal models give equal bytes."""
    # Segment lists of a million strips stay readable by the line, and small.
    return json.dumps(
        manifest.model_dump(), ensure_ascii=True, separators=(",", ":"), allow_nan=False
    ).encode()
