"""A tree as text and as a picture, with what noise leaves uncertain of gains and probabilities."""

from dataclasses import dataclass
from html import escape

import numpy as np

from spinney.errors import SettingError
from spinney.protocols.model import ForestModel
from spinney.trees.leaf_counts import share_intervals

_BRANCH, _LINE = "|   ", "|-- "
_BOX_WIDTH, _BOX_HEIGHT, _GAP, _FONT = 190, 44, 14, 11


@dataclass(frozen=True)
class NodeText:
    """What is said of one node."""

    question: str  # empty for a leaf
    lines: tuple[str, ...]
    left: int
    depth: int


def tree_nodes(model: ForestModel, tree: int = 0) -> dict[int, NodeText]:
    """Return what is said of every node of a tree, by number, parents first."""
    forest = model.forest
    if not 0 <= tree < forest.n_trees:
        raise SettingError(f"tree must be between 0 and {forest.n_trees - 1}; got {tree!r}.")
    found: dict[int, NodeText] = {}
    todo = [(int(forest.tree_start[tree]), 0)]
    while todo:
        node, depth = todo.pop()
        is_leaf = forest.feature[node] < 0
        said = _leaf_lines(model, node) if is_leaf else _split_lines(model, node)
        left = int(forest.left[node])
        found[node] = NodeText("" if is_leaf else _question(model, node), said, left, depth)
        if not is_leaf:
            todo += [(left + 1, depth + 1), (left, depth + 1)]
    return found


def tree_text(model: ForestModel, tree: int = 0) -> str:
    """Return a tree as indented lines: questions with their gain, leaves with their classes."""
    nodes = tree_nodes(model, tree)
    lines: list[str] = []

    def write(node: int) -> None:
        text = nodes[node]
        indent = _BRANCH * text.depth + _LINE
        if not text.question:
            lines.append(indent + ", ".join(text.lines))
            return
        lines.append(f"{indent}{text.question}  [{', '.join(text.lines)}]")
        write(text.left)
        lines.append(f"{indent}else")
        write(text.left + 1)

    write(int(model.forest.tree_start[tree]))
    return "\n".join(lines) + "\n"


def tree_svg(model: ForestModel, tree: int = 0) -> str:
    """Return a picture of a tree: boxes from the root down, yes to the left."""
    nodes = tree_nodes(model, tree)
    place = _places(nodes, int(model.forest.tree_start[tree]))
    width = int(max(x for x, _ in place.values()) + _BOX_WIDTH / 2 + _GAP)
    height = int(max(y for _, y in place.values()) + _BOX_HEIGHT + _GAP)
    head = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    font = f'font-family="sans-serif" font-size="{_FONT}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {head} {font}>']
    for node, text in nodes.items():
        x, y = place[node]
        if text.question:
            for child, word in ((text.left, "yes"), (text.left + 1, "no")):
                to_x, to_y = place[child]
                parts.append(
                    f'<path d="M{x:.0f},{y + _BOX_HEIGHT} L{to_x:.0f},{to_y}" stroke="#888" '
                    f'fill="none"/><text x="{(x + to_x) / 2:.0f}" y="{to_y - _GAP}" '
                    f'text-anchor="middle" fill="#666">{word}</text>'
                )
        parts += _box(x, y, [text.question, *text.lines] if text.question else text.lines)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _box(x: float, y: float, lines: list[str] | tuple[str, ...]) -> list[str]:
    left = x - _BOX_WIDTH / 2
    place = f'x="{left:.0f}" y="{y}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}"'
    parts = [f'<rect {place} rx="4" fill="#f4f7f4" stroke="#486048"/>']
    for number, line in enumerate(lines[:3]):
        at = y + (number + 1) * (_FONT + 2)
        parts.append(f'<text x="{x:.0f}" y="{at}" text-anchor="middle">{escape(line)}</text>')
    return parts


def _places(nodes: dict[int, NodeText], root: int) -> dict[int, tuple[float, int]]:
    """Place leaves side by side, and parents between their children."""
    place: dict[int, tuple[float, int]] = {}
    step = _BOX_HEIGHT + 4 * _GAP
    next_leaf = _GAP + _BOX_WIDTH / 2

    def put(node: int) -> float:
        nonlocal next_leaf
        text = nodes[node]
        if text.question:
            x = (put(text.left) + put(text.left + 1)) / 2
        else:
            x, next_leaf = next_leaf, next_leaf + _BOX_WIDTH + _GAP
        place[node] = (x, _GAP + text.depth * step)
        return x

    put(root)
    return place


def _question(model: ForestModel, node: int) -> str:
    forest = model.forest
    column = model.schema.columns[int(forest.feature[node])]
    if forest.subset[node] < 0:
        threshold = float(forest.threshold[node])
        if column.kind == "boolean":
            return f"{column.name} is false"
        if np.isinf(threshold):
            return f"{column.name} is known"
        return f"{column.name} <= {threshold:.6g}"
    words = forest.bin_sets[forest.subset[node]]
    bins = model.bin_of_category[int(forest.feature[node])]
    inside = (words[bins >> 6] >> (bins & np.uint8(63)).astype(np.uint64)) & np.uint64(1)
    pairs = zip(column.categories or (), inside, strict=True)
    names = [str(category) for category, is_in in pairs if is_in]
    if (words[3] >> np.uint64(63)) & np.uint64(1):
        names.append("missing")
    return f"{column.name} is {' or '.join(names) or 'none of the known'}"


def _split_lines(model: ForestModel, node: int) -> tuple[str, ...]:
    """Say how much a split gains, and how sure that is."""
    gain = f"gain {model.forest.gain[node]:.3g}"
    if model.noise is None:
        return (gain,)
    return (f"{gain}, standard error {model.noise.gain[node]:.2g}",)


def _leaf_lines(model: ForestModel, node: int) -> tuple[str, ...]:
    """Say what a leaf predicts, how likely that is, and between what bounds under the noise."""
    forest, label = model.forest, model.schema.label
    if label.classes is None:
        return (f"{label.name} = {forest.value[node, 0]:.6g}",)
    best = int(forest.value[node].argmax())
    chance = f"{label.name} = {label.classes[best]}: {forest.value[node, best]:.2f}"
    rows = f"about {max(int(forest.moments[node].sum()), 0)} rows"
    if model.noise is None:
        return (chance, rows)
    low, high = share_intervals(forest.moments[node][None], model.noise.counts[node, None])
    return (f"{chance} ({low[0, best]:.2f} to {high[0, best]:.2f})", rows)
