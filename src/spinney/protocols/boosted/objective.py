"""What a boosting job minimises, in which steps, and which trees a batch has."""

import numpy as np

from spinney.errors import SettingError
from spinney.protocols.boosted.settings import Settings
from spinney.protocols.rows.facts import target_range
from spinney.tables.schema import Label
from spinney.transport.messages import kept_beside
from spinney.trees.frontier import Draws, tree_keys
from spinney.trees.losses import LOSSES, SCORE_BITS, WEIGHT_ONE, Loss, Units
from spinney.typing import Floats, Integers, Keys

_LEAST_CELLS = 4


class Objective:
    """The loss of a job and its units, from the facts that a subclass has."""

    __slots__ = ()

    settings: Settings
    n_classes: int  # 0 for regression
    class_weight: tuple[float, ...]  # empty for regression
    target: tuple[float, float]  # the range of a number

    @property
    def loss(self) -> Loss:
        """What is minimised."""
        return LOSSES[self.settings.loss]

    @property
    def n_outputs(self) -> int:
        """How many scores a row has."""
        return self.loss.n_outputs(self.n_classes)

    @kept_beside
    def units(self) -> Units:
        """How rounded gradients are counted."""
        return self.loss.units(self.weights, self.target[1], self.settings.largest_weight)

    @property
    def weights(self) -> Floats:
        """The weight of each class; 1 for regression."""
        return np.array(self.class_weight or (1.0,))

    @property
    def facts(self) -> Integers:
        """The weight of each class in steps of 2^-16 of the largest; or where the range begins."""
        if not self.n_classes:
            low, high = self.target
            return np.array([round(low / high * 2**30) if 0.0 <= low < high else 0], np.int64)
        shares: Integers = np.rint(self.weights / self.weights.max() * WEIGHT_ONE).astype(np.int64)
        return shares

    def mean_loss(self, rows: int, total: int) -> float:
        """Return the mean loss of some rows, given their number, or weight, and its sum."""
        n = rows if self.settings.largest_weight is None else rows / WEIGHT_ONE
        return total / n * self.loss.loss_step


class BatchTrees:
    """The trees of one batch: `n_outputs` of them a round."""

    settings: Settings
    n_outputs: int
    number: int

    @property
    def n_trees(self) -> int:
        """How many trees the batch has."""
        return len(self.settings.batch(self.number)) * self.n_outputs

    @property
    def output_of_tree(self) -> Integers:
        """The output that each tree adds to."""
        return np.arange(self.n_trees) % self.n_outputs

    @property
    def keys(self) -> Keys:
        """The key of each tree."""
        first = self.settings.batch(self.number).start * self.n_outputs
        return tree_keys(self.settings.seed, first + self.n_trees)[first:]

    @property
    def scale(self) -> float:
        """What a leaf's step is multiplied with: the learning rate over the trees of a batch."""
        return self.settings.learning_rate / len(self.settings.batch(self.number))

    def draws(self, n_columns: int) -> Draws:
        """Return how the batch's nodes draw columns and cells."""
        settings = self.settings
        return Draws(
            n_columns,
            settings.max_cells,
            _LEAST_CELLS,
            shared_phase=settings.max_features >= 1.0,
            # A leaf has so many rows at least; finer cells would tell of rows more than of cuts.
            cell_bits=settings.min_samples_leaf.bit_length() - 1,
        )


def target_of(label: Label, settings: Settings) -> tuple[float, float]:
    """Return the declared range of a number; raise if the loss does not fit it."""
    low, high = target_range(label)
    if settings.loss == "poisson" and not 0.0 <= low < high:
        raise SettingError(
            f"loss='poisson' is for counts; the range of the label {label.name!r} goes from "
            f"{low:g} to {high:g}. Declare a range from 0 on, or use loss='squared_error'."
        )
    return low, high


def count_from_zero(counts: Integers, target: tuple[float, float]) -> Integers:
    """Return sums of targets that count from the range's begin as sums that count from 0."""
    n, total = (int(count) for count in counts)
    floor = round(target[0] / target[1] * 2**SCORE_BITS)
    steps = 2**SCORE_BITS - 1
    return np.array([n, n * floor + total * (2**SCORE_BITS - floor) // steps], np.int64)


def weigh_classes(counts: Integers, weights: Floats) -> Integers:
    """Return the weight of each class's rows, as whole numbers in proportion."""
    shares: Floats = counts * (weights / weights.max())
    return np.rint(shares * 2.0**20).astype(np.int64)
