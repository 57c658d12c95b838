"""The specification says what the code does."""

from __future__ import annotations

from pathlib import Path

import pytest

from napari_decant.standard.rules import main, table

SPEC = Path(__file__).parents[2] / "spec" / "array-standard.md"


def test_the_table_of_rules_is_that_of_the_program(tmp_path: Path) -> None:
    assert main([str(SPEC), "--check"]) == 0
    old = tmp_path / "old.md"
    old.write_text(
        SPEC.read_text(encoding="utf-8").replace("| M1 | MUST |", "| M1 | SHOULD |"), encoding="utf-8"
    )
    assert main([str(old), "--check"]) == 1
    assert main([str(old)]) == 0
    assert old.read_text(encoding="utf-8") == SPEC.read_text(encoding="utf-8")


@pytest.mark.parametrize("rule", ["M1", "C1", "S1", "Z1", "N1", "B1", "R1"])
def test_every_section_is_there(rule: str) -> None:
    assert f"| {rule} | MUST |" in table()
