"""What every question of a vertical forest repeats."""

from dataclasses import replace
from hashlib import sha256

import numpy as np

from spinney.errors import ProtocolError
from spinney.protocols.columns.job import Target, weigh_classes_of
from spinney.protocols.columns.settings import Labels
from spinney.protocols.rows.facts import target_range
from spinney.protocols.settings import ForestSettings
from spinney.seeds import derive_seed
from spinney.tables.schema import Label
from spinney.transport.messages import kept_beside, message
from spinney.trees.dtypes import MAX_ROWS, MAX_WEIGHT, target_bits
from spinney.trees.frontier import Draws, tree_keys
from spinney.trees.growth import StoppingRules
from spinney.trees.layout import LeafValues
from spinney.trees.rows import bootstrap_weights
from spinney.typing import Floats, Keys


@message
class Job:
    """The terms of a vertical job, which every party sees."""

    settings: ForestSettings  # its seed draws only the samples
    labels: Labels
    n_rows: int
    n_classes: int  # 0 for regression
    target_step: float  # one fixed-point step in the target's units
    every_column: bool  # whether a node is asked about all columns of all parties
    label_epsilon: str | None = None  # labels are randomised, at this cost
    name: str = ""  # what the label party's ledger debits
    n_parties: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.n_rows < MAX_ROWS:
            raise ProtocolError(f"A job must have 1 to {MAX_ROWS} rows.")

    @kept_beside
    def digest(self) -> str:
        """A digest of the whole job."""
        return sha256(repr(self).encode()).hexdigest()

    @property
    def sample_keys(self) -> Keys:
        """The key of every tree's sample."""
        return tree_keys(self.settings.seed, self.settings.n_estimators)

    @property
    def target_bits(self) -> int:
        """The number of bits of a fixed-point target."""
        return target_bits(self.n_rows)

    @property
    def root_bits(self) -> int:
        """The bits of a root's number of rows, counted as often as they are drawn."""
        times = MAX_WEIGHT if self.settings.bootstrap else 1
        return (self.n_rows * times).bit_length()

    @property
    def draws(self) -> Draws:
        """How cells are laid out."""
        return Draws(0, self.settings.max_cells, 4, shared_phase=self.every_column)

    @property
    def rules(self) -> StoppingRules:
        """The rules by which nodes become leaves."""
        settings = self.settings
        return StoppingRules(
            settings.max_depth,
            settings.least_rows(settings.min_samples_split, self.n_rows),
            settings.least_rows(settings.min_samples_leaf, self.n_rows),
            settings.min_impurity_decrease,
            is_regression=self.n_classes == 0,
        )

    def heaviest(self, keys: Keys) -> int:
        """Return the number of rows in the largest sample, counted as often as drawn."""
        if not self.settings.bootstrap:
            return self.n_rows
        samples = (bootstrap_weights(key, keys) for key in self.sample_keys)
        return max(int(weights.sum(dtype=np.int64)) for weights in samples)

    def class_weights(self, target: Target) -> Floats:
        """Return a weight for each class; empty for regression."""
        return weigh_classes_of(self.settings, target, self.n_classes)[0]


def target_step(label: Label, n_rows: int) -> float:
    """Return what one fixed-point step of a target means; 1 for classes."""
    if label.kind == "class":
        return 1.0
    low, high = target_range(label)
    return float((high - low) / (2 ** target_bits(n_rows) - 1))


def values_of_leaves(label: Label, weights: Floats, n_rows: int) -> LeafValues:
    """Return how leaf values follow from a node's moments."""
    if label.kind == "class":
        return LeafValues(weights)
    low, step = target_range(label)[0], target_step(label, n_rows)
    return LeafValues(weights, low, step, target_bits(n_rows))


def public_settings(forest: ForestSettings) -> ForestSettings:
    """Return the settings that parties see: the samples have their own seed.

    Nobody can derive from it which columns were drawn.
    """
    return replace(forest, seed=derive_seed(forest.seed, 1))
