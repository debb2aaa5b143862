"""`ExtraTreesClassifier` and `ExtraTreesRegressor`: scikit-learn faces of S5."""

import os
from collections.abc import Mapping
from typing import Any, Literal

from sklearn.base import RegressorMixin

from spinney.errors import SettingError
from spinney.estimators.base import PredictsClasses
from spinney.estimators.label_privacy import label_noise_of, memories
from spinney.estimators.row_forest import RowForest
from spinney.privacy.label_memory import LabelMemory
from spinney.protocols import extra_trees
from spinney.protocols.settings import ForestSettings, LabelScheme, MaxFeatures, TreeRows
from spinney.protocols.spec import Spec
from spinney.tables.schema import Schema
from spinney.tables.table import MemoryTable
from spinney.typing import Floats

Binning = Literal["magnitudes", "ranges", "quantiles"]
Thresholds = Literal["public", "exchanged"]
LabelPrivacy = Literal["local", "laplace"]


class _ExtraTrees(RowForest):
    """What classifier and regressor share."""

    @property
    def _is_private(self) -> bool:
        return self.label_privacy is not None

    @property
    def _needs_ranges(self) -> bool:
        return self.binning != "quantiles" or self._is_private

    def _checked(self) -> None:
        super()._checked()
        if self.secure_sum and self.thresholds == "exchanged":
            raise SettingError(
                "thresholds='exchanged' cannot be masked: the coordinator compares each party's "
                "smallest and largest values. Use thresholds='public' with secure_sum=True."
            )
        if self.honest is not None and not self.secure_sum:
            raise SettingError(
                "honest says how many parties' secrets a secure sum rests on. It needs "
                "secure_sum=True."
            )

    def _settings(self, classes: tuple[Any, ...], sizes: dict[str, int]) -> ForestSettings:  # noqa: ARG002
        noise = label_noise_of(self)
        return ForestSettings(
            **self._shared_settings(classes),
            binning=noise.binning(self.binning),
            bootstrap=self.bootstrap,
            thresholds=self.thresholds,
            privacy=noise.privacy(is_regression=not self._is_classifier),
        )

    @property
    def _spec(self) -> Spec[ForestSettings]:
        return extra_trees.SPEC

    def _memories(self, tables: Mapping[str, MemoryTable]) -> dict[str, LabelMemory]:
        return memories(self, tables)


class ExtraTreesClassifier(PredictsClasses, _ExtraTrees):
    r"""Extremely randomised trees grown jointly by parties that hold different rows (S5).

    Of each node's features one cut each is drawn, not sought, and the best of these wins. With
    `party` given to `fit` the rows are dealt to simulated parties; the forest is the same, bit for
    bit, as with all rows in one place. Parameters are scikit-learn's where it has them.

    Parameters
    ----------
    n_estimators, criterion, max_depth, min_samples_split, min_samples_leaf, max_features, \
    min_weight_fraction_leaf, min_impurity_decrease, bootstrap, class_weight, oob_score, \
    random_state, n_jobs
        As in scikit-learn's `ExtraTreesClassifier`, but for `n_jobs`: None means all cores.
    max_leaf_nodes
        Refused unless None: trees grow a level at a time.
    max_bins
        How finely numbers are told apart: bins in a table, 2 to 255.
    binning
        The scale on which cuts are drawn, inside the declared ranges: "magnitudes", finer where
        the parties' summed counts of magnitudes say that rows are; "ranges", equal parts, for which
        nothing is counted; "quantiles" of the pooled table, which take up to 3 rounds more.
    thresholds
        "public": cuts are drawn in the declared range as far as the path leaves it open. Nobody
        tells a smallest or largest value; a level is one round. "exchanged": as in the paper,
        between each node's smallest and largest bin, which the parties tell; two rounds a level.
    label_privacy
        None: counts are exact. "local": every label is randomised once, at its party, and nothing
        else is ever used. "laplace": counts carry noise, which hides a whole record.
    label_scheme
        With "local", how a label is randomised: "randomised_response" (k-ary), "bloom" (the
        paper's Bloom filters), or "unary" for many classes.
    epsilon
        With "local", the price of a label, 2 unless given; the Bloom filters' is 8 ln 3. With
        "laplace", the budget of the whole forest.
    label_memory
        With "local", a folder where parties keep their randomised labels, encrypted, from one fit
        to the next; those of rows that are not in the table any more are erased. None: all are
        forgotten after the fit.
    tree_rows, sample_rate, leaf_share
        With "laplace", as in `HorizontalForestClassifier`.
    categorical_features
        "from_dtype", None, or which columns are categories: names, positions or a mask.
    unknown_categories
        What `predict` does with a category it has never seen: "refuse" it, or take it
        "as_missing".
    schema
        The public facts: kinds, ranges, categories, classes. None: read from the data.
    secure_sum
        Whether replies that are to be added up are masked, so that the coordinator can read only
        their sum. The forest is the same. With "laplace" the parties then share the noise.
    message_limit
        How many bytes of counters one reply may hold before it is packed; a level that needs more
        is asked for in several rounds. The forest is the same.
    honest
        How many parties secure sums count on to keep their secrets; half of them, rounded up.
    verbose
        Print progress.

    Attributes
    ----------
    classes_, n_classes_, n_features_in_, feature_names_in_, feature_importances_, oob_score_
        As in scikit-learn.
    model_
        The trained forest, which predicts on its own.
    report_
        What happened: quality, traffic, time, disclosures, and what privacy is promised to whom.
    ledger_
        The ledger of each simulated party, by its name; empty without privacy.
    """

    _is_classifier = True

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        criterion: Literal["gini", "entropy"] = "gini",
        max_depth: int | None = None,
        min_samples_split: float = 2,
        min_samples_leaf: float = 1,
        min_weight_fraction_leaf: float = 0.0,
        min_impurity_decrease: float = 0.0,
        max_features: MaxFeatures = "sqrt",
        max_leaf_nodes: int | None = None,
        max_bins: int = 255,
        binning: Binning = "magnitudes",
        bootstrap: bool = False,
        class_weight: Any = None,
        oob_score: bool = False,
        thresholds: Thresholds = "public",
        label_privacy: LabelPrivacy | None = None,
        label_scheme: LabelScheme = "randomised_response",
        epsilon: float | None = None,
        label_memory: str | os.PathLike[str] | None = None,
        tree_rows: TreeRows = "disjoint",
        sample_rate: float = 0.5,
        leaf_share: float = 0.25,
        categorical_features: Any = "from_dtype",
        unknown_categories: Literal["refuse", "as_missing"] = "refuse",
        schema: Schema | None = None,
        secure_sum: bool = False,
        message_limit: int = 256 << 20,
        honest: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self._keep(locals())


class ExtraTreesRegressor(RegressorMixin, _ExtraTrees):  # type: ignore[misc]
    """Extremely randomised trees for numbers, grown jointly by parties with different rows (S5).

    As `ExtraTreesClassifier`; the criterion is the variance. Targets travel as sums of fixed-point
    numbers over their declared range. `label_privacy="local"` is for classes only.
    """

    _is_classifier = False

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        criterion: Literal["squared_error"] = "squared_error",
        max_depth: int | None = None,
        min_samples_split: float = 2,
        min_samples_leaf: float = 1,
        min_weight_fraction_leaf: float = 0.0,
        min_impurity_decrease: float = 0.0,
        max_features: MaxFeatures = 1.0,
        max_leaf_nodes: int | None = None,
        max_bins: int = 255,
        binning: Binning = "magnitudes",
        bootstrap: bool = False,
        oob_score: bool = False,
        thresholds: Thresholds = "public",
        label_privacy: LabelPrivacy | None = None,
        label_scheme: LabelScheme = "randomised_response",
        epsilon: float | None = None,
        label_memory: str | os.PathLike[str] | None = None,
        tree_rows: TreeRows = "disjoint",
        sample_rate: float = 0.5,
        leaf_share: float = 0.25,
        categorical_features: Any = "from_dtype",
        unknown_categories: Literal["refuse", "as_missing"] = "refuse",
        schema: Schema | None = None,
        secure_sum: bool = False,
        message_limit: int = 256 << 20,
        honest: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self._keep(locals())

    def predict(self, X: Any) -> Floats:
        """Return the predicted target of each row."""
        return self._predicted(X)[:, 0]
