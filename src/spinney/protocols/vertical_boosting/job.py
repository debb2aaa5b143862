"""What every question of boosting over columns repeats."""

from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from spinney.errors import ProtocolError
from spinney.protocols.boosted.objective import (
    BatchTrees,
    Objective,
    count_from_zero,
    weigh_classes,
)
from spinney.protocols.boosted.settings import Settings
from spinney.protocols.columns.job import Target, weigh_classes_of
from spinney.protocols.columns.settings import Labels
from spinney.transport.messages import kept_beside, message
from spinney.trees.batch import ColumnRules
from spinney.trees.draws import OpenKeys
from spinney.trees.dtypes import MAX_ROWS
from spinney.trees.growth import StoppingRules
from spinney.trees.losses import LOSSES, SCORE_BITS
from spinney.typing import Bools


@message
class BoostedJob:
    """The terms of a job, which every party sees."""

    settings: Settings
    labels: Labels
    n_rows: int
    n_classes: int  # 0 for regression
    label_epsilon: str | None = None  # labels are randomised, at this cost
    name: str = ""  # what the label party's ledger debits
    n_parties: int = 1
    scheme: str = "auto"  # of the encryption
    key_bits: int = 2048

    def __post_init__(self) -> None:
        if not 0 < self.n_rows < MAX_ROWS:
            raise ProtocolError(f"A job must have 1 to {MAX_ROWS} rows.")

    @kept_beside
    def digest(self) -> str:
        """A digest of the whole job."""
        return sha256(repr(self).encode()).hexdigest()

    @property
    def target_bits(self) -> int:
        """The number of bits of a fixed-point target."""
        return SCORE_BITS

    @property
    def n_outputs(self) -> int:
        """How many scores a row has."""
        return LOSSES[self.settings.loss].n_outputs(self.n_classes)

    @property
    def is_constrained(self) -> bool:
        """Whether some column may change the prediction in one direction only."""
        return any(direction for _, direction in self.settings.monotonic_cst)

    @property
    def rules(self) -> StoppingRules:
        """The rules by which nodes become leaves."""
        settings = self.settings
        return StoppingRules(
            settings.max_depth, 2, settings.min_samples_leaf, 0.0, is_regression=True
        )

    def batch(self, number: int) -> "BatchOfColumns":
        """Return a batch of the job's trees."""
        return BatchOfColumns(self.settings, self.n_outputs, number)


@dataclass(frozen=True)
class BatchOfColumns(BatchTrees):
    """One batch of a job's trees."""

    settings: Settings
    n_outputs: int
    number: int

    def open_keys(self, exhausted: Bools) -> OpenKeys:
        """Return the keys of the roots, given which columns have only one value."""
        rules = ColumnRules(self.settings.colsample_bytree, self.settings.max_features)
        return OpenKeys.of_batch(self.keys, rules, exhausted)


@dataclass(frozen=True)
class KnownObjective(Objective):
    """What is minimised, at a party that knows the labels; the others know no more than the loss.

    `base` is the score of each output before the first tree.
    """

    settings: Settings
    n_classes: int
    class_weight: tuple[float, ...]
    target: tuple[float, float]
    base: tuple[int, ...]

    @classmethod
    def unknown(cls, job: BoostedJob) -> "KnownObjective":
        """Return the objective at a party that does not know the labels."""
        return cls(job.settings, job.n_classes, (1.0,) * job.n_classes, (0.0, 1.0), ())

    @classmethod
    def of(cls, job: BoostedJob, labels: Target, target: tuple[float, float]) -> "KnownObjective":
        """Return the objective for labels; `target` is the range of a number."""
        settings = job.settings
        weights, counts = weigh_classes_of(settings, labels, job.n_classes)
        if not job.n_classes:
            counts = np.array([labels.size, labels.sum(dtype=np.int64)], np.int64)
            if settings.loss == "poisson":
                counts = count_from_zero(counts, target)
        elif settings.class_weight is not None:
            counts = weigh_classes(counts, weights)
        base = LOSSES[settings.loss].base(counts)
        return cls(settings, job.n_classes, tuple(weights.tolist()), target, tuple(base.tolist()))
