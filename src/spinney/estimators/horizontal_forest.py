"""`HorizontalForestClassifier` and `HorizontalForestRegressor`: scikit-learn estimators of S1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from spinney.errors import SettingError
from spinney.estimators.base import PredictsClasses, PredictsNumbers
from spinney.estimators.private import noise_of
from spinney.estimators.row_forest import RowForest
from spinney.tables.schema import Schema
from spinney.trees.threads import thread_count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spinney.protocols.settings import ForestSettings, MaxFeatures, MechanismName, TreeRows
    from spinney.protocols.spec import Spec
    from spinney.tables.outside import Outside
    from spinney.tables.table import MemoryTable

Binning = Literal["quantiles", "ranges", "adaptive"]


class _HorizontalForest(RowForest):
    """Checks and settings of classifier and regressor."""

    @property
    def _outside(self) -> Outside:
        keeps = self._is_private and self.mechanism == "perturbed_input"
        return "keep" if keeps else super()._outside

    def _checked(self) -> None:
        super()._checked()
        if self.secure_sum and self.binning == "adaptive":
            raise SettingError(
                "binning='adaptive' cannot be masked: the coordinator merges each party's own "
                "histograms. Use binning='quantiles' or 'ranges' with secure_sum=True."
            )

    def _settings(self, classes: tuple[Any, ...], sizes: dict[str, int]) -> ForestSettings:  # noqa: ARG002
        from spinney.protocols.settings import ForestSettings  # noqa: PLC0415  loaded late

        noise = noise_of(self)
        noisy = noise.is_noisy
        return ForestSettings(
            **self._shared_settings(classes),
            max_cells=self.max_cells,
            binning="ranges" if noisy and self.binning == "quantiles" else self.binning,
            bootstrap=False if noisy else self.bootstrap,
            privacy=noise.privacy(),
        )

    @property
    def _spec(self) -> Spec[ForestSettings]:
        from spinney.protocols.horizontal_forest import SPEC  # noqa: PLC0415  loads numba

        return SPEC

    def _n_at_once(self, tables: Mapping[str, MemoryTable]) -> int:
        del tables
        return min(2, thread_count(self.n_jobs))


class HorizontalForestClassifier(PredictsClasses, _HorizontalForest):
    r"""A random forest grown jointly by parties that hold different rows (S1).

    With `party` in `fit`, the rows are dealt to simulated parties; the forest is identical, bit for
    bit, to the forest of all rows in one place. Parameters have scikit-learn's names where they
    exist.

    Parameters
    ----------
    n_estimators, criterion, max_depth, min_samples_split, min_samples_leaf, max_features, \
    min_weight_fraction_leaf, min_impurity_decrease, bootstrap, class_weight, oob_score, \
    random_state, n_jobs
        As in scikit-learn's `RandomForestClassifier`, with two differences. `n_jobs=None` means
        all cores. `min_samples_split` and `min_samples_leaf` count a row as often as the bootstrap
        drew it, while scikit-learn counts it once: a leaf of 5 may hold one row drawn five times.
    max_leaf_nodes
        Must be None, because trees grow one level at a time.
    max_samples
        Must be None: a bootstrap draws each row by its own key.
    warm_start
        With more `n_estimators`, a second `fit` adds trees: it keeps the seed, so that on the same
        rows the first trees are grown again as they were.
    max_bins
        The largest number of bins per numeric column, 2 to 255.
    max_cells
        The most cells per column in a node's histogram, which covers the bins its path leaves open.
    binning
        "quantiles" of the pooled table, found by counting; "ranges", equal parts of the schema's
        declared ranges; "adaptive", the paper's own histograms (not exact over parties).
    categorical_features
        "from_dtype", None, or which columns are categories: names, positions or a mask.
    unknown_categories
        What `predict` does with an unseen category: "refuse" raises an error, "as_missing" treats
        it as a missing value.
    schema
        The public facts: kinds, ranges, categories, classes. None: read from the data.
    secure_sum
        Secure aggregation: whether masks hide the replies that are summed, so that the coordinator
        can read only their sum; it sees the parties' schemas in any case. Without it the
        coordinator sums replies that it could read. The forest is the same. With noisy histograms
        the parties then share the noise of a sum.
    message_limit
        The most bytes of counters in one reply, before packing; a level that needs more takes
        several rounds. The forest is the same.
    honest
        The number of parties that secure sums trust to keep their secrets; by default half of
        them, rounded up.
    epsilon
        The budget of the whole forest (pure differential privacy); None: no noise. `fit` divides
        it; `ledger_` shows what was spent. Noisy histograms hide a record that is added or removed
        (record-level differential privacy). They need `max_depth`, and few, shallow trees, because
        each tree takes its share of the budget.
    epsilon_per_count
        Instead of `epsilon`, noise as in the paper: this epsilon for each single count, whatever
        the total. `ledger_` shows the true total.
    mechanism
        "noisy_histograms": noise on all counts, over bins of declared ranges ("quantiles" becomes
        "ranges"), without a bootstrap or scores. "perturbed_input": noise on each row, once, which
        hides a record that is replaced by another; all later steps are as without noise.
    tree_rows
        With noisy histograms, which of a party's rows a tree reads: "all", "disjoint" parts, rows
        "sampled" by secret coins, or, with `epsilon_per_count`, a "bootstrap".
    sample_rate
        The probability that a row is in a tree's sample.
    leaf_share
        The share of a tree's budget that pays for counting its leaves once more at the end.
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
        The ledger of each simulated party, by name; empty without noise.
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
        max_cells: int = 33,
        binning: Binning = "quantiles",
        bootstrap: bool = True,
        class_weight: Any = None,
        oob_score: bool | Callable[[Any, Any], float] = False,
        max_samples: None = None,
        warm_start: bool = False,
        categorical_features: Any = "from_dtype",
        unknown_categories: Literal["refuse", "as_missing"] = "refuse",
        schema: Schema | None = None,
        secure_sum: bool = False,
        message_limit: int = 320 << 20,
        honest: int | None = None,
        epsilon: float | None = None,
        epsilon_per_count: float | None = None,
        mechanism: MechanismName = "noisy_histograms",
        tree_rows: TreeRows = "disjoint",
        sample_rate: float = 0.5,
        leaf_share: float = 0.25,
        baselines: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self._keep(locals())


class HorizontalForestRegressor(PredictsNumbers, _HorizontalForest):
    """A random forest regressor grown jointly by parties that hold different rows (S1).

    Parameters are those of `HorizontalForestClassifier`; the criterion is the variance. Targets
    travel as sums of fixed-point numbers over their declared range.
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
        max_cells: int = 33,
        binning: Binning = "quantiles",
        bootstrap: bool = True,
        oob_score: bool | Callable[[Any, Any], float] = False,
        max_samples: None = None,
        warm_start: bool = False,
        categorical_features: Any = "from_dtype",
        unknown_categories: Literal["refuse", "as_missing"] = "refuse",
        schema: Schema | None = None,
        secure_sum: bool = False,
        message_limit: int = 320 << 20,
        honest: int | None = None,
        epsilon: float | None = None,
        epsilon_per_count: float | None = None,
        mechanism: MechanismName = "noisy_histograms",
        tree_rows: TreeRows = "disjoint",
        sample_rate: float = 0.5,
        leaf_share: float = 0.25,
        baselines: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self._keep(locals())
