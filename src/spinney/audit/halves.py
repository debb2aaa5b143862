"""Models trained on random halves of the rows; every row is in half of them."""

from dataclasses import dataclass

import numpy as np

from spinney.audit.rehearsal import Rehearsal
from spinney.protocols.model import ForestModel
from spinney.seeds import generator
from spinney.typing import Bools, Progress

LEAST_ROWS = 40


@dataclass(frozen=True)
class Halves:
    """Models, and which rows each of them has seen."""

    models: tuple[ForestModel, ...]
    saw: Bools  # (n_models, n_rows)


def train_halves(rehearsal: Rehearsal, n_models: int, progress: Progress) -> Halves | None:
    """Train models on halves of the rows; None: there are too few rows to train on a half."""
    n = rehearsal.rows.n
    if n < LEAST_ROWS:
        return None
    random = generator(1)
    order = np.argsort(random.random((n_models, n)), axis=0)
    saw = order < n_models // 2
    models = []
    for number, kept in enumerate(saw):
        progress("training on halves", number, n_models)
        models.append(rehearsal.part(kept).model())
    return Halves(tuple(models), saw)
