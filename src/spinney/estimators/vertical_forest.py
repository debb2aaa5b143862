"""`VerticalForestClassifier` and `VerticalForestRegressor`: the scikit-learn estimators of S2."""

from typing import Any, Literal, Self

from sklearn.utils.multiclass import check_classification_targets

from spinney.estimators.base import PredictsClasses, PredictsNumbers
from spinney.estimators.inputs import is_complete
from spinney.estimators.vertical_base import ColumnsEstimator
from spinney.protocols.columns.settings import Labels, Place, SchemeName
from spinney.protocols.settings import ForestSettings, MaxFeatures, refuse_max_leaf_nodes
from spinney.protocols.vertical_forest.settings import VerticalSettings
from spinney.tables.schema import Schema
from spinney.typing import Floats, Integers

Binning = Literal["quantiles", "ranges"]


class _VerticalForest(ColumnsEstimator):
    """The settings of classifier and regressor."""

    def _vertical_settings(self, classes: tuple[Any, ...]) -> VerticalSettings:
        refuse_max_leaf_nodes(self.max_leaf_nodes)
        return VerticalSettings(
            forest=ForestSettings(
                max_cells=self.max_cells,
                binning=self.binning,
                bootstrap=self.bootstrap,
                **self._forest_settings(classes),
            ),
            **self._label_settings(),
        )

    @property
    def _family(self) -> Any:
        from spinney.protocols import vertical_forest  # noqa: PLC0415  loads numba

        return vertical_forest

    def _keep_training(self, training: Any) -> None:
        if self.oob_score:
            self.oob_score_ = training.score


class VerticalForestClassifier(PredictsClasses, _VerticalForest):
    r"""A random forest grown jointly by parties that hold different columns of the same rows (S2).

    The forest is identical, bit for bit, to the forest of all columns in one place. Parameters have
    scikit-learn's names where they exist.

    Parameters
    ----------
    n_estimators, criterion, max_depth, min_samples_split, min_samples_leaf, max_features, \
    min_weight_fraction_leaf, min_impurity_decrease, bootstrap, class_weight, oob_score, \
    random_state, n_jobs
        As in scikit-learn's `RandomForestClassifier`, except that `n_jobs=None` means all cores.
    max_leaf_nodes
        Must be None, because trees grow one level at a time.
    column_party
        Which party holds which columns: a dict of lists of names, or of positions for an array; see
        `deal_columns`. None: one party holds all. A party with an empty list may hold the labels.
    label_party
        Which party holds the labels.
    labels
        "shared": every party gets the encoded labels, as in the paper; two classes are easy to
        tell apart. "encrypted": only the label party has them; the others sum ciphertexts.
    label_epsilon
        The epsilon for randomising every label once, before anything leaves the label party (pure
        label differential privacy). None: exact labels. Works with both values of `labels`.
    scheme
        The encryption: "okamoto-uchiyama", "paillier" (slower), or "auto", the first.
    key_bits
        The length of its modulus: 2048 or 3072.
    intersect_at
        Who intersects leaf sets in predictions: "label_party" or "coordinator".
    consent
        Which parties consent to joining the forest from its parts: "all", or their names. Unless
        all consent, `model_`, `save` and `to_sklearn` raise an error; `predict` still works.
    max_bins
        The largest number of bins per numeric column, 2 to 255.
    max_cells
        The most cells per column in a node's histogram, which covers the bins its path leaves open.
    binning
        "quantiles" of each column; "ranges", equal parts of the schema's declared ranges.
    categorical_features
        "from_dtype", None, or which columns are categories: names, positions or a mask.
    unknown_categories
        What `predict` does with an unseen category: "refuse" raises an error, "as_missing" treats
        it as a missing value.
    schema
        The public facts: kinds, ranges, categories, classes. None: read from the data.
    baselines
        Whether `fit` also trains, for `compare`, the model of one party that holds all columns and
        true labels, and that of the label party's own columns. A party without labels has none.
    verbose
        Print progress.

    Attributes
    ----------
    classes_, n_classes_, n_features_in_, feature_names_in_, feature_importances_, oob_score_
        As in scikit-learn.
    partial_models_
        Each party's part of the forest, by name.
    model_
        The forest joined from all parts, which predicts by itself; needs `consent`.
    report_
        The report: quality, traffic, time, disclosures, and how many labels node membership
        reveals.
    ledger_
        With `label_epsilon`, the label party's ledger, by its name; otherwise empty.
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
        max_cells: int = 33,
        binning: Binning = "quantiles",
        bootstrap: bool = True,
        class_weight: Any = None,
        oob_score: bool = False,
        column_party: Any = None,
        label_party: str | None = None,
        labels: Labels = "shared",
        label_epsilon: float | None = None,
        scheme: SchemeName = "auto",
        key_bits: int = 2048,
        intersect_at: Place = "label_party",
        consent: Any = "all",
        categorical_features: Any = "from_dtype",
        unknown_categories: Literal["refuse", "as_missing"] = "refuse",
        schema: Schema | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        baselines: bool = False,
        verbose: int = 0,
    ) -> None:
        self._keep(locals())

    def fit(self, X: Any, y: Any, **others: Any) -> Self:
        """Grow the forest over the parties that `column_party` names."""
        if y is not None and is_complete(y):  # our own check refuses the rest
            check_classification_targets(y)
        return super().fit(X, y, **others)

    def _decided(self, shares: Floats) -> Integers:
        """Return the most probable class by its number; the parts need not be joined for it."""
        best: Integers = shares.argmax(axis=1)
        return best


class VerticalForestRegressor(PredictsNumbers, _VerticalForest):
    """A random forest regressor grown jointly by parties that hold different columns (S2).

    Parameters are those of `VerticalForestClassifier`; the criterion is the variance. Targets are
    fixed-point numbers over their declared range.
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
        oob_score: bool = False,
        column_party: Any = None,
        label_party: str | None = None,
        labels: Labels = "shared",
        label_epsilon: float | None = None,
        scheme: SchemeName = "auto",
        key_bits: int = 2048,
        intersect_at: Place = "label_party",
        consent: Any = "all",
        categorical_features: Any = "from_dtype",
        unknown_categories: Literal["refuse", "as_missing"] = "refuse",
        schema: Schema | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        baselines: bool = False,
        verbose: int = 0,
    ) -> None:
        self._keep(locals())
