"""A tree as a picture (SVG): boxes from the root down, yes to the left."""

from html import escape

from spinney.protocols.model import ForestModel
from spinney.report.page.charts import short
from spinney.report.tree_text import NodeText, place_nodes, tree_nodes

_WIDTH, _HEIGHT, _GAP, _FONT = 190, 44, 14, 11
_LETTERS = 32  # that fit into a box; the tooltip shows the rest


def tree_svg(model: ForestModel, tree: int = 0) -> str:
    """Return a picture of a tree."""
    nodes = tree_nodes(model, tree)
    across = place_nodes(nodes, int(model.forest.tree_start[tree]))
    place = {
        node: (
            _GAP + _WIDTH / 2 + across[node] * (_WIDTH + _GAP),
            _GAP + text.depth * (_HEIGHT + 4 * _GAP),
        )
        for node, text in nodes.items()
    }
    width = int(max(x for x, _ in place.values()) + _WIDTH / 2 + _GAP)
    height = int(max(y for _, y in place.values()) + _HEIGHT + _GAP)
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    font = f'font-family="sans-serif" font-size="{_FONT}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>']
    for node, text in nodes.items():
        if text.question:
            parts.append(_line(place[node], place[text.left], "yes"))
            parts.append(_line(place[node], place[text.left + 1], "no"))
    parts += [_box(*place[node], text) for node, text in nodes.items()]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _line(start: tuple[float, int], end: tuple[float, int], word: str) -> str:
    (x, y), (to_x, to_y) = start, end
    return (
        f'<line x1="{x:.0f}" y1="{y + _HEIGHT}" x2="{to_x:.0f}" y2="{to_y}" stroke="#888"/>'
        f'<text x="{(x + to_x) / 2:.0f}" y="{to_y - _GAP}" text-anchor="middle" fill="#666">'
        f"{word}</text>"
    )


def _box(x: float, y: int, text: NodeText) -> str:
    lines = [text.question, *text.lines] if text.question else list(text.lines)
    place = f'x="{x - _WIDTH / 2:.0f}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}"'
    look = 'rx="3" fill="#ffffff"' if text.question else 'rx="12" fill="#e5f0e0"'
    title = f"<title>{escape(', '.join(lines))}</title>"
    parts = [title, f'<rect {place} {look} stroke="#486048"/>']
    top = y + _HEIGHT / 2 - (len(lines) / 2 - 1) * (_FONT + 4) - 4
    for number, line in enumerate(lines):
        at = f'x="{x:.0f}" y="{top + number * (_FONT + 4):.0f}" text-anchor="middle"'
        parts.append(f"<text {at}>{escape(short(line, _LETTERS))}</text>")
    return f"<g>{''.join(parts)}</g>"
