"""Line charts as SVG files.

No library that the project pins draws pictures without a browser, and a line chart is a few dozen lines of text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

PLOTS = Path(__file__).resolve().parents[1] / "build" / "benchmarks"
"""Where charts go, beside the benchmarks' JSON."""
Points = Sequence[tuple[float, float | None]]
"""(x, y); y is None where there is no figure: the line is broken there."""

_COLOURS = ("#1b6ca8", "#d1495b", "#2e8b57", "#8e5ea2", "#e08e45", "#555555", "#17a2b8")
_WIDTH, _HEIGHT = 620, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 150, 34, 48


def line_chart(
    path: Path, title: str, x_label: str, y_label: str, lines: Mapping[str, Points], *, shares: bool = False
) -> None:
    """Write a chart with a line per name; x from 0, y logarithmic. Without a single figure nothing is written.

    `shares`: of percentages, 0 among them: y linear from 0, x from the least one.
    """
    known = [(x, y) for points in lines.values() for x, y in points if y is not None and (y > 0 or (shares and y == 0))]
    if not known:
        return
    x_least, x_most = min(x for x, _ in known) if shares else 0.0, max(x for x, _ in known)
    x_span = (x_most - x_least) or 1.0
    y_most, low, high = max(y for _, y in known) or 1.0, 0, 0
    if not shares:
        low = math.floor(math.log10(min(y for _, y in known)))
        high = max(low + 1, math.ceil(math.log10(y_most)))

    def place(x: float, y: float) -> tuple[float, float]:
        width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
        down = (y_most - y) / y_most if shares else (high - math.log10(y)) / (high - low)
        return _LEFT + width * (x - x_least) / x_span, _TOP + height * down

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        f'font-size="12"><rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        _text(_WIDTH / 2, 18, title, "middle", size=14),
        _text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 10, x_label, "middle"),
        f'<g transform="rotate(-90 16 {_HEIGHT / 2})">{_text(16, _HEIGHT / 2, y_label, "middle")}</g>',
    ]
    marks = [(y_most * tick / 4, f"{y_most * tick / 4:.3g}") for tick in range(5)]
    if not shares:
        marks = [(10.0**exponent, f"1e{exponent}") for exponent in range(low, high + 1)]
    for value, label in marks:
        _, y = place(x_least, value)
        parts.append(_line(((_LEFT, y), (_WIDTH - _RIGHT, y)), "#dddddd"))
        parts.append(_text(_LEFT - 6, y + 4, label, "end"))
    for tick in range(5):
        value = x_least + x_span * tick / 4
        x, _ = place(value, y_most)
        parts.append(_line(((x, _HEIGHT - _BOTTOM), (x, _HEIGHT - _BOTTOM + 4)), "#333333"))
        parts.append(_text(x, _HEIGHT - _BOTTOM + 18, f"{value:.3g}", "middle"))
    for number, (name, points) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        for piece in _pieces(points, has_zeros=shares):
            placed = [place(*point) for point in piece]
            parts.append(_line(placed, colour, width=2))
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in placed]
        at = _TOP + 12 + 18 * number
        parts.append(_line(((_WIDTH - _RIGHT + 10, at - 4), (_WIDTH - _RIGHT + 30, at - 4)), colour, width=2))
        parts.append(_text(_WIDTH - _RIGHT + 36, at, name, "start"))
    path.write_text("\n".join([*parts, "</svg>"]) + "\n", encoding="utf-8")


def _pieces(points: Points, has_zeros: bool) -> list[list[tuple[float, float]]]:
    """The stretches of a line that have figures."""
    pieces: list[list[tuple[float, float]]] = [[]]
    for x, y in sorted(points, key=lambda point: point[0]):
        if y is None or y < 0 or (y == 0 and not has_zeros):
            pieces.append([])
        else:
            pieces[-1].append((x, y))
    return [piece for piece in pieces if piece]


def _line(points: Sequence[tuple[float, float]], colour: str, width: int = 1) -> str:
    spelled = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{spelled}" fill="none" stroke="{colour}" stroke-width="{width}"/>'


def _text(x: float, y: float, text: str, anchor: str, size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'


__all__ = ["PLOTS", "Points", "line_chart"]
