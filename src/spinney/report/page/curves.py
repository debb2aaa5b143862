"""Small charts of a prediction or a score as one quantity changes."""

from collections.abc import Callable, Sequence

from spinney.report.page.charts import COLOURS, short
from spinney.report.page.markup import Content, Html, join_html, tag

_WIDTH, _LEFT, _RIGHT = 250, 58, 238
_LINE = 20

Series = Sequence[tuple[str, Sequence[float]]]  # a name, and one number per position


def curve(
    title: str,
    at: Sequence[float],
    series: Series,
    ends: tuple[float, float] | None = None,
    *,
    reach: Sequence[float] | None = None,
    named: Callable[[float], str] | None = None,
) -> Html:
    """Return a line chart over numbers.

    `ends` are those of the scale, else of the values; `reach` is how far noise may have moved the
    first line; `named` writes a place on the axis, as a date for example.
    """
    named = named or _number
    values = [v for _, line in series for v in line]
    if reach is not None:
        first = series[0][1]
        values += [v + s * r for v, r in zip(first, reach, strict=True) for s in (-1, 1)]
    if not values:
        return join_html()
    x_low, x_high = min(at), max(at)
    y_low, y_high = ends or (min(values), max(values))

    def point(place: float, value: float) -> tuple[float, float]:
        across, up = _part(place, x_low, x_high), _part(value, y_low, y_high)
        return round(_LEFT + 4 + across * (_RIGHT - _LEFT - 4), 1), round(102 - up * 88, 1)

    parts: list[Content] = [
        tag("line", x1=_LEFT, y1=108, x2=_RIGHT, y2=108, class_="axis"),
        tag("text", _number(y_high), x=_LEFT - 4, y=18, text_anchor="end", class_="soft"),
        tag("text", _number(y_low), x=_LEFT - 4, y=106, text_anchor="end", class_="soft"),
        tag("text", named(at[0]), x=_LEFT, y=122, class_="soft"),
        tag("text", named(at[-1]), x=_RIGHT, y=122, text_anchor="end", class_="soft"),
    ]
    if reach is not None:
        held = list(zip(at, series[0][1], reach, strict=True))
        around = [point(p, v + r) for p, v, r in held]
        around += [point(p, v - r) for p, v, r in reversed(held)]
        way = " ".join(f"{x},{y}" for x, y in around)
        parts.append(tag("polygon", points=way, fill=_ink(0), opacity="0.2"))
    for number, (name, line) in enumerate(series):
        points = [point(p, v) for p, v in zip(at, line, strict=True)]
        way = " ".join(f"{x},{y}" for x, y in points)
        parts.append(tag("polyline", points=way, fill="none", stroke=_ink(number), stroke_width=2))
        parts += [
            _spot(x, y, number, f"{name}: {_number(value)} at {named(where)}")
            for (x, y), where, value in zip(points, at, line, strict=True)
        ]
    return _figure(title, parts, 126, series)


def marks(
    title: str, at: Sequence[str], series: Series, ends: tuple[float, float] | None = None
) -> Html:
    """Return a chart with one line per category and one mark per series; `ends` as in `curve`."""
    values = [v for _, line in series for v in line]
    if not values:
        return join_html()
    low, high = ends or (min(values), max(values))
    left, bottom = 96, _LINE * len(at) + 8
    parts: list[Content] = [
        tag("line", x1=left, y1=bottom, x2=_RIGHT, y2=bottom, class_="axis"),
        tag("text", _number(low), x=left, y=bottom + 14, class_="soft"),
        tag("text", _number(high), x=_RIGHT, y=bottom + 14, text_anchor="end", class_="soft"),
    ]
    for row, word in enumerate(at):
        y = 14 + _LINE * row
        parts.append(tag("text", short(word, 11), x=left - 8, y=y + 4, text_anchor="end"))
        for number, (name, line) in enumerate(series):
            x = round(left + 4 + _part(line[row], low, high) * (_RIGHT - left - 8), 1)
            parts.append(_spot(x, y, number, f"{name}: {_number(line[row])} at {word}"))
    return _figure(title, parts, bottom + 18, series)


def _figure(title: str, parts: list[Content], height: int, series: Series) -> Html:
    drawn = tag(
        "svg", *parts, viewBox=f"0 0 {_WIDTH} {height}", width=_WIDTH, height=height,
        class_="chart", role="img", aria_label=title,
    )  # fmt: skip
    names = (
        tag("span", tag("span", class_="spot", style=f"background:{_ink(n)}"), name, class_="key")
        for n, (name, _) in enumerate(series if len(series) > 1 else ())
    )
    return tag("figure", tag("figcaption", title), drawn, *names)


def _spot(x: float, y: float, number: int, words: str) -> Html:
    return tag("circle", tag("title", words), cx=x, cy=y, r=3, fill=_ink(number))


def _ink(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _part(value: float, low: float, high: float) -> float:
    """Return where a value lies between the lowest (0) and the highest (1)."""
    return (value - low) / (high - low) if high > low else 0.5


def _number(value: float) -> str:
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"
