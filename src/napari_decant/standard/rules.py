"""Write the table of rules into the specification: ``python -m napari_decant.standard.rules FILE``."""

from __future__ import annotations

import sys
from pathlib import Path

from napari_decant.standard._rules import RULES

__all__ = ["main", "table"]

BEGIN, END = "<!-- rules: begin -->", "<!-- rules: end -->"


def table() -> str:
    """Return every rule as Markdown, a table for each section."""
    parts: list[str] = []
    section = ""
    for rule in RULES:
        if rule.section != section:
            section = rule.section
            parts += [
                "",
                f"### {section}",
                "",
                "| rule | | sentence | what is computed |",
                "|---|---|---|---|",
            ]
        only = "" if len(rule.standards) > 1 else f" ({rule.standards[0]} only)"
        test = rule.test.replace("|", "\\|")
        parts.append(f"| {rule.id} | {rule.keyword} | {rule.sentence}{only} | `{test}` |")
    return "\n".join(parts) + "\n"


def main(arguments: list[str]) -> int:
    """Replace the table in a file, or with ``--check`` compare it; 1 is returned if it differs."""
    path = Path(arguments[0])
    text = path.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    wanted = f"{head}{BEGIN}\n{table()}\n{END}{tail}"
    if "--check" in arguments:
        return 0 if text == wanted else 1
    path.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
