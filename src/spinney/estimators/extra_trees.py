"""`ExtraTreesClassifier` and `ExtraTreesRegressor`: the scikit-learn estimators of S5."""

import os
from collections.abc import Callable, Mapping
from typing import Any, Literal

from spinney.errors import SettingError
from spinney.estimators.base import PredictsClasses, PredictsNumbers
from spinney.estimators.label_privacy import label_noise_of, memories
from spinney.estimators.row_forest import RowForest
from spinney.privacy.label_memory import LabelMemory
from spinney.protocols import extra_trees
from spinney.protocols.settings import ForestSettings, LabelScheme, MaxFeatures, TreeRows
from spinney.protocols.spec import Spec
from spinney.tables.outside import Outside
from spinney.tables.schema import Schema
from spinney.tables.table import MemoryTable

Binning = Literal["magnitudes", "ranges", "quantiles"]
Thresholds = Literal["public", "exchanged"]
LabelPrivacy = Literal["local", "laplace"]


class _ExtraTrees(RowForest):
    """Checks and settings of classifier and regressor."""

    @property
    def _is_private(self) -> bool:
        return self.label_privacy is not None

    @property
    def _outside(self) -> Outside:
        return "keep" if self.label_privacy == "local" else super()._outside

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
                "honest is the number of parties that must be honest for a secure sum. It needs "
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

    One random cut is drawn per candidate feature, and the best of these cuts becomes the split.
    With `party` in `fit`, the rows are dealt to simulated parties; the forest is identical, bit for
    bit, to the forest of all rows in one place. Parameters have scikit-learn's names where they
    exist.

    Parameters
    ----------
    n_estimators, criterion, max_depth, min_samples_split, min_samples_leaf, max_features, \
    min_weight_fraction_leaf, min_impurity_decrease, bootstrap, class_weight, oob_score, \
    random_state, n_jobs
        As in scikit-learn's `ExtraTreesClassifier`, except that `n_jobs=None` means all cores.
    max_leaf_nodes
        Must be None, because trees grow one level at a time.
    max_samples
        Must be None: a bootstrap draws each row by its own key.
    warm_start
        With more `n_estimators`, a second `fit` adds trees: it keeps the seed, so that on the same
        rows the first trees are grown again as they were.
    max_bins
        The largest number of bins per numeric column, 2 to 255.
    binning
        The scale on which cuts are drawn. "quantiles" of the pooled table, as in forests: found by
        counting, in up to 3 rounds. "magnitudes": finer where the rows are, according to a single
        sum of counts of magnitudes; it reveals less, and on smooth columns trees are a little
        worse. "ranges": equal parts of declared ranges, which needs no counts.
    thresholds
        "public": cuts are drawn within the part of the declared range that the path leaves open.
        No party reveals a smallest or largest value; a level takes one round. "exchanged": as in
        the paper, cuts are drawn between each node's smallest and largest bin, which the parties
        reveal; a level takes two rounds.
    label_privacy
        None: counts are exact. "local": each party randomises every label once, and uses only the
        randomised labels. "laplace": counts carry noise, which hides a whole record.
    label_scheme
        With "local", how a label is randomised: "randomised_response" (k-ary), "bloom" (the
        paper's Bloom filters), or "unary" for many classes.
    epsilon
        With "local", the epsilon of one label: 2 by default, 8 ln 3 for Bloom filters. With
        "laplace", the budget of the whole forest.
    label_memory
        With "local", a folder where parties keep their randomised labels, encrypted, from one fit
        to the next; labels of rows that have left the table are erased. None: all are forgotten
        after the fit.
    tree_rows, sample_rate, leaf_share
        With "laplace", as in `HorizontalForestClassifier`.
    categorical_features
        "from_dtype", None, or which columns are categories: names, positions or a mask.
    unknown_categories
        What `predict` does with an unseen category: "refuse" raises an error, "as_missing" treats
        it as a missing value.
    schema
        The public facts: kinds, ranges, categories, classes. None: read from the data.
    secure_sum
        Secure aggregation: whether masks hide the replies that are summed, so that the coordinator
        can read only their sum. The forest is the same. With "laplace" the parties then share the
        noise.
    message_limit
        The most bytes of counters in one reply, before packing; a level that needs more takes
        several rounds. The forest is the same.
    honest
        The number of parties that secure sums trust to keep their secrets; by default half of
        them, rounded up.
    baselines
        Whether `fit` also trains the pooled model and each party's own, without noise, for
        `compare`.
    verbose
        Print progress.

    Attributes
    ----------
    classes_, n_classes_, n_features_in_, feature_names_in_, feature_importances_, oob_score_, \
    oob_decision_function_
        As in scikit-learn; `oob_prediction_` for numbers.
    estimators_
        The trees as `to_sklearn` makes them: a view, made anew each time.
    model_
        The trained forest, which predicts by itself.
    report_
        The report: quality, traffic, time, disclosures, and the privacy guarantees.
    ledger_
        The ledger of each simulated party, by name; empty without privacy.
    """

    _is_classifier = True

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        criterion: Literal["gini", "entropy", "log_loss"] = "gini",
        max_depth: int | None = None,
        min_samples_split: float = 2,
        min_samples_leaf: float = 1,
        min_weight_fraction_leaf: float = 0.0,
        min_impurity_decrease: float = 0.0,
        max_features: MaxFeatures = "sqrt",
        max_leaf_nodes: int | None = None,
        max_bins: int = 255,
        binning: Binning = "quantiles",
        bootstrap: bool = False,
        class_weight: Any = None,
        oob_score: bool | Callable[[Any, Any], float] = False,
        max_samples: None = None,
        warm_start: bool = False,
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
        message_limit: int = 320 << 20,
        honest: int | None = None,
        baselines: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self._keep(locals())


class ExtraTreesRegressor(PredictsNumbers, _ExtraTrees):
    """Extremely randomised regression trees, grown jointly by parties with different rows (S5).

    Parameters are those of `ExtraTreesClassifier`; the criterion is the variance. Targets travel as
    sums of fixed-point numbers over their declared range. `label_privacy="local"` needs classes.
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
        binning: Binning = "quantiles",
        bootstrap: bool = False,
        oob_score: bool | Callable[[Any, Any], float] = False,
        max_samples: None = None,
        warm_start: bool = False,
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
        message_limit: int = 320 << 20,
        honest: int | None = None,
        baselines: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self._keep(locals())
