"""Read OME-XML: images, their dimensions, channels, and which directory of which file holds which plane."""

from __future__ import annotations

from collections.abc import Callable

from napari_decant.errors import FormatError
from napari_decant.tiff.dialects._ome_model import OmeChannel, OmeDocument, OmeImage, PlaneFacts
from napari_decant.tiff.dialects._reading import MAX_LISTED, clean, number, whole
from napari_decant.tiff.dialects._xml import read_xml

__all__ = ["ANNOTATION", "read_ome", "read_ome_set"]

_MAX_IMAGES = 10_000
_MAX_CHANNELS = 4096
_MAX_FILES = 10_000
_MAX_ANNOTATIONS = 100
_ROW = 5
ANNOTATION = "napari-decant"
"""Namespace of what this program records in a file that it writes."""


def read_ome(read: Callable[[int, int], bytes], size: int, name: str, pages: int) -> OmeDocument:
    """Parse OME-XML, from a TIFF's description or a companion file.

    Parameters
    ----------
    read : callable
        ``read(position, length)`` within the document.
    size : int
        Its length in bytes.
    name : str
        Name of the file whose planes are wanted, to tell its planes from those of other files.
    pages : int
        How many pages it has; bounds what is kept.

    Raises
    ------
    UnsafeInput, FormatError
        See `read_xml`; or the document has more parts than any honest one.
    """
    return read_xml(read, size, lambda: _Reader(name, pages)).finish()


def read_ome_set(read: Callable[[int, int], bytes], size: int, pages: int) -> OmeDocument:
    """Parse OME-XML that speaks of several files; as `read_ome`, but every file's planes are kept.

    Parameters
    ----------
    read, size
        As for `read_ome`.
    pages : int
        How many pages all files have together; bounds what is kept.

    Returns
    -------
    OmeDocument
        With ``set_rows``; its images have no rows of their own.

    Raises
    ------
    As `read_ome`.
    """
    return read_xml(read, size, lambda: _Reader(None, pages)).finish()


class _Reader:
    def __init__(self, name: str | None, pages: int) -> None:
        self._document = OmeDocument()
        self._every_file = name is None
        self._name = (name or "").casefold()
        self._max_rows = _ROW * (4 * pages + 64)
        self._path: list[str] = []
        self._data: tuple[int, int, int, int, int] | None = None
        self._file = ""
        self._data_uuid = ""
        self._annotation = ""
        self._comment = False
        self._modulo: dict[str, dict[str, tuple[str, int]]] = {}

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._path.append(name)
        if len(self._path) == 1:
            self._document.is_ome = name == "OME"
            self._document.uuid = _uuid(attributes.get("UUID", ""))
        elif handler := _STARTS.get((self._path[-2], name)):
            handler(self, attributes)

    def end(self, name: str, text: str) -> None:
        self._path.pop()
        parent = self._path[-1] if self._path else ""
        if name == "TiffData" and self._data is not None:
            self._end_data(self._data)
            self._data = None
        elif (parent, name) == ("TiffData", "UUID"):
            self._data_uuid = _uuid(text)
        elif (parent, name) == ("CommentAnnotation", "Value") and self._comment:
            self._document.recorded = self._document.recorded or text
        elif (parent, name) == ("Image", "AcquisitionDate"):
            self._image.date = clean(text)

    def finish(self) -> OmeDocument:
        document = self._document
        for image in document.images:
            for annotation in image.annotations:
                image.modulo |= self._modulo.get(annotation, {})
        own = any(image.rows for image in document.images)
        if not own and len(document.files) == 1 and any(image.others for image in document.images):
            # The one file that it speaks of must be this one, under another name.
            document.files.clear()
            for image in document.images:
                image.rows, image.elsewhere = image.others, 0
        return document

    @property
    def _image(self) -> OmeImage:
        if not self._document.images:
            raise FormatError("its OME-XML has pixels outside of an image")
        return self._document.images[-1]

    def _start_image(self, attributes: dict[str, str]) -> None:
        if len(self._document.images) >= _MAX_IMAGES:
            raise FormatError("its OME-XML has too many images")
        self._document.images.append(OmeImage(name=clean(attributes.get("Name", ""))))

    def _start_stage(self, attributes: dict[str, str]) -> None:
        self._image.position = clean(attributes.get("Name", ""))

    def _start_pixels(self, attributes: dict[str, str]) -> None:
        image = self._image
        order = attributes.get("DimensionOrder", "XYCZT").upper()
        if sorted(order) != sorted("XYCZT"):
            raise FormatError(f"its OME-XML has the unknown dimension order {clean(order)!r}")
        image.order = order
        for axis in "CZT":
            image.sizes[axis] = whole(attributes.get(f"Size{axis}", "1"), 1, 1 << 31) or 1
        for axis in "XYZ":
            size = number(attributes.get(f"PhysicalSize{axis}"))
            if size is not None:
                image.steps[axis] = (size, attributes.get(f"PhysicalSize{axis}Unit", "µm"))
        increment = number(attributes.get("TimeIncrement"))
        if increment is not None:
            image.steps["T"] = (increment, attributes.get("TimeIncrementUnit", "s"))

    def _start_channel(self, attributes: dict[str, str]) -> None:
        channels = self._image.channels
        if len(channels) < _MAX_CHANNELS:
            color = whole(attributes.get("Color"), -(1 << 31), (1 << 32) - 1)
            samples = whole(attributes.get("SamplesPerPixel"), 1, 1 << 16)
            channels.append(OmeChannel(clean(attributes.get("Name", "")), color, samples))

    def _start_data(self, attributes: dict[str, str]) -> None:
        self._file = self._data_uuid = ""
        count = "PlaneCount" if "PlaneCount" in attributes else "NumPlanes"
        given, planes = _index(attributes, "IFD", -1), _index(attributes, count, -1)
        c, z, t = _index(attributes, "FirstC"), _index(attributes, "FirstZ"), _index(attributes, "FirstT")
        if given is not None and planes is not None and c is not None and z is not None and t is not None:
            self._data = (given, planes, c, z, t)

    def _start_uuid(self, attributes: dict[str, str]) -> None:
        self._file = attributes.get("FileName", "")

    def _end_data(self, row: tuple[int, int, int, int, int]) -> None:
        image = self._image
        if self._every_file:
            kept = self._document.set_rows
            if len(kept.rows) // (_ROW + 2) < self._max_rows // _ROW:
                kept.add(self._file, self._data_uuid, len(self._document.images) - 1, row)
            return
        self._end_own_data(image, row)

    def _end_own_data(self, image: OmeImage, row: tuple[int, int, int, int, int]) -> None:
        if self._is_own():
            kept = image.rows
        else:
            files = self._document.files
            key = self._data_uuid or self._file
            if len(files) < _MAX_FILES:
                files.setdefault(key, clean(self._file))
            image.elsewhere += row[1] if row[1] >= 0 else 1
            kept = image.others
        if len(kept) < self._max_rows:
            kept.extend(row)

    def _is_own(self) -> bool:
        own = self._document.uuid
        if self._data_uuid and own:
            return self._data_uuid == own
        base = self._file.replace("\\", "/").rpartition("/")[2].casefold()
        return not base or base == self._name

    def _start_plane(self, attributes: dict[str, str]) -> None:
        facts = self._image.facts
        if len(facts) >= MAX_LISTED:
            return
        c, z, t = _index(attributes, "TheC"), _index(attributes, "TheZ"), _index(attributes, "TheT")
        if c is None or z is None or t is None:
            return
        delta, exposure = number(attributes.get("DeltaT")), number(attributes.get("ExposureTime"))
        if delta is not None or exposure is not None:
            facts.append(
                PlaneFacts(
                    (c, z, t),
                    None if delta is None else (delta, attributes.get("DeltaTUnit", "s")),
                    None if exposure is None else (exposure, attributes.get("ExposureTimeUnit", "s")),
                )
            )

    def _start_reference(self, attributes: dict[str, str]) -> None:
        if len(self._image.annotations) < _MAX_ANNOTATIONS:
            self._image.annotations.append(attributes.get("ID", ""))

    def _start_annotation(self, attributes: dict[str, str]) -> None:
        modulo = attributes.get("Namespace", "").casefold().endswith("modulo")
        self._annotation = attributes.get("ID", "") if modulo else ""

    def _start_comment(self, attributes: dict[str, str]) -> None:
        self._comment = attributes.get("Namespace") == ANNOTATION

    def _start_along(self, attributes: dict[str, str]) -> None:
        axis = self._path[-1][-1]
        kind = clean(attributes.get("Type", "")).casefold()
        start, end = number(attributes.get("Start")), number(attributes.get("End"))
        step = number(attributes.get("Step", "1"))
        extent = 0  # unless its labels are counted
        if start is not None and end is not None and step:
            extent = whole(round((end - start) / step) + 1, 1, 1 << 31) or 0
        if self._annotation and len(self._modulo) < _MAX_ANNOTATIONS:
            self._modulo.setdefault(self._annotation, {})[axis] = (kind, extent)

    def _start_label(self, _: dict[str, str]) -> None:
        along = self._modulo.get(self._annotation, {})
        axis = self._path[-2][-1]
        if axis in along:
            along[axis] = (along[axis][0], along[axis][1] + 1)

    def _start_binary_only(self, attributes: dict[str, str]) -> None:
        self._document.companion = clean(attributes.get("MetadataFile", "")) or "another file"


def _index(attributes: dict[str, str], name: str, default: int = 0) -> int | None:
    """Read a small whole number; None if the attribute holds anything else."""
    text = attributes.get(name)
    if text is None:
        return default
    return int(text) if len(text) < 10 and text.isdecimal() else whole(text)


def _uuid(text: str) -> str:
    return text.strip().casefold().removeprefix("urn:uuid:")


_STARTS: dict[tuple[str, str], Callable[[_Reader, dict[str, str]], None]] = {
    ("OME", "Image"): _Reader._start_image,
    ("OME", "BinaryOnly"): _Reader._start_binary_only,
    ("Image", "StageLabel"): _Reader._start_stage,
    ("Image", "Pixels"): _Reader._start_pixels,
    ("Pixels", "Channel"): _Reader._start_channel,
    ("Pixels", "TiffData"): _Reader._start_data,
    ("Pixels", "Plane"): _Reader._start_plane,
    ("TiffData", "UUID"): _Reader._start_uuid,
    ("Image", "AnnotationRef"): _Reader._start_reference,
    ("StructuredAnnotations", "XMLAnnotation"): _Reader._start_annotation,
    ("StructuredAnnotations", "CommentAnnotation"): _Reader._start_comment,
    **{("Modulo", f"ModuloAlong{axis}"): _Reader._start_along for axis in "CZT"},
    **{(f"ModuloAlong{axis}", "Label"): _Reader._start_label for axis in "CZT"},
}
