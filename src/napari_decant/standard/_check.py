"""`check`: an image, or everything in a store, against the standard."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from napari_decant.errors import BudgetExceeded, Cancelled, DecantError, FormatError, UnsupportedOperation
from napari_decant.ngff import ImageEntry, ListLimits, list_images
from napari_decant.progress import CancelToken, Progress, ProgressCallback, ignore_progress
from napari_decant.standard._facts import ImageFacts, collect_facts
from napari_decant.standard._report import CheckReport, ImageCheck
from napari_decant.standard._rule import Finding, Outcome, Rule, check_standard
from napari_decant.standard._rules import IMAGE_RULES, OPENS, STORE_RULES, VALID
from napari_decant.standard._rules_store import StoreFacts
from napari_decant.stores import FileMetadataReader, Store, open_store

__all__ = ["check"]

_PIXEL_IMAGES = 24
"""Images of one store whose chunks are read; of a plate's later fields only the metadata are."""


def check(
    location: str | os.PathLike[str] | Store,
    standard: str = "dca-0.1",
    *,
    image: str | None = None,
    whole: bool = False,
    progress: ProgressCallback = ignore_progress,
    cancel: CancelToken | None = None,
) -> CheckReport:
    """Check every image of a location against the array standard, and against OME-Zarr itself.

    Metadata are read in full; of the pixels a sample of blocks is compared with the level before, and a
    sample of chunks is decoded. What is wrong in one place does not keep the rest from being looked at.

    Parameters
    ----------
    location : str, path or Store
        A folder, a zip file (``.zarr.zip``, ``.ozx``, an archive), or an address; a store stays open.
    standard : {"dca-0.1", "dca-0.2"}
        ``dca-0.1`` is the document, ``dca-0.2`` asks for one small level instead of three and lets labels be
        decimated; see ``spec/array-standard.md``.
    image : str, optional
        Only the image at this path of the store.
    whole : bool
        Decode every chunk, and look at every shard.
    progress : callable, optional
        Told before every stored object that is looked at, and after every image.
    cancel : CancelToken, optional
        Looked at before every image, every rule and every stored object.

    Returns
    -------
    CheckReport
        A finding per rule and image. ``report.ok`` is false if a MUST is broken.

    Raises
    ------
    StorageError
        The location does not exist or cannot be read.
    UsageError
        There is no such standard.
    Cancelled
        ``cancel`` was set.
    """
    check_standard(standard)
    name = location.uri if isinstance(location, Store) else os.fspath(location)
    try:
        store = open_store(location)
    except (FormatError, UnsupportedOperation) as error:
        return CheckReport(name, standard, (), (_refused(str(error)),))
    try:
        return _check_store(store, name, standard, image, whole, progress, cancel)
    finally:
        if store is not location:
            store.close()


def _refused(reason: str) -> Finding:
    return Finding.of(OPENS, Outcome(False, reason, "an OME-Zarr image"))


def _check_store(
    store: Store,
    name: str,
    standard: str,
    image: str | None,
    whole: bool,
    progress: ProgressCallback,
    cancel: CancelToken | None,
) -> CheckReport:
    reader = FileMetadataReader()
    try:
        entries = list_images(
            store, image or "", reader=reader, limits=ListLimits(max_described=_PIXEL_IMAGES)
        )
        # an image that was named, with its labels; without one, all there is
        entries = [e for e in entries if image is None or e.path == image or e.kind == "labels"]
    except (FormatError, BudgetExceeded, UnsupportedOperation) as error:
        return CheckReport(name, standard, (), (_refused(str(error)),))
    if not entries:
        what = "Zarr image or array" if image is None else f"image {image[:80]!r}"
        return CheckReport(name, standard, (), (_refused(f"{store.uri} holds no {what}"),))
    cancel = cancel or CancelToken()
    checked = []
    unreadable: dict[str, str] = {}
    for number, entry in enumerate(entries):
        cancel.check()
        facts = collect_facts(
            store, entry, standard, reader=reader, pixels=whole or number < _PIXEL_IMAGES, whole=whole
        )
        facts.step = _step(progress, cancel)
        checked.append(_image_check(facts, entry, cancel))
        if facts.error:
            unreadable[facts.path] = facts.error
        progress(Progress("check", number + 1, len(entries), entry.name, "images"))
    at_store = _findings(StoreFacts(store, reader, unreadable), STORE_RULES, standard, cancel)
    return CheckReport(name, standard, tuple(checked), at_store)


def _step(progress: ProgressCallback, cancel: CancelToken) -> Callable[[str, int, int], None]:
    def step(path: str, number: int, count: int) -> None:
        cancel.check()
        progress(Progress("read", number, count, path, "objects"))

    return step


def _image_check(facts: ImageFacts, entry: ImageEntry, cancel: CancelToken) -> ImageCheck:
    rules = tuple(rule for rule in IMAGE_RULES if not facts.error or rule is VALID)
    findings = _findings(facts, rules, facts.standard, cancel)
    if facts.error:  # that one finding says why; every other rule could only say it again
        because = f"the image cannot be looked at (see {VALID.id})"
        skipped = Outcome(None, "", path=facts.path, because=because)
        others = [r for r in IMAGE_RULES if r is not VALID and facts.standard in r.standards]
        findings += tuple(Finding.of(rule, skipped) for rule in others)
    base = facts.base
    return ImageCheck(
        path=facts.path,
        name=entry.name,
        kind=facts.kind,
        version=facts.version,
        axes=tuple(facts.names),
        shape=base.shape if base else (),
        dtype=base.meta.native_dtype.name if base and base.meta else "",
        levels=len(facts.levels),
        findings=findings,
    )


def _findings(facts: Any, rules: tuple[Rule, ...], standard: str, cancel: CancelToken) -> tuple[Finding, ...]:
    found: list[Finding] = []
    for rule in rules:
        cancel.check()
        if standard not in rule.standards:
            continue
        try:
            found += [Finding.of(rule, outcome) for outcome in rule.check(facts)]
        except Cancelled:
            raise
        except DecantError as error:
            # reading failed underneath: B1 names the place, here the rule is only left open
            found.append(Finding.of(rule, Outcome(None, "", because=f"it could not be looked at: {error}")))
    return tuple(found)
