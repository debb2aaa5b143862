"""What each column adds to the score of a model whose trees divide one column each."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spinney.protocols.model import ForestModel
from spinney.typing import Floats, Integers

_MOST_PLACES: Final = 40
_LIKELY: Final = 1.96  # standard deviations, within which noise stays 95 times in 100


@dataclass(frozen=True)
class Shape:
    """One column's curve, and how far noise may have moved it."""

    column: str
    at: tuple[float | str, ...]  # numbers, or categories
    value: Floats  # (n_outputs, n_places)
    reach: Floats  # the same: 95 % of what noise alone does


def shapes_of(model: ForestModel) -> tuple[Shape, ...]:
    """Return the columns' curves; none if the model has no noise, or trees of several columns."""
    forest, boosted = model.forest, model.boosted
    if model.noise is None or boosted is None:
        return ()
    columns: list[list[int]] = [[] for _ in model.schema.columns]
    for tree in range(forest.n_trees):
        part = forest.feature[forest.tree_start[tree] : forest.tree_start[tree + 1]]
        used = np.unique(part[part >= 0])
        if used.size != 1:
            return ()
        columns[int(used[0])].append(tree)
    found = [_shape(model, place, trees) for place, trees in enumerate(columns) if trees]
    return tuple(sorted(found, key=lambda shape: -float(np.ptp(shape.value, axis=1).max())))


def _shape(model: ForestModel, place: int, trees: list[int]) -> Shape:
    column, forest = model.schema.columns[place], model.forest
    at: tuple[float | str, ...]
    if column.kind == "category":
        at = tuple(str(category) for category in column.categories or ())
        values = np.arange(len(at), dtype=np.float32)
    else:
        values = _places(model, place)
        at = tuple(values.tolist())
    rows = np.zeros((len(model.schema.columns), values.size), np.float32)
    rows[place] = values
    walked = model.rows(rows)
    n_outputs = 1 if model.boosted is None else model.boosted.base.size
    total, variance = np.zeros((n_outputs, values.size)), np.zeros((n_outputs, values.size))
    assert model.noise is not None  # the caller has looked
    for tree in trees:
        node: Integers = forest.leaves(walked, tree).astype(np.int64)
        total += forest.value[node].T
        variance[tree % n_outputs] += model.noise.counts[node] ** 2
    return Shape(column.name, at, total, _LIKELY * np.sqrt(variance))


def _places(model: ForestModel, place: int) -> NDArray[np.float32]:
    """Return numbers at which a curve is drawn: between the cuts, where bins are narrow too."""
    forest, bounds = model.forest, model.schema.columns[place].range
    cuts = np.unique(forest.threshold[forest.feature == place])
    cuts = cuts[np.isfinite(cuts)]
    low, high = bounds or (float(cuts[0]), float(cuts[-1]))
    ends = np.unique(np.concatenate([[low], cuts, [high]]))
    ends = ends[np.unique(np.linspace(0, ends.size - 1, _MOST_PLACES).astype(np.int64))]
    middles = (ends[:-1] + ends[1:]) / 2 if ends.size > 1 else ends
    return middles.astype(np.float32)
