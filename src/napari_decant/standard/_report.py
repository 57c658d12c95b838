"""What `check` returns: findings, grouped for people, as text, JSON and one HTML page."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from napari_decant.standard._html import render_html
from napari_decant.standard._rule import Finding, Status

__all__ = ["CheckReport", "ImageCheck", "RuleSummary"]

_WORST: tuple[Status, ...] = ("fail", "warn", "pass", "skip")
_MARKS = {"fail": "FAIL", "warn": "warn", "pass": "pass", "skip": "-"}


@dataclass(frozen=True, slots=True)
class ImageCheck:
    """Findings for one image.

    Attributes
    ----------
    path, name : str
        Within the store, and for people.
    kind : {"image", "labels", "array"}
    version : str or None
        OME-Zarr version as declared.
    axes : tuple of str
    shape : tuple of int
        Of the largest level.
    dtype : str
    levels : int
    findings : tuple of Finding
        In the order of the rules.
    """

    path: str
    name: str
    kind: str
    version: str | None
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    levels: int
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether no MUST is broken."""
        return not any(f.status == "fail" for f in self.findings)

    @property
    def title(self) -> str:
        """The image in one line."""
        sizes = " ".join(f"{a}{n}" for a, n in zip(self.axes, self.shape, strict=False))
        what = f"{self.kind} {self.name}".strip()
        return f"{what}: {sizes or self.shape or 'unreadable'} {self.dtype}, {self.levels} level(s)"


@dataclass(frozen=True, slots=True)
class RuleSummary:
    """One rule over all images of a report.

    Attributes
    ----------
    rule, keyword, sentence : str
    status : {"fail", "warn", "pass", "skip"}
        The worst.
    counts : dict
        Findings by status.
    example : Finding
        The first of the worst.
    """

    rule: str
    keyword: str
    sentence: str
    status: Status
    counts: dict[str, int]
    example: Finding


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Everything that was found at one location.

    Attributes
    ----------
    location : str
    standard : str
        Version of the standard.
    images : tuple of ImageCheck
    findings : tuple of Finding
        About the store as a whole: opening it, plates, single files.
    """

    location: str
    standard: str
    images: tuple[ImageCheck, ...]
    findings: tuple[Finding, ...]

    @property
    def every(self) -> tuple[Finding, ...]:
        """All findings, those about the store first."""
        return (*self.findings, *(f for image in self.images for f in image.findings))

    @property
    def ok(self) -> bool:
        """Whether no MUST is broken."""
        return not any(f.status == "fail" for f in self.every)

    def count(self, status: Status) -> int:
        """How many findings have a status."""
        return sum(f.status == status for f in self.every)

    def failed(self) -> list[Finding]:
        """Every broken MUST."""
        return [f for f in self.every if f.status == "fail"]

    def summary(self) -> list[RuleSummary]:
        """One row a rule, in the order of the rules."""
        by_rule: dict[str, list[Finding]] = {}
        for finding in self.every:
            by_rule.setdefault(finding.rule, []).append(finding)
        rows = []
        for rule, findings in by_rule.items():
            worst = next(s for s in _WORST if any(f.status == s for f in findings))
            example = next(f for f in findings if f.status == worst)
            counts: dict[str, int] = dict(Counter(f.status for f in findings))
            rows.append(RuleSummary(rule, example.keyword, example.sentence, worst, counts, example))
        return rows

    def sentence(self) -> str:
        """The verdict."""
        count = len(self.images)
        what = f"{count:,} images" if count != 1 else "one image"
        failed, warned = self.count("fail"), self.count("warn")
        unmet = f"{warned:,} recommendation{'s are' if warned != 1 else ' is'} not met"
        if failed:
            rules = f"{failed:,} rule{'s' if failed != 1 else ''} that must hold"
            are = "are" if failed != 1 else "is"
            return f"{self.location} does not follow {self.standard}: {rules} {are} broken, {unmet} ({what})"
        if warned:
            held = f"{self.location} follows {self.standard}: every rule that must hold does"
            return f"{held}; {unmet} ({what})"
        return f"{self.location} follows {self.standard} ({what})"

    def to_text(self, *, everything: bool = False) -> str:
        """The report for a terminal: what is not as it should be, or everything.

        Parameters
        ----------
        everything : bool
            Also rules that hold and rules that do not apply.
        """
        lines = [self.sentence()]
        shown = [s for s in self.summary() if everything or s.status in ("fail", "warn")]
        for row in shown:
            lines.append(f"  {_MARKS[row.status]} {row.rule} {row.keyword}: {row.sentence}")
            lines += _details(row, len(self.images))
        if len(self.images) > 1:
            broken = [image for image in self.images if not image.ok]
            lines.append(f"  {len(self.images) - len(broken):,} of {len(self.images):,} images break no MUST")
            lines += [f"    {image.path or '/'}: {image.title}" for image in broken[:20]]
            if len(broken) > 20:
                lines.append(f"    and {len(broken) - 20:,} more")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "location": self.location,
            "standard": self.standard,
            "ok": self.ok,
            "counts": dict(Counter(f.status for f in self.every)),
            "store": [asdict(f) for f in self.findings],
            "images": [asdict(image) | {"ok": image.ok} for image in self.images],
        }

    def to_html(self) -> str:
        """The report as one page that needs nothing else."""
        return render_html(self)


def _details(row: RuleSummary, images: int) -> list[str]:
    example = row.example
    where = f"{example.path or '/'}: "
    wanted = f"; wanted: {example.wanted}" if example.wanted else ""
    lines = []
    if example.found or example.wanted:
        lines.append(f"       {where}{example.found}{wanted}")
    bad = row.counts.get(row.status, 0)
    if bad > 1:
        lines.append(f"       {bad:,} findings in {images:,} image(s); the first is shown")
    if example.because:
        lines.append(f"       because {example.because}")
    elif example.fix:
        lines.append(f"       {example.fix}")
    return lines
