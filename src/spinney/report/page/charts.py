"""Small drawings as SVG; each has its words beside it, so that nothing is told by colour alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spinney.report.page.markup import Html, joined, tag

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#999999")
"""Okabe and Ito's, which colour-blind readers can tell apart; `drawing.js` has the same."""

_STYLE_OF_MODEL = {
    "alone": ("#999999", "o"),
    "together": ("#0072b2", "o"),
    "pooled": ("#e69f00", "d"),
}
_LEFT, _WIDTH, _LINE = 150, 720, 46

Scale = Callable[[float], float]


@dataclass(frozen=True)
class Dot:
    """A score of one model, and its interval; None where there is none."""

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
        return joined()
    low, high = float(min(known)), float(max(known))
    room = (high - low) * 0.06 or abs(high) * 0.05 or 1.0
    low, high = low - room, high + room

    def x(value: float) -> float:
        return round(_LEFT + (value - low) / (high - low) * float(_WIDTH - _LEFT - 20), 1)

    height = _LINE * len(lines) + 50
    parts = [_axis(low, high, x, height)]
    for number, (name, marks) in enumerate(lines):
        middle = 34 + _LINE * number + _LINE / 2
        parts.append(tag("text", _short(name), x=_LEFT - 10, y=middle + 4, text_anchor="end"))
        parts += [
            _mark(mark, x, middle + 9 * (place - (len(marks) - 1) / 2))
            for place, mark in enumerate(marks)
            if mark.value is not None
        ]
    models = list(dict.fromkeys(mark.model for _, marks in lines for mark in marks))
    parts += [_key(model, _LEFT + 190 * place) for place, model in enumerate(models)]
    return tag(
        "figure",
        tag("figcaption", title),
        tag(
            "svg",
            *parts,
            viewBox=f"0 0 {_WIDTH} {height}",
            width=_WIDTH,
            height=height,
            class_="chart",
            role="img",
            aria_label=f"{title}; the numbers are in the table below.",
        ),
    )


def line_chart(
    title: str, at: Sequence[float | str], series: Sequence[tuple[str, Sequence[float]]]
) -> Html:
    """Return a small chart of lines, or of marks where the values are words."""
    numbers = [v for v in at if not isinstance(v, str)]
    is_numeric = len(numbers) == len(at)
    places = [float(v) for v in numbers] if is_numeric else [float(i) for i in range(len(at))]
    values = [v for _, line in series for v in line]
    if not values:
        return joined()
    x_low, x_high = min(places), max(places)
    y_low, y_high = min(values), max(values)
    spread = y_high - y_low or 1.0

    def point(place: float, value: float) -> tuple[float, float]:
        across = (place - x_low) / (x_high - x_low or 1.0)
        return round(40 + across * 185, 1), round(105 - (value - y_low) / spread * 90, 1)

    parts = [
        tag("line", x1=40, y1=108, x2=228, y2=108, class_="axis"),
        tag("text", _number(y_high), x=36, y=18, text_anchor="end", class_="soft"),
        tag("text", _number(y_low), x=36, y=108, text_anchor="end", class_="soft"),
        tag("text", _short(_number(at[0]), 14), x=40, y=122, class_="soft"),
        tag("text", _short(_number(at[-1]), 14), x=228, y=122, text_anchor="end", class_="soft"),
    ]
    for number, (name, line) in enumerate(series):
        colour = COLOURS[number % len(COLOURS)]
        points = [point(p, v) for p, v in zip(places, line, strict=True)]
        if is_numeric:
            text = " ".join(f"{px},{py}" for px, py in points)
            parts.append(
                tag(
                    "polyline",
                    tag("title", name),
                    points=text,
                    fill="none",
                    stroke=colour,
                    stroke_width=2,
                )
            )
        parts += [
            tag(
                "circle",
                tag("title", f"{name}: {_number(value)} at {_number(where)}"),
                cx=px,
                cy=py,
                r=2.5,
                fill=colour,
            )
            for (px, py), where, value in zip(points, at, line, strict=True)
        ]
    drawn = tag(
        "svg", *parts, viewBox="0 0 240 126", width=240, height=126, class_="chart", role="img",
        aria_label=title,
    )  # fmt: skip
    return tag("figure", tag("figcaption", title), drawn)


def bar(share: float) -> Html:
    """Return a bar as long as a share of its cell."""
    return tag("span", class_="bar", style=f"width:{max(0.0, min(1.0, share)) * 100:.1f}%")


def _axis(low: float, high: float, x: Scale, height: float) -> Html:
    ticks = [low + (high - low) * part / 4 for part in range(5)]
    return joined(
        *(
            joined(
                tag("line", x1=x(t), y1=30, x2=x(t), y2=height - 18, class_="axis"),
                tag("text", f"{t:.3g}", x=x(t), y=height - 4, text_anchor="middle", class_="soft"),
            )
            for t in ticks
        )
    )


def _mark(mark: Dot, x: Scale, y: float) -> Html:
    assert mark.value is not None
    colour, shape = _STYLE_OF_MODEL.get(mark.model, ("#009e73", "d"))
    words = f"{mark.model}: {mark.value:.4f}"
    interval = joined()
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
    colour, shape = _STYLE_OF_MODEL.get(model, ("#009e73", "d"))
    return joined(_shape(shape, x + 6, 14, colour), tag("text", model, x=x + 16, y=18))


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.3g}"


def _short(text: str, most: int = 20) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
