"""Curves over the iterations of a saturation, as SVG in the page's colours."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.markup import Markup, number, text

WIDTH, HEIGHT = 520, 220
LEFT, RIGHT, TOP, BOTTOM = 64, 84, 16, 34
TICKS = 4


def curves(title: str, series: Sequence[tuple[str, Sequence[float]]]) -> Markup:
    """A line for each series, over iterations 1, 2, …, from zero up.

    Args:
        title: what is shown.
        series: names and values, all of one length.
    """
    count = max((len(values) for _, values in series), default=0)
    top = max((value for _, values in series for value in values), default=0.0) or 1.0

    def x(index: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (index / (count - 1) if count > 1 else 0.5)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top

    parts = [_tick(y(top * step / TICKS), top * step / TICKS) for step in range(TICKS + 1)]
    labels: list[float] = []
    for index, (name, values) in enumerate(series):
        points = [(x(step), y(value)) for step, value in enumerate(values)]
        if points:
            path = "L".join(f"{px:.1f} {py:.1f}" for px, py in points)
            parts.append(f'<path class="line series{index}" d="M{path}"/>')
            if count <= 60:
                parts += [f'<circle class="series{index}" cx="{px:.1f}" cy="{py:.1f}" r="2.5"/>' for px, py in points]
            place = points[-1][1] + 4
            while any(abs(place - other) < 14 for other in labels):
                place += 14
            labels.append(place)
            parts.append(f'<text class="series{index}" x="{points[-1][0] + 8:.1f}" y="{place:.1f}">{text(name)}</text>')
    last = f'<text x="{x(count - 1):.1f}" y="{HEIGHT - 14}" text-anchor="end">{count}</text>' if count > 1 else ""
    parts.append(f'<text x="{x(0):.1f}" y="{HEIGHT - 14}">1</text>{last}')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.1f}" y="{HEIGHT - 4}" text-anchor="middle">iteration</text>')
    inside = "".join(parts)
    return Markup(
        f'<figure class="curve"><figcaption>{text(title)}</figcaption><svg role="img" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}"><title>{text(title)}</title>{inside}</svg></figure>'
    )


def _tick(place: float, value: float) -> str:
    return (
        f'<path class="grid" d="M{LEFT} {place:.1f}H{WIDTH - RIGHT}"/>'
        f'<text x="{LEFT - 6}" y="{place + 4:.1f}" text-anchor="end">{text(number(value))}</text>'
    )
