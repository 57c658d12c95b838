"""Checks against the array standard for the window: what is there, what is wrong with it, and a report."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from napari_decant import standard as rules
from napari_decant.gui._words import count
from napari_decant.gui.jobs._rows import Checked, CheckLine, left_out
from napari_decant.gui.jobs._worker import Context
from napari_decant.standard import CheckReport, Finding, ImageCheck, RuleSummary
from napari_decant.stores._atomic import AtomicFile, make_folder
from napari_decant.stores._partial import is_partial_name

__all__ = ["check", "stores_below", "write_checks"]

_NODES = ("zarr.json", ".zgroup", ".zattrs", ".zarray")
_ZIPS = (".zip", ".ozx")
_ONE_BY_ONE = 8  # images; of more, the rules are summarised
_SHOWN = 200
_ORDER = ("fail", "warn", "skip", "pass")


# --- what is there ----------------------------------------------------------------------------------------


def _is_store(path: Path) -> bool:
    return path.suffix.lower() == ".zarr" or any((path / name).exists() for name in _NODES)


def stores_below(context: Context, paths: Sequence[Path]) -> Iterator[Path]:
    """What can be checked at and below paths; of the rest, `LeftOut` is handed out as a part."""
    rest: list[tuple[Path, str]] = []
    for path in paths:
        context.cancel.check()
        if not path.is_dir():
            fits = path.name.lower().endswith(_ZIPS)
            if fits and os.path.lexists(path):
                yield path
            else:
                rest.append((path, "file" if os.path.lexists(path) else "gone"))
            continue
        if _is_store(path):
            yield path
            continue
        found = 0
        for root, folders, names in os.walk(path):
            context.cancel.check()
            here = Path(root)
            inside = [name for name in sorted(folders) if not is_partial_name(name)]
            stores = [name for name in inside if _is_store(here / name)]
            folders[:] = [name for name in inside if name not in stores]
            files = [name for name in sorted(names) if name.lower().endswith(_ZIPS)]
            found += len(stores) + len(files)
            yield from (here / name for name in (*stores, *files))
        if not found:
            rest.append((path, "empty"))
    for part in left_out(rest):
        context.part(part)


# --- checking ---------------------------------------------------------------------------------------------


def check(context: Context, location: str, standard: str, whole: bool) -> Checked:
    """Check every image of a location; what the table shows and the reports are made here, not there."""
    report = rules.check(location, standard, whole=whole, progress=context.progress, cancel=context.cancel)
    name = location.rstrip("/\\").replace("\\", "/").rpartition("/")[2] or location
    return Checked(
        location=location,
        name=name,
        standard=standard,
        images=len(report.images),
        failed=report.count("fail"),
        warned=report.count("warn"),
        sentence=report.sentence().replace(location, name, 1),
        lines=tuple(_lines(report)),
        text=report.to_text(),
        html=zlib.compress(report.to_html().encode(), 1),
        json=zlib.compress(json.dumps(report.to_json(), indent=1).encode(), 1),
    )


def _lines(report: CheckReport) -> Iterator[CheckLine]:
    if len(report.images) > _ONE_BY_ONE:
        yield from _by_rule(report)
        return
    if len(report.images) == 1:
        yield from _findings((*report.findings, *report.images[0].findings))
        return
    for image in report.images:
        yield _image(image)
    yield from _findings(report.findings)


def _image(image: ImageCheck) -> CheckLine:
    failed, warned = (sum(f.status == status for f in image.findings) for status in ("fail", "warn"))
    status = "fail" if failed else "warn" if warned else "pass"
    title = f"{image.path or '/'}  {image.title}"
    return CheckLine(title, "image", _tally(failed, warned), status, "", tuple(_findings(image.findings)))


def _tally(failed: int, warned: int) -> str:
    words = [f"{count(failed, 'rule')} broken"] * bool(failed)
    words += [f"{count(warned, 'recommendation')} not met"] * bool(warned)
    return ", ".join(words) or "every rule holds"


def _findings(findings: Iterable[Finding]) -> Iterator[CheckLine]:
    """What is not as it should be, then one line for what holds and one for what was not looked at."""
    by_status: dict[str, list[CheckLine]] = {status: [] for status in _ORDER}
    for finding in findings:
        by_status[finding.status].append(_line(finding))
    yield from (*by_status["fail"], *by_status["warn"])
    if by_status["pass"]:
        held = f"{count(len(by_status['pass']), 'rule')} hold" + "s" * (len(by_status["pass"]) == 1)
        yield CheckLine(held, "", "", "pass", "", tuple(by_status["pass"]))
    if by_status["skip"]:
        off = f"{count(len(by_status['skip']), 'rule')} not applied"
        yield CheckLine(off, "", "", "skip", "Each says why it could not be.", tuple(by_status["skip"]))


def _line(finding: Finding) -> CheckLine:
    place = f"{finding.path}: " if finding.path else ""
    found = f"{place}{finding.found}" if finding.found else place.removesuffix(": ")
    todo = f"because {finding.because}" if finding.because else finding.fix
    detail = [f"{finding.rule}, {finding.keyword}: {finding.sentence}"]
    detail += [f"Found: {found}"] if found else []
    detail += [f"Wanted: {finding.wanted}"] if finding.wanted and finding.status != "pass" else []
    detail += [todo[:1].upper() + todo[1:]] if todo else []
    words = (", " if finding.because else ". ").join(part.rstrip(".") for part in (found, todo) if part)
    title = f"{finding.rule}  {finding.sentence}"
    return CheckLine(title, "rule", words, finding.status, "\n".join(detail))


def _by_rule(report: CheckReport) -> Iterator[CheckLine]:
    """Of a plate or a large collection: a line a rule, with the places below it."""
    named: dict[str, list[Finding]] = {}
    for finding in report.every:
        named.setdefault(finding.rule, []).append(finding)
    summaries = sorted(report.summary(), key=lambda row: _ORDER.index(row.status))
    held: list[CheckLine] = []
    for row in summaries:
        line = _summary_line(row, named[row.rule])
        if row.status in ("fail", "warn"):
            yield line
        else:
            held.append(line)
    if held:
        yield CheckLine(f"{count(len(held), 'rule')} without anything to do", "", "", "pass", "", tuple(held))


def _summary_line(row: RuleSummary, findings: Sequence[Finding]) -> CheckLine:
    same = [finding for finding in findings if finding.status == row.status]
    first = _line(row.example)
    if len(same) == 1:
        return first
    below = [_line(finding) for finding in same[:_SHOWN]]
    below = [CheckLine(f.path or "/", "image", line.found, f.status, line.detail)
             for f, line in zip(same, below, strict=False)]  # fmt: skip
    words = f"{len(same):,} of {len(findings):,} places, first {first.found}"
    rest = len(same) - len(below)
    return CheckLine(first.name, "rule", words, row.status, first.detail, tuple(below), rest)


# --- reports ----------------------------------------------------------------------------------------------


def write_checks(context: Context, reports: Sequence[Checked], folder: Path) -> list[Path]:
    """Write each report as a page and as JSON; where one is already, the new one gets a number."""
    make_folder(folder)
    written = []
    for report in reports:
        context.cancel.check()
        stem = _free(folder, f"{report.name.replace(':', '_')}.check")
        for suffix, data in ((".html", report.html), (".json", report.json)):
            target = folder / f"{stem}{suffix}"
            with AtomicFile(target) as output:
                output.file.write(zlib.decompress(data))
                output.commit()
            written.append(target)
    return written


def _free(folder: Path, stem: str) -> str:
    def taken(name: str) -> bool:
        return any(os.path.lexists(folder / f"{name}{suffix}") for suffix in (".html", ".json"))

    number, name = 1, stem
    while taken(name):
        number += 1
        name = f"{stem} {number}"
    return name
