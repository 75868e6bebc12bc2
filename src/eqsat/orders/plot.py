"""A plot of a comparison of orders, as an SVG without scripts: one dot for each order, in ascending order of cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

from eqsat.extraction.costs import figure
from eqsat.orders.rewriter import OrderRow

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 80, 160, 40, 50
COLOURS = {"order": "#3b6ea5", "phases": "#3b6ea5", "random": "#c77d1e"}
SATURATION, INPUT = "#2c8a4b", "#888888"


def draw(rows: Sequence[OrderRow], saturation: float, given: float) -> str:
    """Draw a comparison.

    Args:
        rows: The orders, from left to right. Those that did not settle are drawn hollow.
        saturation: The cost that saturation reaches, drawn as a line.
        given: The cost of the given graph, drawn as a line.

    Returns:
        The text of the SVG.
    """
    scale = _Scale([row.cost for row in rows] + [saturation, given])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
        f' width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="{TOP - 16}" font-size="14">Cost of the final graph by order of the rules</text>',
        *_axis(scale),
        *_rule(scale.y(given), "input", INPUT),
        *_rule(scale.y(saturation), "saturation", SATURATION),
        *(_dot(scale, index, len(rows), row) for index, row in enumerate(rows)),
        *_legend(rows),
        f'<text x="{LEFT}" y="{HEIGHT - 14}">{len(rows)} orders, cheapest first</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


class _Scale:
    """The vertical axis; it is logarithmic if all costs are positive."""

    def __init__(self, costs: Sequence[float]):
        self.logarithmic = min(costs) > 0
        places = [*map(self._place, costs)]
        low, high = min(places), max(places)
        margin = (high - low) * 0.1 or abs(high) * 0.1 or 1.0
        self.low, self.high = low - margin, high + margin

    def _place(self, cost: float) -> float:
        return math.log(cost) if self.logarithmic else cost

    def y(self, cost: float) -> float:
        return TOP + (self.high - self._place(cost)) / (self.high - self.low) * (HEIGHT - TOP - BOTTOM)

    def ticks(self) -> list[float]:
        """Costs at equal distances on the axis."""
        places = [self.low + (self.high - self.low) * step / 4 for step in range(5)]
        return [*map(math.exp, places)] if self.logarithmic else places

    def x(self, index: int, count: int) -> float:
        return LEFT + (index + 0.5) / count * (WIDTH - LEFT - RIGHT)


def _axis(scale: _Scale) -> list[str]:
    parts = [f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}" fill="none" stroke="black"/>']
    for cost in scale.ticks():
        y = scale.y(cost)
        parts.append(f'<path d="M{LEFT - 4} {y:.1f}h4" stroke="black"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{figure(cost, 4)}</text>')
    return parts


def _rule(y: float, label: str, colour: str) -> list[str]:
    return [
        f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{colour}" stroke-dasharray="6 3"/>',
        f'<text x="{WIDTH - RIGHT + 6}" y="{y + 4:.1f}" fill="{colour}">{label}</text>',
    ]


def _dot(scale: _Scale, index: int, count: int, row: OrderRow) -> str:
    colour = COLOURS[row.kind]
    fill = colour if row.stop == "settled" else "white"
    order = row.kind if row.kind == "random" else " > ".join(row.order)
    title = escape(f"{order}: {figure(row.cost)} ({row.stop})")
    place = f'cx="{scale.x(index, count):.1f}" cy="{scale.y(row.cost):.1f}"'
    return f'<circle {place} r="4" fill="{fill}" stroke="{colour}"><title>{title}</title></circle>'


def _legend(rows: Sequence[OrderRow]) -> list[str]:
    names = [(kind, COLOURS[kind], COLOURS[kind]) for kind in dict.fromkeys(row.kind for row in rows)]
    if any(row.stop != "settled" for row in rows):
        names.append(("did not settle", "white", "black"))
    parts = []
    for index, (name, fill, stroke) in enumerate(names):
        x, y = WIDTH - RIGHT + 12, HEIGHT - BOTTOM - 18 * index
        parts.append(f'<circle cx="{x}" cy="{y}" r="4" fill="{fill}" stroke="{stroke}"/>')
        parts.append(f'<text x="{x + 10}" y="{y + 4}">{name}</text>')
    return parts
