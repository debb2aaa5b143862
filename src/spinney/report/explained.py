"""Feature importances and partial dependence, as a report stores them."""

import msgspec
import numpy as np

from spinney.protocols.explanation import Explained
from spinney.protocols.model import ForestModel
from spinney.tables.schema import Schema
from spinney.tables.withheld import is_withheld


class Importance(msgspec.Struct, frozen=True):
    """How much one column matters."""

    column: str
    impurity: float  # its share of the decrease in impurity
    permutation: float | None = None  # the score lost when the column is shuffled
    spread: float | None = None  # standard deviation over repeats


class Dependence(msgspec.Struct, frozen=True):
    """Partial dependence: the mean prediction when one column is set to a value in all rows."""

    column: str
    at: tuple[float | str, ...]
    outputs: tuple[tuple[float, ...], ...]  # for each value, one number per class, or one number


class Explanation(msgspec.Struct, frozen=True):
    """How the model behaves on the parties' rows: counted at each party, then summed."""

    rows: str  # "held-out" or "training"
    n_rows: int
    score: str  # "accuracy" or "r2"
    baseline: float
    score_by_trees: tuple[tuple[int, float], ...] = ()
    dependence: tuple[Dependence, ...] = ()


def impurity_importances(model: ForestModel) -> tuple[Importance, ...]:
    """Return the impurity importance of every column, the largest first."""
    schema = model.schema
    shares = model.importances().tolist()
    found = (
        Importance(name, round(share, 6)) for name, share in zip(schema.names, shares, strict=True)
    )
    return tuple(sorted(found, key=lambda one: -one.impurity))


def with_losses(
    found: tuple[Importance, ...], schema: Schema, explained: Explained
) -> tuple[Importance, ...]:
    """Return the importances with the permutation importance of each column that was measured."""
    loss = {schema.names[column]: told for column, told in explained.loss.items()}
    return tuple(
        Importance(one.column, one.impurity, *(round(x, 6) for x in loss[one.column]))
        if one.column in loss
        else one
        for one in found
    )


def explanation_of(model: ForestModel, explained: Explained, rows: str) -> Explanation:
    """Return an explanation in the form that a report stores."""
    by_column: dict[int, list[tuple[float, tuple[float, ...]]]] = {}
    for column, value, means in explained.points:
        by_column.setdefault(column, []).append((value, means))
    return Explanation(
        rows,
        explained.n_rows,
        explained.score,
        round(explained.baseline, 6),
        tuple((n, round(score, 6)) for n, score in explained.by_trees),
        tuple(
            Dependence(
                model.schema.names[column],
                tuple(_in_words(model, column, value) for value, _ in points),
                tuple(tuple(round(x, 6) for x in means) for _, means in points),
            )
            for column, points in by_column.items()
        ),
    )


def _in_words(model: ForestModel, column: int, value: float) -> float | str:
    """Return a value in readable form; a category as the names that share its bin."""
    facts, bins = model.schema.columns[column], model.bin_of_category[column]
    if len(bins):
        found = (facts.categories[i] for i in np.flatnonzero(bins == value))  # type: ignore[index]
        names = sorted(map(str, found), key=is_withheld)
        return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    if facts.kind == "boolean":
        return "yes" if value else "no"
    return float(f"{value:.6g}")
