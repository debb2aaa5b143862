"""A tree as text: each node's question, where missing values go, each leaf's prediction."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import count

import numpy as np

from spinney.errors import SettingError
from spinney.protocols.model import ForestModel
from spinney.report.words import date_of, some
from spinney.tables.withheld import is_withheld
from spinney.trees.leaf_counts import share_intervals
from spinney.typing import Integers

_INDENT = "    "
_SURE = 2  # deviations of the noise: fewer rows may be none


@dataclass(frozen=True)
class NodeText:
    """The text of one node."""

    question: str  # which rows go left; empty for a leaf
    lines: tuple[str, ...]
    left: int
    depth: int


def tree_nodes(
    model: ForestModel, tree: int = 0, dates: Collection[str] = ()
) -> dict[int, NodeText]:
    """Return the text of every node of a tree, by number, parents first.

    `dates` are columns that count days since 1970-01-01.
    """
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
        found[node] = NodeText("" if is_leaf else _question(model, node, dates), said, left, depth)
        if not is_leaf:
            todo += [(left + 1, depth + 1), (left, depth + 1)]
    return found


def place_nodes(
    nodes: Mapping[int, NodeText], root: int, deepest: int | None = None
) -> dict[int, float]:
    """Return each node's place across the tree: ends are 1 apart, parents midway.

    Nodes of the depth `deepest` are ends too.
    """
    places: dict[int, float] = {}
    ends = count()

    def put(node: int) -> float:
        text = nodes[node]
        if not text.question or text.depth == deepest:
            places[node] = float(next(ends))
        else:
            places[node] = (put(text.left) + put(text.left + 1)) / 2
        return places[node]

    put(root)
    return places


def tree_text(model: ForestModel, tree: int = 0, dates: Collection[str] = ()) -> str:
    """Return a tree with one line per branch; a leaf's prediction ends its branch's line."""
    nodes = tree_nodes(model, tree, dates)
    lines: list[str] = []

    def write(node: int, indent: str, way: str) -> None:
        text = nodes[node]
        if not text.question:
            lines.append(f"{indent}{way}{' ' if way else ''}-> {', '.join(text.lines)}")
            return
        if way:
            lines.append(f"{indent}{way}")
            indent += _INDENT
        beside = f"  [{', '.join(text.lines)}]" if text.lines else ""
        write(text.left, indent, f"{text.question}{beside}")
        write(text.left + 1, indent, "else")

    write(int(model.forest.tree_start[tree]), "", "")
    return "\n".join(lines) + "\n"


def _question(model: ForestModel, node: int, dates: Collection[str]) -> str:
    """Return which rows go left, and whether missing values do."""
    forest = model.forest
    column = model.schema.columns[int(forest.feature[node])]
    if forest.subset[node] >= 0:
        return f"{column.name} is {' or '.join(_categories(model, node)) or 'none of the known'}"
    if np.isinf(forest.threshold[node]):
        return f"{column.name} is known"
    threshold = float(forest.threshold[node])
    asked = "is false" if column.kind == "boolean" else f"<= {threshold:.6g}"
    if column.name in dates:
        asked = f"<= {date_of(threshold)}"
    return f"{column.name} {asked}{' or missing' if forest.missing_left[node] else ''}"


def _categories(model: ForestModel, node: int) -> list[str]:
    """Return the categories that go left, and whether missing values do."""
    number = int(model.forest.feature[node])
    inside, missing = categories_left(model, number, int(model.forest.subset[node]))
    categories = model.schema.columns[number].categories or ()
    shown = [categories[place] for place in inside if not is_withheld(categories[place])]
    n_withheld = len(inside) - len(shown)
    names = [*map(str, shown), *([f"{n_withheld} withheld"] if n_withheld else [])]
    return [*names, "missing"] if missing else names


def categories_left(model: ForestModel, column: int, subset: int) -> tuple[Integers, bool]:
    """Return the numbers of the categories that go left, and whether missing values do."""
    words, bins = model.forest.bin_sets[subset], model.bin_of_category[column]
    side = (words[bins >> 6] >> (bins & np.uint8(63)).astype(np.uint64)) & np.uint64(1)
    return np.flatnonzero(side), bool(words[3] >> np.uint64(63))


def _split_lines(model: ForestModel, node: int) -> tuple[str, ...]:
    """Return the gain of a noisy split and its standard error."""
    if model.noise is None or model.boosted is not None:
        return ()
    gain, error = model.forest.gain[node], model.noise.gain[node]
    return (f"gain {gain:.3g}, standard error {error:.2g}" if error else f"gain {gain:.3g}",)


def _boosted_leaf(model: ForestModel, node: int) -> tuple[str, ...]:
    """Return what a leaf of a boosted tree adds to the score."""
    label, value = model.schema.label, model.forest.value[node]
    of = label.name
    if label.classes is not None:
        place = int(np.abs(value).argmax()) if value.size > 1 else 1
        of = f"{label.classes[place]}'s score"
    said = f"{float(value[np.abs(value).argmax()]):+.4g} to {of}"
    if model.noise is not None:  # it has no rows, only sums with noise
        return said, f"noise of about {model.noise.counts[node]:.2g}"
    return said, some(int(model.forest.moments[node, 0]), "row", "rows")


def _leaf_lines(model: ForestModel, node: int) -> tuple[str, ...]:
    """Return a leaf's prediction, its probability, and the bounds that the noise leaves."""
    forest, label = model.forest, model.schema.label
    moments = forest.moments[node]
    if model.boosted is not None:
        return _boosted_leaf(model, node)
    if label.classes is None:
        rows = _rows(model, node, int(moments[0]), 1)
        return f"{label.name} = {forest.value[node, 0]:.6g}", rows
    best = int(forest.value[node].argmax())
    said = f"{label.name} = {label.classes[best]} ({forest.value[node, best]:.2f}"
    rows = _rows(model, node, int(moments.sum()), moments.size)
    if model.noise is None:
        return f"{said})", rows
    low, high = share_intervals(moments[None], model.noise.counts[node, None])
    return f"{said}, {low[0, best]:.2f} to {high[0, best]:.2f})", rows


def _rows(model: ForestModel, node: int, counted: int, n_counts: int) -> str:
    """Return how many rows a leaf holds; with noise, about how many, or that noise hides it."""
    if model.noise is None:
        return some(max(counted, 0), "row", "rows")
    error = float(model.noise.counts[node]) * n_counts**0.5
    if counted <= _SURE * error:
        return "few rows or none"
    return f"about {some(counted, 'row', 'rows')}"
