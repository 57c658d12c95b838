"""What stands below a row of a table: a part of very many lines, and only what is not whole unfolded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from napari_decant.gui._row import Mark, Row
from napari_decant.gui._table import Table

__all__ = ["SHOWN", "cut", "put_below", "unfold"]

SHOWN = 500
"""Lines of one kind below one row."""

_GOOD = (Mark.NONE, Mark.WHOLE, Mark.FOLLOWS, Mark.SKIPPED, Mark.RESTORED, Mark.EXPORTED, Mark.COMPLETE)


def cut(rows: Iterable[Row], left: int) -> list[Row]:
    """The rows, with a line that says how many more there are."""
    shown = list(rows)
    return [*shown, Row(f"and {left:,} more")] if left > 0 else shown


def put_below(table: Table, row: Row, children: Sequence[Row]) -> None:
    """Replace what stands below a row, and unfold what is not whole."""
    for child in children:
        for each in child.walk():
            each.number_children()
    table.rows.set_children(row, children)
    unfold(table, row)


def unfold(table: Table, row: Row) -> None:
    """Unfold a row and those below it, as far as they are not whole."""
    if row.children and row.mark not in _GOOD:
        table.setExpanded(table.rows.index_of(row), True)
        for child in row.children:
            unfold(table, child)
