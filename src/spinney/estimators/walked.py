"""A forest's nodes in plain terms, for export to other formats."""

from collections.abc import Iterator
from dataclasses import dataclass

from spinney.errors import SettingError
from spinney.protocols.model import ForestModel
from spinney.report.tree_text import categories_left
from spinney.typing import Floats, Integers


@dataclass(frozen=True)
class Split:
    """A question about a number (`categories` is None) or a category, and where answers lead.

    Children are numbered within the tree. A category is its number in the schema.
    """

    column: int
    threshold: float
    categories: Integers | None  # those that go left
    missing_left: bool
    left: int
    right: int


@dataclass(frozen=True)
class Leaf:
    """What a leaf predicts."""

    value: Floats


def require_one_answer(model: ForestModel) -> None:
    """Raise if a model holds one tree per party, which do not form a forest."""
    if len(model.owners) > 1:
        raise SettingError(
            "This model holds one tree per party, and these have no common prediction. Export one "
            f"party's tree: model_.of_owner({model.owners[0]!r})."
        )


def nodes_of(model: ForestModel, tree: int) -> Iterator[Split | Leaf]:
    """Yield a tree's nodes in order, the root first."""
    forest = model.forest
    start, end = int(forest.tree_start[tree]), int(forest.tree_start[tree + 1])
    for node in range(start, end):
        column = int(forest.feature[node])
        if column < 0:
            yield Leaf(forest.value[node])
            continue
        left = int(forest.left[node]) - start
        subset = int(forest.subset[node])
        threshold = float(forest.threshold[node])
        missing = bool(forest.missing_left[node])
        categories = None
        if subset >= 0:
            categories, missing = categories_left(model, column, subset)
        yield Split(column, threshold, categories, missing, left, left + 1)
