"""`PrivateForestClassifier`: a forest that spends its epsilon once, in one secure sum."""

from typing import Any, Literal, Self

from msgspec import UNSET
from msgspec.structs import replace

from spinney.estimators.base import PredictsClasses
from spinney.estimators.private_base import PrivateRowsEstimator
from spinney.protocols import private_forest
from spinney.protocols.private_forest.sizing import choose_size, strength_of
from spinney.protocols.settings import require_int
from spinney.protocols.spec import Spec
from spinney.seeds import job_seed
from spinney.tables.schema import Schema


class PrivateForestClassifier(PredictsClasses, PrivateRowsEstimator):
    """A differentially private forest over parties that hold different rows.

    Trees are drawn at random within the public ranges of the columns, which costs no budget. The
    whole budget goes to the class counts of their leaves, in one secure sum. The forest works best
    if many columns each carry a little information and the ranges are well chosen. For a model
    that people can read, use `PrivateTreeClassifier`.

    Parameters
    ----------
    epsilon
        The budget of the whole forest: pure, record-level differential privacy for a record that
        is added or removed. `ledger_` shows that it was spent.
    delta
        The chance with which epsilon may not hold for a record: noise is Gaussian, and smaller.
        None: epsilon is pure.
    n_estimators
        The number of trees; each has a share of the budget. None: chosen from `n_rows`, epsilon,
        columns and classes (`protocols.private_forest.sizing`); `choice_` names the choice.
    max_depth
        The depth of every tree; each has 2**max_depth leaves. None: chosen in the same way.
    sharpness
        How much further from the classes' shares of all rows a leaf's shares are moved, because a
        mean over random trees is too cautious: the power of their ratio. It costs no budget. None:
        chosen with the size; 1, which changes nothing, if the size is given.
    shrinkage
        How strongly a leaf is shrunk towards its parents, in standard deviations of its noise.
    secure_sum
        Secure aggregation: whether masks hide the parties' counts, so that they share the noise of
        one sum. Otherwise each party adds enough noise for itself, and the sum carries all of it.
    honest
        The number of parties that secure sums trust to keep their secrets; by default half of
        them, rounded up.
    n_rows
        The approximate number of rows of all parties together, as a public fact. None: 4,000 are
        assumed; without a schema they are counted, which only a simulation may do.
    schema
        The public facts: kinds, ranges, categories, classes. None: read from the data, which only
        a simulation may do.
    categorical_features, unknown_categories
        As in `HorizontalForestClassifier`.
    baselines
        Whether `fit` also trains forests without privacy, one on the pooled rows and one on each
        party's rows, for `compare`; only in a simulation.
    random_state
        Fixes the trees' shapes, not the noise.
    n_jobs, verbose
        As in `HorizontalForestClassifier`.

    Attributes
    ----------
    classes_, n_classes_, n_features_in_, feature_names_in_, feature_importances_
        As in scikit-learn; importances follow from noisy counts.
    model_, report_, ledger_
        As in `HorizontalForestClassifier`.
    choice_
        The size, and the public facts from which it follows.
    baselines_
        The models without privacy, if requested: "pooled", and "local" by party.
    """

    _is_classifier = True

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float | None = None,
        n_estimators: int | None = None,
        max_depth: int | None = None,
        shrinkage: float = 1.0,
        sharpness: float | None = None,
        n_rows: int | None = None,
        secure_sum: bool = True,
        honest: int | None = None,
        schema: Schema | None = None,
        categorical_features: Any = "from_dtype",
        unknown_categories: Literal["refuse", "as_missing"] = "refuse",
        baselines: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self._keep(locals())

    @property
    def _spec(self) -> Spec[private_forest.Settings]:
        return private_forest.SPEC

    @property
    def _is_sized(self) -> bool:
        """Whether the size is given."""
        return self.n_estimators is not None and self.max_depth is not None

    def _sizes_read(self) -> tuple[str, ...]:
        is_counted = self.n_rows is None and self.schema is None and not self._is_sized
        return ("number of rows",) if is_counted else ()

    def _settings(self, classes: tuple[Any, ...], sizes: dict[str, int]) -> private_forest.Settings:
        privacy = self._privacy(sizes)
        n_rows = self.n_rows
        if n_rows is not None:
            require_int("n_rows", n_rows, 1, "or None")
        elif self.schema is None:
            n_rows = sum(sizes.values())
        size = choose_size(
            n_rows=n_rows,
            epsilon=strength_of(privacy),
            n_columns=self.n_features_in_,
            n_classes=len(classes),
            message_limit=private_forest.Settings.message_limit,
            n_estimators=self.n_estimators,
            max_depth=self.max_depth,
            budget=None
            if self.delta is None
            else f"epsilon {self.epsilon:g}, delta {self.delta:g}",
        )
        sharpness = self.sharpness
        if sharpness is None:
            sharpness = UNSET if self._is_sized else size.sharpness
        settings = private_forest.Settings(
            privacy=privacy,
            n_estimators=size.n_estimators,
            max_depth=size.max_depth,
            shrinkage=self.shrinkage,
            seed=job_seed(self.random_state),
            sharpness=sharpness,
        )
        self.choice_ = "the size was given" if self._is_sized else size.why
        return settings

    def fit(self, X: Any, y: Any, party: Any = None, **others: Any) -> Self:
        """Draw the trees and count their leaves; `party` names the party of each row."""
        super().fit(X, y, party, **others)
        if not self._is_sized:
            told = {**self.report_.settings, "size": self.choice_}
            self.report_ = replace(self.report_, settings=told)
        return self
