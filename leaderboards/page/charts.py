"""Learning curves and Pareto plots as inline SVG; colours and fonts come from the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bench.metrics import Metric
from bench.output.curves import AXES, Curve, curve
from bench.output.paces import DIFFERENT, columns
from leaderboards.page.boards import Board
from leaderboards.page.html import Html, el, joined

WIDTH, HEIGHT = 560, 320
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 12, 40
POINTS = 150  # of a curve: more cannot be seen
COLOURS, DASHES = 8, ("", "6 3", "2 3", "8 3 2 3")


@dataclass(frozen=True)
class Frame:
    """Where numbers go in the picture."""

    x: tuple[float, float]
    y: tuple[float, float]
    log: bool = False

    def px(self, value: float) -> float:
        low, high = (math.log10(v) for v in self.x) if self.log else self.x
        at = math.log10(value) if self.log else value
        return LEFT + (at - low) / ((high - low) or 1) * (WIDTH - LEFT - RIGHT)

    def py(self, value: float) -> float:
        low, high = self.y
        return HEIGHT - BOTTOM - (value - low) / ((high - low) or 1) * (HEIGHT - TOP - BOTTOM)

    def path(self, points: Sequence[tuple[float, float]]) -> str:
        return "M" + "L".join(f"{self.px(x):.1f},{self.py(y):.1f}" for x, y in points)


def learning(board: Board, axis: str) -> Html:
    """The metric over rounds, virtual time or traffic: the mean, and a band from the lowest to the highest seed."""
    found = [drawn for line in board.lines if (drawn := curve(line, axis, POINTS)) is not None]
    if not found:
        return Html("")
    metric = board.metric
    frame = Frame((0, max(line.x[-1] for line in found)), _heights(metric, found))
    target = metric.factor * board.target
    y = f"{frame.py(target):.1f}"
    goal = [
        el("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="goal"),
        el("text", f"target {metric.goal(board.target)}", x=LEFT + 4, y=f"{frame.py(target) - 4:.1f}", class_="tick"),
    ]
    lines = [_drawn(line, frame, number) for number, line in enumerate(found)]
    title = f"Test {metric.label} over {AXES[axis]}: {board.title}"
    inside = frame.y[0] <= target <= frame.y[1]
    return _picture(title, frame, (AXES[axis], metric), [goal if inside else None, lines])


def _heights(metric: Metric, found: Sequence[Curve]) -> tuple[float, float]:
    """From zero, up to full tens of a share; what is better when lower from its best to its worst."""
    top = max(max(line.high) for line in found)
    if metric.unit == "%":
        return 0, min(100, 10 * math.ceil(top / 10 + 0.01))
    low = min(min(line.low) for line in found)
    pad = 0.05 * (top - low) or 1.0
    return low - pad, top + pad


def pareto(board: Board, cost: str) -> Html:
    """What runs ended with against what it cost; the line joins what nothing else beats in both."""
    points, metric = [], board.metric
    for number, line in enumerate(board.lines):
        ends = [column[-1] for column in columns(line, cost) if column and column[-1] > 0]
        final = line.numbers("final").known.times(metric.factor)
        if ends and (values := final.values):
            x = math.fsum(ends) / len(ends)
            points.append((x, final.mean, min(values), max(values), number, line.label))
    xs = [point[0] for point in points]
    if len(points) < 2 or max(xs) < DIFFERENT * min(xs):
        return Html("")
    ys = [y for point in points for y in point[2:4]]
    spread = max(ys) - min(ys) or 1.0
    log = max(xs) > 3 * min(xs)
    pad = 1.15 if log else 1.03
    frame = Frame((min(xs) / pad, max(xs) * pad), (min(ys) - 0.1 * spread, max(ys) + 0.12 * spread), log)
    front = _front([(x, y) for x, y, *_ in points], metric)
    marks: list[Html] = []
    taken: list[tuple[float, float]] = []
    for x, y, low, high, number, label in sorted(points, key=lambda point: -point[1]):
        height = frame.py(y) + 4
        while any(abs(height - other) < 12 and abs(frame.px(x) - at) < 140 for at, other in taken):
            height += 3
        taken.append((frame.px(x), height))
        told = f"{label}: {metric.with_unit(f'{y:.{metric.digits}f}')}, {x:.4g}"
        marks.append(_mark(frame, (x, y, low, high), height, number, (label, told)))
    title = f"Final {metric.label} against {AXES[cost]}: {board.title}"
    edge = el("path", d=frame.path(front), class_="front") if len(front) > 1 else None
    return _picture(title, frame, (AXES[cost] + (", logarithmic" if log else ""), metric), [edge, marks])


def legend(board: Board) -> Html:
    """Buttons that hide and show a line; the samples carry colour and dash."""
    items = []
    for number, line in enumerate(board.lines):
        dash = DASHES[number // COLOURS % len(DASHES)]
        stroke = el("line", x1=1, x2=23, y1=6, y2=6, class_=f"line s{number % COLOURS}", stroke_dasharray=dash or None)
        sample = el("svg", stroke, width=24, height=12, aria_hidden="true")
        count = f" ({len(line)})" if len(line) > 1 else ""
        button = el("button", sample, line.label + count, type="button", aria_pressed="true", data_series=number)
        items.append(el("li", button))
    return el("ul", *items, class_="legend", aria_label="Lines; in brackets the number of seeds")


def _drawn(curve: Curve, frame: Frame, number: int) -> Html:
    band = [*zip(curve.x, curve.high, strict=True), *zip(curve.x[::-1], curve.low[::-1], strict=True)]
    dash = DASHES[number // COLOURS % len(DASHES)]
    line = frame.path(list(zip(curve.x, curve.mean, strict=True)))
    return el(
        "g",
        el("title", f"{curve.label}, {curve.seeds} seed{'s' if curve.seeds > 1 else ''}"),
        el("path", d=frame.path(band) + "Z", class_="band") if curve.seeds > 1 else None,
        el("path", d=line, class_="line", stroke_dasharray=dash or None),
        class_=f"series s{number % COLOURS}",
        data_series=number,
    )


def _mark(
    frame: Frame, point: tuple[float, float, float, float], height: float, number: int, words: tuple[str, str]
) -> Html:
    """A dot with its name at `height`, what is told of it, and a line from the lowest to the highest seed."""
    (x, y, low, high), (label, told) = point, words
    at, right = f"{frame.px(x):.1f}", frame.px(x) < 0.6 * WIDTH
    name = {"x": f"{frame.px(x) + (9 if right else -9):.1f}", "y": f"{height:.1f}"}
    return el(
        "g",
        el("title", told),
        el("line", x1=at, x2=at, y1=f"{frame.py(low):.1f}", y2=f"{frame.py(high):.1f}", class_="whisker"),
        el("circle", cx=at, cy=f"{frame.py(y):.1f}", r=5, class_="dot"),
        el("text", label, **name, class_="tick" if right else "tick end"),
        class_=f"series s{number % COLOURS}",
        data_series=number,
    )


def _front(points: Sequence[tuple[float, float]], metric: Metric) -> list[tuple[float, float]]:
    """Those that no cheaper or equal one beats."""
    best, front = -math.inf, []
    for x, y in sorted(points, key=lambda point: (point[0], -metric.merit(point[1]))):
        if metric.merit(y) > best:
            best = metric.merit(y)
            front.append((x, y))
    return front


def _picture(title: str, frame: Frame, axes: tuple[str, Metric], content: object) -> Html:
    ticks: list[Html] = []
    label, metric = axes
    for value in _ticks(*frame.y):
        y = f"{frame.py(value):.1f}"
        ticks.append(el("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid"))
        ticks.append(el("text", f"{value:g}", x=LEFT - 6, y=f"{frame.py(value) + 4:.1f}", class_="tick end"))
    for value in _decades(*frame.x) if frame.log else _ticks(*frame.x):
        x = f"{frame.px(value):.1f}"
        ticks.append(el("text", f"{value:,.4g}", x=x, y=HEIGHT - BOTTOM + 16, class_="tick middle"))
    words = [
        el("text", label, x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 6, class_="axis middle"),
        el("text", metric.unit or metric.label, x=LEFT - 6, y=TOP - 1, class_="axis end" if metric.unit else "axis"),
    ]
    return el(
        "svg",
        el("title", title),
        joined(ticks, words, content),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=title,
        class_="chart",
    )


def _ticks(low: float, high: float) -> list[float]:
    """About five round numbers."""
    rough = (high - low) / 5 or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * k for k in (1, 2, 2.5, 5, 10) if power * k >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(k * step, 10) for k in range(first, math.floor(high / step + 1e-9) + 1)]


def _decades(low: float, high: float) -> list[float]:
    values = [
        k * 10.0**p for p in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1) for k in (1, 2, 5)
    ]
    return [value for value in values if low <= value <= high]
