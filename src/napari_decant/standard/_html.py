"""A report as one HTML page: no script, nothing loaded, every text escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from napari_decant.standard._report import CheckReport
    from napari_decant.standard._rule import Finding

__all__ = ["render_html"]

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --fail: #c62828; --warn: #b26a00; --pass: #2e7d32; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; }
h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
td, th { border-top: 1px solid var(--line); padding: .4rem .6rem; text-align: left; vertical-align: top; }
td, h1, summary { overflow-wrap: anywhere; }
summary { cursor: pointer; }
small { color: #777; display: block; }
.s { font-weight: 600; white-space: nowrap; }
.fail { color: var(--fail); }
.warn { color: var(--warn); }
.pass { color: var(--pass); }
.skip { color: #777; }
"""
_WORDS = {"fail": "broken", "warn": "not met", "pass": "holds", "skip": "not checked"}
_SHOWN_IMAGES = 200


def render_html(report: CheckReport) -> str:
    """The page.

    Parameters
    ----------
    report : CheckReport
    """
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>{escape(report.standard)}: {escape(report.location)}</title>",
        f"<style>{_STYLE}</style></head><body>",
        f"<h1 class='{'pass' if report.ok else 'fail'}'>{escape(report.sentence())}</h1>",
    ]
    if len(report.images) != 1:
        parts += ["<h2>All images</h2>", _head(("Rule", "Verdict", "First example"))]
        for row in report.summary():
            counts = ", ".join(f"{n:,} {_WORDS[s]}" for s, n in row.counts.items())
            parts.append(
                f"<tr><td><b>{escape(row.rule)}</b> {row.keyword}<small>{escape(row.sentence)}</small></td>"
                f"<td class='s {row.status}'>{escape(counts)}</td><td>{_value(row.example)}</td></tr>"
            )
        parts.append("</table>")
    if report.findings:
        parts += ["<h2>Store</h2>", _table(report.findings)]
    worst_first = sorted(report.images, key=lambda image: image.ok)
    for image in worst_first[:_SHOWN_IMAGES]:
        title = f"{escape(image.path or '/')}: {escape(image.title)}"
        shown = "open" if len(report.images) == 1 or not image.ok else ""
        parts.append(f"<details {shown}><summary><b>{title}</b></summary>{_table(image.findings)}</details>")
    if len(report.images) > _SHOWN_IMAGES:
        parts.append(f"<p>{len(report.images) - _SHOWN_IMAGES:,} more images are summarised above.</p>")
    parts.append("</body></html>\n")
    # a name may have half of a character, which no file can hold
    return "\n".join(parts).encode("utf-8", "replace").decode()


def _head(names: tuple[str, ...]) -> str:
    return "<table><tr>" + "".join(f"<th>{name}</th>" for name in names) + "</tr>"


def _value(finding: Finding) -> str:
    path = f"<small>{escape(finding.path)}</small>" if finding.path else ""
    wanted = f"<small>wanted: {escape(finding.wanted)}</small>" if finding.wanted else ""
    return f"{escape(finding.found)}{wanted}{path}"


def _table(findings: tuple[Finding, ...]) -> str:
    rows = [_head(("Rule", "Verdict", "Value", "What to do"))]
    for f in findings:
        advice = f"because {f.because}" if f.because else f.fix
        rows.append(
            f"<tr><td><b>{escape(f.rule)}</b> {f.keyword}<small>{escape(f.sentence)}</small></td>"
            f"<td class='s {f.status}'>{_WORDS[f.status]}</td><td>{_value(f)}</td>"
            f"<td>{escape(advice)}</td></tr>"
        )
    rows.append("</table>")
    return "".join(rows)
