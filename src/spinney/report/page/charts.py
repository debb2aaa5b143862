"""Small SVG charts; each has a text beside it, so that no fact depends on colour alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import ceil, floor, log10

from spinney.report.page.markup import Html, join_html, tag

COLOURS = ("#0072b2", "#b86e00", "#009e73", "#cc79a7", "#4393c3", "#d55e00", "#8a7a00", "#767676")
"""Okabe and Ito's hues, which colour-blind readers can tell apart, each with a contrast of at least
3 to white and to black; `looks.js` has the same."""

STYLE_OF_MODEL = {
    "alone": ("#767676", "o"),
    "together": ("#0072b2", "o"),
    "pooled": ("#b86e00", "d"),
    "joint tree": ("#d55e00", "o"),
    "joint forest": ("#cc79a7", "d"),
}
NO_NOISE = " (no noise)"
OTHER_STYLE = ("#009e73", "d")
_LEFT, _WIDTH, _LINE = 130, 560, 46

Scale = Callable[[float], float]


@dataclass(frozen=True)
class Dot:
    """The score of one model and its interval; None if unknown."""

    model: str
    value: float | None
    interval: tuple[float, float] | None = None


def dots(title: str, lines: Sequence[tuple[str, Sequence[Dot]]]) -> Html:
    """Return a chart with a line for each party and a mark for each model."""
    known = [
        number
        for _, marks in lines
        for mark in marks
        for number in (mark.value, *(mark.interval or ()))
        if number is not None
    ]
    if not known:
        return join_html()
    low, high = float(min(known)), float(max(known))
    room = (high - low) * 0.06 or abs(high) * 0.05 or 1.0
    low, high = low - room, high + room

    def x(value: float) -> float:
        return round(_LEFT + (value - low) / (high - low) * float(_WIDTH - _LEFT - 20), 1)

    height = _LINE * len(lines) + 50
    parts = [_axis(low, high, x, height)]
    for number, (name, marks) in enumerate(lines):
        middle = 34 + _LINE * number + _LINE / 2
        parts.append(tag("text", short(name, 16), x=_LEFT - 10, y=middle + 4, text_anchor="end"))
        parts += [
            _mark(mark, x, middle + 9 * (place - (len(marks) - 1) / 2))
            for place, mark in enumerate(marks)
            if mark.value is not None
        ]
    models = list(dict.fromkeys(mark.model for _, marks in lines for mark in marks))
    ends = accumulate((7 * len(model) + 40 for model in models), initial=_LEFT)
    parts += [_key(model, start) for model, start in zip(models, ends, strict=False)]
    return tag(
        "figure",
        tag("figcaption", title),
        tag(
            "svg",
            *parts,
            viewBox=f"0 0 {_WIDTH} {height}",
            width=_WIDTH,
            height=height,
            class_="chart dots",
            role="img",
            aria_label=f"{title}; the numbers are in the table below.",
        ),
    )


def bar(share: float) -> Html:
    """Return a bar that fills a share of its cell."""
    return tag("span", class_="bar", style=f"width:{max(0.0, min(1.0, share)) * 100:.1f}%")


def _axis(low: float, high: float, x: Scale, height: float) -> Html:
    return join_html(
        *(
            join_html(
                tag("line", x1=x(t), y1=30, x2=x(t), y2=height - 18, class_="axis"),
                tag("text", f"{t:.6g}", x=x(t), y=height - 4, text_anchor="middle", class_="soft"),
            )
            for t in round_steps(low, high)
        )
    )


def round_steps(low: float, high: float) -> list[float]:
    """Return three to seven round numbers between two others."""
    rough = (high - low) / 6
    unit = 10.0 ** floor(log10(rough))
    step = next(unit * n for n in (1, 2, 2.5, 5, 10) if unit * n >= rough)
    first, last = ceil(low / step), floor(high / step)
    return [round(step * n, 12) for n in range(first, last + 1)]


def _mark(mark: Dot, x: Scale, y: float) -> Html:
    assert mark.value is not None
    colour, shape = style_of(mark.model)
    words = f"{mark.model}: {mark.value:.4f}"
    interval = join_html()
    if mark.interval is not None:
        low, high = mark.interval
        words += f", {low:.4f} to {high:.4f}"
        interval = tag("line", x1=x(low), y1=y, x2=x(high), y2=y, stroke=colour, stroke_width=2)
    return tag("g", tag("title", words), interval, _shape(shape, x(mark.value), y, colour))


def _shape(shape: str, x: float, y: float, colour: str) -> Html:
    if shape == "o":
        return tag("circle", cx=x, cy=y, r=4.5, fill=colour)
    return tag("path", d=f"M{x - 5} {y}L{x} {y - 5}L{x + 5} {y}L{x} {y + 5}Z", fill=colour)


def _key(model: str, x: float) -> Html:
    colour, shape = style_of(model)
    return join_html(_shape(shape, x + 6, 14, colour), tag("text", model, x=x + 16, y=18))


def style_of(model: str) -> tuple[str, str]:
    """Return the colour and the shape of a model's marks; that it has no noise changes neither."""
    return STYLE_OF_MODEL.get(model.removesuffix(NO_NOISE), OTHER_STYLE)


def short(text: str, most: int = 20) -> str:
    """Return a text, cut off if it is too long."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
