"""Rules about a store as a whole: labels, plates, and single files (RFC-9 of OME-NGFF)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from napari_decant.errors import DecantError
from napari_decant.ngff._node import Node
from napari_decant.standard._facts import ImageFacts, read_each
from napari_decant.standard._rule import Outcome, RuleBook, one
from napari_decant.standard._yaozarrs import validate
from napari_decant.stores import FileMetadataReader, Store, ZipStore, find_roots, join_key, unsafe_name_reason

__all__ = ["StoreFacts", "labels", "plates", "single_file"]

labels = RuleBook("Labels")
plates = RuleBook("High content screening")
single_file = RuleBook("Single file (RFC-9)")

_MOST_LABELS, _MOST_WELLS = 1_000, 10_000


@dataclass(eq=False)
class StoreFacts:
    """A store and its root group.

    Attributes
    ----------
    store : Store
    reader : FileMetadataReader
    unreadable : dict of str to str
        Images that are listed but cannot be looked at, by path, and why.
    """

    store: Store
    reader: FileMetadataReader = field(default_factory=FileMetadataReader)
    unreadable: dict[str, str] = field(default_factory=dict)

    @property
    def zip(self) -> ZipStore | None:
        """The store, if it is a zip file."""
        return self.store if isinstance(self.store, ZipStore) else None

    def node(self, path: str) -> Node | str | None:
        """What stands at a path; the reason where it cannot be read."""
        return self.nodes([path])[path]

    def nodes(self, paths: Sequence[str]) -> dict[str, Node | str | None]:
        """What stands at each path, read in one go; the reason where it cannot be read."""
        reasons = {path: unsafe_name_reason(path) if path else None for path in paths}
        safe = [path for path, reason in reasons.items() if reason is None]
        found = read_each(self.store, safe, None, self.reader)
        return {
            path: found[path] if reason is None else f"the path {path[:80]!r} {reason}"
            for path, reason in reasons.items()
        }

    @property
    def root(self) -> str:
        """Where the outermost Zarr group is; the store's own root if that is not clear."""
        try:
            roots = find_roots(self.store)
        except DecantError:
            return ""
        return roots[0] if len(roots) == 1 else ""


def _child_paths(value: Any) -> list[str]:
    items = value if isinstance(value, list) else []
    return [item["path"] for item in items if isinstance(item, dict) and isinstance(item.get("path"), str)]


@labels(
    "L1",
    "SHOULD",
    "Labels stand in the group 'labels' of their image, as OME-Zarr 0.5 lays them out.",
    test="image/labels lists the names, and each is an image with multiscales",
    fix="List the label images in the attributes of the labels group; export does.",
)
def label_group(facts: ImageFacts) -> Iterator[Outcome]:
    """L1."""
    if facts.is_labels and not facts.in_labels_group:
        because = "there is no image here that they could belong to"
        yield Outcome(
            False, "labels on their own", "labels/NAME in the group of an image", facts.path, because
        )
        return
    if facts.node is None or facts.node.array is not None or facts.is_labels:
        yield Outcome(None, "", path=facts.path, because="it is no image that could have labels")
        return
    path = join_key(facts.path, "labels")
    look = StoreFacts(facts.store)
    group = look.node(path)
    if group is None:
        listable = facts.store.listable and any(facts.store.list_dir(path))
        if listable:
            yield Outcome(False, "a folder 'labels' that is no Zarr group", "a Zarr group", path)
        else:
            yield Outcome(None, "", path=facts.path, because="there are no labels")
        return
    if isinstance(group, str):
        yield Outcome(False, group, "a labels group", path)
        return
    names = group.ome.get("labels")
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
        yield Outcome(False, "no list of names", "the names of the label images", path)
        return
    for name in names[:_MOST_LABELS]:
        child = look.node(join_key(path, name)) if unsafe_name_reason(name) is None else "an unsafe name"
        if not isinstance(child, Node) or not isinstance(child.ome.get("multiscales"), list):
            reason = child if isinstance(child, str) else "no image"
            yield Outcome(False, f"{name[:80]!r} is listed, but there is {reason}", "an image", path)
            return
    yield Outcome(True, ", ".join(names[:5]) or "none", path=path)


@plates(
    "P1",
    "SHOULD",
    "Plates and wells follow OME-Zarr 0.5.",
    test="yaozarrs models of plate and well, and every well and field that is listed exists",
    fix="Correct the metadata of the plate; export writes them again.",
)
def plate(facts: StoreFacts) -> Iterator[Outcome]:
    """P1."""
    root = facts.root
    node = facts.node(root)
    if not isinstance(node, Node) or not isinstance(node.ome.get("plate"), dict):
        yield Outcome(None, "", path=root, because="it is no plate")
        return
    plate_meta = node.ome["plate"]
    version = node.ome.get("version", plate_meta.get("version"))
    if version not in ("0.4", "0.5"):
        yield Outcome(False, f"version {version}", "0.5", root)
        return
    faults = list(validate(version, "plate", node.attributes, node.ome).errors)
    paths = _child_paths(plate_meta.get("wells"))
    wells = facts.nodes([join_key(root, path) for path in paths[:_MOST_WELLS]])
    fields = 0
    for full, well in wells.items():
        if not isinstance(well, Node):
            faults.append(f"the well {full!r} is listed, but {well or 'not there'}")
            continue
        meta = well.ome.get("well")
        if not isinstance(meta, dict):
            faults.append(f"the group {full!r} has no well metadata")
            continue
        faults += [f"{full}: {e}" for e in validate(version, "well", well.attributes, well.ome).errors]
        listed = [join_key(full, path) for path in _child_paths(meta.get("images"))]
        faults += [facts.unreadable[path] for path in listed if path in facts.unreadable]
        fields += len(listed)
    yield from one(Outcome(False, fault, f"a plate of OME-Zarr {version}", root) for fault in faults)
    if not faults and version != "0.5":
        yield Outcome(False, f"a plate of OME-Zarr {version}", "a plate of OME-Zarr 0.5", root)
    elif not faults:
        yield Outcome(True, f"{len(paths)} wells, {fields} fields", path=root)


NOT_ZIPPED = "it is no zip file"


@single_file(
    "R1",
    "MUST",
    "The root of the zip file is the root of the OME-Zarr, and there is only one.",
    test="zarr.json (or .zgroup) at the root of the zip file",
    fix="Zip the contents of the folder, not the folder; or export the image to .ozx.",
)
def at_the_root(facts: StoreFacts) -> Iterator[Outcome]:
    """R1."""
    if facts.zip is None:
        yield Outcome(None, "", because=NOT_ZIPPED)
        return
    try:
        roots = find_roots(facts.store)
    except DecantError as error:
        yield Outcome(False, str(error), "one root")
        return
    where = ", ".join(repr(r) for r in roots[:3]) or "nothing"
    yield Outcome(
        roots == [""], "the root" if roots == [""] else f"{where} inside", "the root of the zip file"
    )


@single_file(
    "R2",
    "SHOULD",
    "zarr.json of the root is the first entry, and the other zarr.json follow in breadth-first order.",
    test="entries begin with every zarr.json, by depth",
    fix="Export the image to .ozx.",
)
def json_first(facts: StoreFacts) -> Iterator[Outcome]:
    """R2."""
    if facts.zip is None or not facts.store.exists("zarr.json"):
        because = NOT_ZIPPED if facts.zip is None else "it has no zarr.json at its root"
        yield Outcome(None, "", because=because)
        return
    in_directory = facts.zip.entries.names
    headers = facts.zip.entries.header.tolist()
    in_file = [name for _, name in sorted(zip(headers, in_directory, strict=True))]
    for names, what in ((in_file, "file"), (in_directory, "directory")):
        count = sum(_is_document(name) for name in names)
        depths = [name.count("/") for name in names[:count]]
        first = names[0] if names else "nothing"
        if first != "zarr.json" or not all(map(_is_document, names[:count])) or depths != sorted(depths):
            yield Outcome(False, f"the {what} begins with {first!r}", "every zarr.json first, by depth")
            return
    yield Outcome(True, "every zarr.json comes first")


def _is_document(name: str) -> bool:
    return name == "zarr.json" or name.endswith("/zarr.json")


@single_file(
    "R3",
    "SHOULD",
    "Entries are stored, not compressed once more by the zip file.",
    test="method == 0 for every entry",
    fix="Zip with compression level 0; or export the image to .ozx.",
)
def stored_entries(facts: StoreFacts) -> Iterator[Outcome]:
    """R3."""
    if facts.zip is None:
        yield Outcome(None, "", because=NOT_ZIPPED)
        return
    count = int((facts.zip.entries.method != 0).sum())
    yield Outcome(count == 0, f"{count:,} of {len(facts.zip.entries):,} entries compressed", "0")


@single_file(
    "R4",
    "SHOULD",
    "The comment of the zip file names the version of OME-Zarr.",
    test="json(comment)['ome']['version'] is text",
    fix="Export the image to .ozx.",
)
def comment(facts: StoreFacts) -> Iterator[Outcome]:
    """R4."""
    if facts.zip is None or not facts.store.exists("zarr.json"):
        because = NOT_ZIPPED if facts.zip is None else "it is Zarr v2, which RFC-9 does not name"
        yield Outcome(None, "", because=because)
        return
    text = facts.zip.entries.comment.rstrip(b"\0").decode("utf-8", "replace")
    try:
        value = json.loads(text)
        ome = value.get("ome") if isinstance(value, dict) else None
        version = ome.get("version") if isinstance(ome, dict) else None
    except (ValueError, RecursionError):
        version = None
    wanted = '{"ome": {"version": "0.5"}}'
    yield Outcome(isinstance(version, str), text[:100] or "no comment", wanted)


@single_file(
    "R5",
    "SHOULD",
    "The name of a zipped OME-Zarr ends with .ozx.",
    test="name.endswith('.ozx')",
    fix="Rename the file.",
)
def suffix(facts: StoreFacts) -> Iterator[Outcome]:
    """R5."""
    if facts.zip is None or not facts.store.exists("zarr.json"):
        because = NOT_ZIPPED if facts.zip is None else "it is Zarr v2, for which .ozx is not meant"
        yield Outcome(None, "", because=because)
        return
    name = facts.store.uri.rstrip("/").rpartition("/")[2]
    yield Outcome(name.lower().endswith(".ozx"), name, ".ozx")


@single_file(
    "R6",
    "SHOULD",
    "The zip file uses the ZIP64 extension, which has room for more than 4 GB.",
    test="a ZIP64 end record, or entries that need version 4.5",
    fix="Export the image to .ozx.",
)
def zip64(facts: StoreFacts) -> Iterator[Outcome]:
    """R6."""
    if facts.zip is None or not facts.store.exists("zarr.json") or not len(facts.zip.entries):
        because = NOT_ZIPPED if facts.zip is None else "it is Zarr v2, which RFC-9 does not name"
        yield Outcome(None, "", because=because)
        return
    entries = facts.zip.entries
    end = entries.tail.rfind(b"PK\5\6")
    record = entries.tail[max(0, end - 20) : end - 16] == b"PK\6\7"
    header = facts.zip.read_file("zip", int(entries.header.min()), 6)
    needed = int.from_bytes(header[4:6], "little")
    found = "a ZIP64 end record" if record else f"entries that need version {needed / 10}"
    yield Outcome(record or needed >= 45, found, "ZIP64")
