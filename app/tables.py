"""Tables for people: within the width of their terminal, a line for each row; what is piped is never cut.

Where a terminal is too narrow the frame goes first, then columns that say less, and then long texts are cut off.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from rich.box import HEAVY_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.console import inert

_FRAME, _GAP = 3, 2
"""Characters of a column beside its text, with a frame and without."""
_WRAPPED_LEAST = 24
"""Characters of texts that go on in the next line, in a pipe."""


class Fit(Enum):
    """What becomes of a text that is too long."""

    WHOLE = "stays whole"
    CUT = "is cut off at its end"
    WRAP = "goes on in the next line"


@dataclass(frozen=True)
class Column:
    """A column of texts.

    `least`: characters that it has at least. `spare`: columns of greater numbers are left out before those of lesser
    ones where all do not fit; 0: never.
    """

    name: str
    fit: Fit = Fit.CUT
    least: int = 8
    spare: int = 0
    is_number: bool = False

    @property
    def header_len(self) -> int:
        """A header goes on in the next line between words."""
        return max(map(cell_len, self.name.split()), default=0)


def number(name: str, *, spare: int = 0) -> Column:
    """A column of figures: never cut, at the right."""
    return Column(name, Fit.WHOLE, spare=spare, is_number=True)


def print_table(
    console: Console, columns: Sequence[Column], rows: Iterable[Sequence[str | Text]], *, title: str = ""
) -> None:
    """Print a table, and a line that says where the whole of it is when it is not here.

    Texts of cells are shown as they are, without markup and control characters.
    """
    cells = [[_text(cell) for cell in row] for row in rows]
    natural = [
        max([column.header_len, *(_longest(row[place]) for row in cells)]) for place, column in enumerate(columns)
    ]
    whole = [max(length, cell_len(column.name)) for column, length in zip(columns, natural, strict=True)]
    if not console.is_terminal:
        whole = _wrapped(columns, whole, console.width)
    if not console.is_terminal or sum(whole) + _FRAME * len(whole) + 1 <= console.width:
        needed = sum(whole) + _FRAME * len(whole) + 1
        _print(console, title, columns, whole, cells, is_framed=True, width=max(needed, console.width))
        return
    shown = _shown(columns, natural, console.width)
    widths = _narrowed([columns[place] for place in shown], [natural[place] for place in shown], console.width)
    kept = [[row[place] for place in shown] for row in cells]
    _print(console, title, [columns[place] for place in shown], widths, kept, is_framed=False, width=console.width)
    is_cut = any(
        columns[place].fit is not Fit.WRAP and natural[place] > width
        for place, width in zip(shown, widths, strict=True)
    )
    left_out = [column.name for place, column in enumerate(columns) if place not in shown and column.name]
    told = [f"without {', '.join(left_out)}"] if left_out else []
    told += ["long texts are cut off"] if is_cut else []
    if told:
        console.print(Text(f"For this width {'; '.join(told)}. What is piped has all.", style="dim"))


def _wrapped(columns: Sequence[Column], natural: Sequence[int], width: int) -> list[int]:
    """With a frame: texts that go on in the next line give as far as that is enough or sensible, and no others."""
    widths = list(natural)
    while sum(widths) + _FRAME * len(widths) + 1 > width:
        able = [
            place for place, column in enumerate(columns) if column.fit is Fit.WRAP and widths[place] > _WRAPPED_LEAST
        ]
        if not able:
            break
        widths[max(able, key=lambda place: widths[place])] -= 1
    return widths


def _text(cell: str | Text) -> Text:
    return Text(inert(cell)) if isinstance(cell, str) else cell


def _longest(cell: Text) -> int:
    return max(map(cell_len, cell.plain.split("\n")))


def _shown(columns: Sequence[Column], natural: Sequence[int], width: int) -> list[int]:
    """The places of those that there is room for."""
    shown = list(range(len(columns)))
    while len(shown) > 1:
        least = sum(_least(columns[place], natural[place]) for place in shown) + _GAP * (len(shown) - 1)
        spare = max(shown, key=lambda place: (columns[place].spare, place))
        if least <= width or not columns[spare].spare:
            break
        shown.remove(spare)
    return shown


def _least(column: Column, natural: int) -> int:
    return natural if column.fit is Fit.WHOLE else min(natural, max(column.least, column.header_len))


def _narrowed(columns: Sequence[Column], natural: Sequence[int], width: int) -> list[int]:
    """The widest give first, down to their least; if all of that is too much, whatever is the widest."""
    widths = list(natural)
    least = [_least(column, length) for column, length in zip(columns, natural, strict=True)]
    for bounds in (least, [1] * len(widths)):
        while sum(widths) + _GAP * (len(widths) - 1) > width:
            able = [place for place, bound in enumerate(bounds) if widths[place] > bound]
            if not able:
                break
            widths[max(able, key=lambda place: widths[place])] -= 1
    return widths


def _print(
    console: Console,
    title: str,
    columns: Sequence[Column],
    widths: Sequence[int],
    rows: Sequence[Sequence[Text]],
    *,
    is_framed: bool,
    width: int,
) -> None:
    if title:
        console.print(Text(inert(title), style="italic"))
    table = Table(box=HEAVY_HEAD if is_framed else None, pad_edge=is_framed, padding=(0, 1))
    for column, length in zip(columns, widths, strict=True):
        table.add_column(Text(inert(column.name)), width=length, justify="right" if column.is_number else "left")
    for row in rows:
        for column, cell in zip(columns, row, strict=True):
            cell.no_wrap = column.fit is not Fit.WRAP
            cell.overflow = "fold" if column.fit is Fit.WRAP else "ellipsis"
        table.add_row(*row)
    of_console = console.width
    console.width = width
    console.print(table)
    console.width = of_console


__all__ = ["Column", "Fit", "number", "print_table"]
