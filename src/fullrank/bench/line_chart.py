"""Line charts with logarithmic axes as SVG, for pages without scripts."""

import math
from collections.abc import Mapping, Sequence
from html import escape

Line = Sequence[tuple[float, float]]

_COLORS = ("#0b5fa5", "#56a0d8", "#999999", "#c2571a", "#2f8f4e", "#8a4fb0")
_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 300, 220, 60, 30, 90


def line_chart(x_title: str, panels: Mapping[str, Mapping[str, Line]]) -> str:
    """Draw panels side by side.

    Args:
        x_title: Title of the horizontal axis.
        panels: The lines of each panel, as points by name, by title of the panel; the
            legend shows the names of the first panel.
    """
    names = list(next(iter(panels.values())))
    width = len(panels) * (_WIDTH + _GAP)
    height = _TOP + _HEIGHT + 50 + 18 * ((len(names) + 2) // 3)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for place, (title, lines) in enumerate(panels.items()):
        parts += _panel(_LEFT + place * (_WIDTH + _GAP), x_title, title, lines)
    for i, name in enumerate(names):
        x, y = _LEFT + i % 3 * 230, _TOP + _HEIGHT + 50 + i // 3 * 18
        parts.append(
            f'<rect x="{x}" y="{y}" width="14" height="4" fill="{_color(i)}"/>'
        )
        parts.append(f'<text x="{x + 20}" y="{y + 6}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _panel(left: int, x_title: str, title: str, lines: Mapping[str, Line]) -> list[str]:
    points = [point for line in lines.values() for point in line]
    (x_low, x_high), (y_low, y_high) = (
        (math.floor(math.log10(min(v))), math.ceil(math.log10(max(v))))
        for v in zip(*points, strict=True)
    )

    def place(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - x_low) / max(x_high - x_low, 1)
        up = (math.log10(y) - y_low) / max(y_high - y_low, 1)
        return left + across * _WIDTH, _TOP + (1 - up) * _HEIGHT

    parts = [f'<text x="{left}" y="{_TOP - 12}" font-size="13">{escape(title)}</text>']
    for power in range(x_low, x_high + 1):
        x, bottom = place(10.0**power, 10.0**y_low)
        parts.append(_rule(x, _TOP, x, bottom))
        label = f'10<tspan dy="-4" font-size="8">{power}</tspan>'
        parts.append(f'<text x="{x - 8}" y="{bottom + 16}">{label}</text>')
    for power in range(y_low, y_high + 1):
        x, y = place(10.0**x_low, 10.0**power)
        parts.append(_rule(x, y, x + _WIDTH, y))
        parts.append(
            f'<text x="{x - 6}" y="{y + 4}" text-anchor="end">{10.0**power:g}</text>'
        )
    middle, below = left + _WIDTH / 2, _TOP + _HEIGHT + 32
    parts.append(f'<text x="{middle}" y="{below}">{escape(x_title)}</text>')
    for i, line in enumerate(lines.values()):
        places = [place(*point) for point in line]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        style = f'fill="none" stroke="{_color(i)}" stroke-width="2"'
        parts.append(f'<polyline points="{path}" {style}/>')
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{_color(i)}"/>'
            for x, y in places
        ]
    return parts


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#dddddd"/>'


def _color(i: int) -> str:
    return _COLORS[i % len(_COLORS)]
