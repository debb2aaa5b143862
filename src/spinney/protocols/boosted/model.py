"""What turns fixed-point leaf values into the values of a model that predicts by itself."""

import numpy as np

from spinney.protocols.boosted.objective import Objective
from spinney.protocols.model import Boosted
from spinney.protocols.rows.facts import target_range
from spinney.tables.schema import Label
from spinney.trees.losses import SCORE_BITS, log_ratio
from spinney.typing import Floats, Integers

_LINKS = {
    "log_loss": ("logistic", "softmax"),
    "squared_error": ("identity",) * 2,
    "poisson": ("log",) * 2,
}


def finish_values(
    objective: Objective, base: tuple[int, ...], label: Label, value: Floats, tree_start: Integers
) -> tuple[Floats, Boosted]:
    """Return leaf values in units of scores, or of the target, and what makes them predictions."""
    n_outputs, unit, low = objective.n_outputs, 2.0**-SCORE_BITS, 0.0
    settings = objective.settings
    if not objective.n_classes:
        low, high = target_range(label)
        unit = (high - low) / (2**SCORE_BITS - 1)
    if settings.loss == "poisson":
        unit, low = 2.0**-SCORE_BITS, log_ratio(*high.as_integer_ratio()) * 2.0**-SCORE_BITS
    value = value * unit
    if n_outputs > 1:
        tree = np.repeat(np.arange(tree_start.size - 1), np.diff(tree_start))
        value = value * (tree[:, None] % n_outputs == np.arange(n_outputs))
    first = low + np.array(base, np.float64) * unit
    link = _LINKS[settings.loss][n_outputs > 1]
    return value, Boosted(link, first, settings.batch_trees)
