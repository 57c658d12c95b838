"""What other programs write becomes an image, or is kept whole for the right reason, and comes back."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile

from napari_decant import pack, restore, verify
from napari_decant.archive import pack_batch, plan


def pixels(*shape: int, dtype: str = "u2") -> np.ndarray:
    """Pixels that depend on their place and are never zero."""
    return (np.arange(np.prod(shape)) % 199 + 1).reshape(shape).astype(dtype)


RGB = {"photometric": "rgb"}
# pixels, options of tifffile, and why the file is kept whole (None: it becomes an image)
WRITTEN: dict[str, tuple[np.ndarray, dict[str, Any], str | None]] = {
    "big-endian BigTIFF": (pixels(20, 30), {"bigtiff": True, "byteorder": ">"}, None),
    "half floats": (pixels(20, 30, dtype="f2"), {}, None),
    "64-bit integers": (pixels(20, 30, dtype="i8"), {}, None),
    "RGBA": (pixels(20, 30, 4, dtype="u1"), {**RGB, "extrasamples": ["unassalpha"]}, None),
    "CMYK": (pixels(20, 30, 4, dtype="u1"), {"photometric": "separated"}, None),
    "five samples": (pixels(20, 30, 5), {"photometric": "minisblack", "planarconfig": "contig"}, None),
    "planar tiles": (pixels(3, 40, 50), {**RGB, "planarconfig": "separate", "tile": (16, 32)}, None),
    "palette": (
        pixels(20, 30, dtype="u1"),
        {"photometric": "palette", "colormap": pixels(3, 256)},
        None,
    ),
    "OME": (pixels(2, 3, 8, 9), {"ome": True, "metadata": {"axes": "TCYX"}}, None),
    "ImageJ": (pixels(2, 3, 4, 8, 9), {"imagej": True, "metadata": {"axes": "TZCYX"}}, None),
    "bits": (pixels(20, 30) > 100, {}, "bit-depth"),
    "complex128": (pixels(20, 30, dtype="c16"), {}, "bit-depth"),
    "volume": (pixels(16, 32, 32), {"volumetric": True, "tile": (16, 16, 16)}, "image-depth"),
    "LZW with differences": (pixels(20, 30), {"compression": "lzw", "predictor": True}, "compressed"),
    "zstd": (pixels(20, 30), {"compression": "zstd"}, "compressed"),
    "LERC": (pixels(20, 30), {"compression": "lerc"}, "compressed"),
    "JPEG 2000": (pixels(32, 32, 3, dtype="u1"), {**RGB, "compression": "jpeg2000"}, "compressed"),
    "JPEG in YCbCr": (
        pixels(32, 32, 3, dtype="u1"),
        {**RGB, "compression": "jpeg", "subsampling": (2, 2)},
        "compressed",
    ),
}  # fmt: skip


def assert_comes_back(path: Path, folder: Path, reason: str | None) -> None:
    report = pack(path, folder)
    assert (report.reason, bool(report.shape)) == (reason, reason is None), path.name
    assert verify(report.archive).whole
    assert verify(report.archive, quick=True).ok
    (back,) = restore(report.archive, folder / "back").files
    assert back.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("kind", WRITTEN)
def test_kinds_of_tiff(tmp_path: Path, kind: str) -> None:
    data, options, reason = WRITTEN[kind]
    tifffile.imwrite(tmp_path / "a.tif", data, **options)
    assert_comes_back(tmp_path / "a.tif", tmp_path / "out", reason)


# Tags of a page of 16 x 16 pixels that are changed, by code: type, count, value (None takes the tag away).
PLAIN = {256: (3, 1, 16), 257: (3, 1, 16), 258: (3, 1, 16), 259: (3, 1, 1), 262: (3, 1, 1), 273: (4, 1, 600),
         277: (3, 1, 1), 278: (3, 1, 16), 279: (4, 1, 512)}  # fmt: skip
TAGS: dict[str, tuple[dict[int, tuple[int, int, int] | None], str | None]] = {
    "pixels within the header": ({273: (4, 1, 2)}, None),
    "pixels within the directory": ({273: (4, 1, 20)}, None),
    "no rows per strip": ({278: None}, None),
    "zero rows per strip": ({278: (3, 1, 0)}, None),
    "more rows per strip than any image": ({278: (4, 1, 0xFFFFFFFF)}, None),
    "no byte counts": ({279: None}, None),
    "too many bytes counted": ({279: (4, 1, 530)}, None),
    "a tag of an unknown type": ({700: (0, 1, 5)}, None),
    "a tag larger than the file": ({700: (1, 0xFFFFFFFF, 100)}, None),
    "turned": ({274: (3, 1, 8)}, None),
    "MetaMorph that claims planes": ({33629: (5, 10, 100), 33628: (4, 1, 900)}, None),
    "LSM info that lies past the end": ({34412: (1, 500, 1050)}, None),
    "no width": ({256: None}, "unreadable-tags"),
    "no pixels": ({256: (3, 1, 0)}, "unreadable-tags"),
    "12 bits": ({258: (3, 1, 12), 279: (4, 1, 384)}, "bit-depth"),
    "24-bit floats": ({258: (3, 1, 24), 273: (4, 1, 300), 279: (4, 1, 768), 339: (3, 1, 3)}, "bit-depth"),
    "complex integers": (
        {258: (3, 1, 32), 273: (4, 1, 126), 279: (4, 1, 1024), 339: (3, 1, 5)},
        "complex-integer",
    ),
    "a compression that nobody knows": ({259: (3, 1, 34892)}, "compressed"),
    "colour of lower resolution": (
        {258: (3, 1, 8), 277: (3, 1, 3), 262: (3, 1, 6), 530: (3, 2, 0x20002)},
        "subsampled-colour",
    ),
    "bits turned around": ({266: (3, 1, 2)}, "fill-order"),
    "a strip that is not there": ({273: (4, 1, 0)}, "sparse-segments"),
    "a strip too short": ({279: (4, 1, 100)}, "short-segments"),
    "a strip past the end": ({273: (4, 1, 900)}, "segments-beyond-end"),
    "65535 x 65535 pixels": (
        {256: (3, 1, 65535), 257: (3, 1, 65535), 279: (4, 1, 0xFFFFFFFF)},
        "plane-too-large",
    ),
}


def write_pages(path: Path, pages: list[dict[int, tuple[int, int, int]]], loop: bool = False) -> None:
    """Directories one behind the other from byte 8, in a file of 1,200 bytes that are never zero."""
    data, at = bytearray(pixels(2200, dtype="u1").tobytes()[: 1200 + 1000 * (len(pages) > 1)]), 8
    data[:8] = b"II*\0" + struct.pack("<I", at)
    for number, tags in enumerate(pages):
        size = 6 + 12 * len(tags)
        following = 8 if loop else at + size if number + 1 < len(pages) else 0
        rows = b"".join(struct.pack("<HHII", code, *tags[code]) for code in sorted(tags))
        data[at : at + size] = struct.pack("<H", len(tags)) + rows + struct.pack("<I", following)
        at += size
    path.write_bytes(data)


@pytest.mark.parametrize("kind", TAGS)
def test_tags_that_lie(tmp_path: Path, kind: str) -> None:
    changed, reason = TAGS[kind]
    tags = {code: value for code, value in {**PLAIN, **changed}.items() if value is not None}
    write_pages(tmp_path / "a.tif", [tags])
    assert_comes_back(tmp_path / "a.tif", tmp_path / "out", reason)


@pytest.mark.parametrize(
    ("offsets", "reason"),
    [
        ([600, 1112, 1624], None),
        ([1624, 1112, 600], None),
        ([600, 600], "overlapping-segments"),
        (
            [600, 800, 1624],
            "overlapping-segments",
        ),  # most of the pixels share bytes, though one page does not
    ],
)
def test_pages_that_share_bytes(tmp_path: Path, offsets: list[int], reason: str | None) -> None:
    write_pages(tmp_path / "a.tif", [{**PLAIN, 273: (4, 1, offset)} for offset in offsets])
    assert_comes_back(tmp_path / "a.tif", tmp_path / "out", reason)


def test_pages_that_the_image_lacks_are_told(tmp_path: Path) -> None:
    with tifffile.TiffWriter(tmp_path / "a.tif") as out:
        for n in range(5):
            out.write(pixels(20, 30) + n, compression="zlib" if n == 2 else None, metadata=None)
        out.write(pixels(10, 15), subfiletype=1, metadata=None)  # a thumbnail is no loss
    report = pack(tmp_path / "a.tif")
    assert report.shape == (4, 20, 30)
    assert report.notes == ("1 page is not part of the image (compressed), and restored all the same",)
    write_pages(tmp_path / "b.tif", [{**PLAIN, 273: (4, 1, at)} for at in (600, 600, 1112, 1624)])
    report = pack(tmp_path / "b.tif")
    assert report.shape[0] == 2
    assert report.notes[0].startswith("2 pages are not part of the image (overlapping-segments)")


@pytest.mark.parametrize("limits", [(60, 10**6), (10**6, 12)], ids=["segments", "planes"])
def test_more_pieces_than_a_manifest_may_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int]
) -> None:
    """The limits on reading are those on writing, else an archive would refuse itself once it is written."""
    from napari_decant.archive import _manifest, _page_table

    few, many = tmp_path / "few.tif", tmp_path / "many.tif"
    tifffile.imwrite(few, pixels(8, 9), metadata=None)
    # a tile at the right edge has a segment a row
    tifffile.imwrite(many, pixels(4, 40, 9), metadata=None, tile=(16, 16), photometric="minisblack")
    for module in (_manifest, _page_table):
        monkeypatch.setattr(module, "MAX_VALUES", limits[0])
        monkeypatch.setattr(module, "MAX_CONTAINERS", limits[1])
    assert_comes_back(few, tmp_path / "out", None)
    assert_comes_back(many, tmp_path / "out", "too-many-pieces")

    series = tmp_path / "series"
    series.mkdir()
    for name in ("a.tif", "b.tif", "c.tif"):
        tifffile.imwrite(series / name, pixels(8, 9), metadata=None)
    (row,) = plan([series], tmp_path, series=True)
    assert row.target.name == "series.zarr"
    assert "the planes are in more pieces than one archive can list" in row.notes[0]


def test_a_stack_of_countless_planes_is_not_made_into_objects(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    text = "ImageJ=1.54f\nimages=999999999\n"
    with path.open("wb") as out:
        tifffile.imwrite(out, pixels(1, 1, dtype="u1"), description=text, metadata=None)
        out.truncate(1 << 30)  # a hole
    (row,) = plan([path], tmp_path, estimate=False)
    assert (row.mode, row.reason) == ("verbatim", "too-many-pieces")


def test_directories_that_lead_back(tmp_path: Path) -> None:
    write_pages(tmp_path / "a.tif", [PLAIN], loop=True)
    assert "directory links form a loop" in pack(tmp_path / "a.tif", tmp_path).notes


@pytest.mark.skipif(os.name == "nt", reason="has no pipes in folders")
def test_a_tree_with_what_is_no_file(tmp_path: Path) -> None:
    """Pipes and links are rows that failed, each with a sentence; what lies deep comes back all the same."""
    tree = tmp_path / "tree"
    deep = tree.joinpath(*(f"{n}{'x' * 30}" for n in range(9)))
    deep.mkdir(parents=True)
    tifffile.imwrite(deep / "a.tif", pixels(8, 9))
    os.mkfifo(tree / "pipe.tif")
    (tree / "link.tif").symlink_to(deep / "a.tif")
    (tree / "lost.tif").symlink_to("nowhere")
    report = pack_batch(plan([tree], tmp_path / "out"))
    told = {row.source.name: row.message for row in report.rows}
    assert told["a.tif"] == ""
    assert "is not a regular file" in told["pipe.tif"]
    assert "is a link" in told["link.tif"]
    assert "is a link" in told["lost.tif"]
    (archive,) = (tmp_path / "out").rglob("*.zarr.zip")
    assert len(str(archive)) > 255
    assert restore(archive, tmp_path / "back").files[0].read_bytes() == (deep / "a.tif").read_bytes()
