"""`VerticalForestClassifier` and `VerticalForestRegressor`: scikit-learn faces of S2."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self
from uuid import uuid4

from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from spinney.errors import SettingError
from spinney.estimators.base import ForestEstimator, classes_like, printed
from spinney.estimators.column_party import ColumnParties, column_parties
from spinney.estimators.inputs import checked_features, fit_input, is_complete, warn_of_leaks
from spinney.protocols.private_settings import as_text
from spinney.protocols.settings import ForestSettings, MaxFeatures
from spinney.protocols.vertical_settings import Labels, Place, SchemeName, VerticalSettings
from spinney.seeds import job_seed
from spinney.tables.columns import VectorColumns
from spinney.tables.frames import columns_of
from spinney.tables.holding import Holding
from spinney.tables.schema import Schema
from spinney.tables.table import MemoryTable
from spinney.transport.in_process import InProcess
from spinney.typing import Floats, silent

if TYPE_CHECKING:  # they load numba
    from spinney.protocols.model import ForestModel
    from spinney.protocols.partial_model import PartialModel
    from spinney.protocols.vertical_prediction import Roles
    from spinney.report.report import Holder

Binning = Literal["quantiles", "ranges"]


class _VerticalForest(ForestEstimator):
    """What classifier and regressor share."""

    __metadata_request__fit: ClassVar[dict[str, Any]] = {"party": UNUSED}

    def _vertical_settings(self, classes: tuple[Any, ...]) -> VerticalSettings:
        if self.max_leaf_nodes is not None:
            raise SettingError(
                "max_leaf_nodes cannot be kept when all trees grow a level at a time. "
                "Use max_depth, min_samples_leaf or min_impurity_decrease."
            )
        epsilon = self.label_epsilon
        return VerticalSettings(
            forest=ForestSettings(
                task="classification" if self._is_classifier else "regression",
                n_estimators=self.n_estimators,
                criterion=self.criterion,
                max_depth=self.max_depth,
                min_samples_split=self.min_samples_split,
                min_samples_leaf=self.min_samples_leaf,
                min_weight_fraction_leaf=self.min_weight_fraction_leaf,
                min_impurity_decrease=self.min_impurity_decrease,
                max_features=self.max_features,
                max_bins=self.max_bins,
                max_cells=self.max_cells,
                binning=self.binning,
                bootstrap=self.bootstrap,
                class_weight=self._class_weights(classes) if self._is_classifier else None,
                oob_score=self.oob_score,
                seed=job_seed(self.random_state),
            ),
            labels=self.labels,
            label_epsilon=None if epsilon is None else as_text(epsilon, "label_epsilon"),
            job=f"simulation {uuid4()}" if epsilon is not None else "",
            intersect_at=self.intersect_at,
            scheme=self.scheme,
            key_bits=self.key_bits,
        )

    def fit(self, X: Any, y: Any) -> Self:  # no `party`: it has columns
        """Grow the forest over the parties that `column_party` names.

        Parameters
        ----------
        X
            A numeric array, or a data frame (pandas, polars, pyarrow): all parties' columns of the
            rows that they share.
        y
            The label of each row.
        """
        for name in ("partial_models_", "roles_", "_joined", "ledger_"):
            self.__dict__.pop(name, None)  # a fit that fails or is stopped leaves nothing behind
        self._require_sound_parameters()
        given = fit_input(
            self,
            X,
            y,
            is_classifier=self._is_classifier,
            needs_ranges=self.binning == "ranges",
            schema=self.schema,
            categorical_features=self.categorical_features,
        )
        table = given.table
        parties = column_parties(self.column_party, self.label_party, table.schema.names, X)
        self._agreed(parties)
        classes = table.schema.label.classes or ()
        settings = self._vertical_settings(classes)
        if len(parties.columns) > 1:
            warn_of_leaks(given.read_facts)
        self._train_parties(table, parties, settings)
        if self._is_classifier:
            self.classes_ = classes_like(given.labels, classes)
            self.n_classes_ = len(classes)
        self.n_features_in_ = len(table.schema.columns)
        self.n_outputs_ = 1
        return self

    def _train_parties(
        self, table: MemoryTable, parties: ColumnParties, settings: VerticalSettings
    ) -> None:
        # All of it loads numba.
        from spinney.privacy.ledger import Ledger  # noqa: PLC0415
        from spinney.protocols import vertical_forest  # noqa: PLC0415
        from spinney.protocols.leakage import label_leakage  # noqa: PLC0415
        from spinney.report.holders import holders_of  # noqa: PLC0415
        from spinney.report.report import Report  # noqa: PLC0415

        ledgers = {}
        if settings.label_epsilon is not None:
            ledgers = {parties.label_party: Ledger.in_memory(parties.label_party)}
        sides = {
            name: vertical_forest.Party(holding, n_jobs=self.n_jobs, ledger=ledgers.get(name))
            for name, holding in _holdings(table, parties).items()
        }
        training = vertical_forest.train(
            InProcess(sides),
            settings,
            owners=parties.owners,
            n_jobs=self.n_jobs,
            progress=printed if self.verbose else silent,
        )
        self.partial_models_ = {name: side.finished_model for name, side in sides.items()}
        self.roles_ = training.roles
        holder = sides[parties.label_party]
        leakage = label_leakage(holder) if len(sides) > 1 else None
        held: tuple[Holder, ...] = ()
        if len(sides) > 1:
            names = table.schema.names
            columns = {name: [names[i] for i in own] for name, own in parties.columns.items()}
            held = holders_of(training.roles, columns, self._consenting(sides))
        self.report_ = Report.of(training, label_leakage=leakage, holders=held)
        self.ledger_ = ledgers
        self._schema = table.schema
        if self.oob_score:
            self.oob_score_ = training.score

    @property
    def model_(self) -> "ForestModel":
        """The forest that all parts make; every party must consent."""
        check_is_fitted(self)
        loaded: ForestModel | None = self.__dict__.get("_joined")
        if loaded is not None:
            return loaded
        from spinney.protocols.partial_model import joined_model  # noqa: PLC0415  loads numba

        parts: dict[str, PartialModel] = self.partial_models_
        return joined_model(parts, self._consenting(parts))

    @model_.setter
    def model_(self, model: "ForestModel") -> None:
        self._joined = model

    def _consenting(self, parties: Iterable[str]) -> tuple[str, ...]:
        """Return who agrees that the forest is joined."""
        return tuple(parties) if self.consent == "all" else tuple(self.consent)

    def _leaving(self) -> "ForestModel":
        """Return the joined forest with the names of those who agreed to it."""
        model = self.model_
        parts = tuple(self.__dict__.get("partial_models_", ()))
        return replace(model, consent=parts) if len(parts) > 1 else model

    def __sklearn_is_fitted__(self) -> bool:
        return "partial_models_" in self.__dict__ or "_joined" in self.__dict__

    def _predicted(self, X: Any, model: "ForestModel | None" = None) -> Floats:
        """Return the mean of the trees, (n_rows, n_outputs): one round for all rows and trees."""
        check_is_fitted(self)
        model = model or self.__dict__.get("_joined")
        if model is not None:
            return super()._predicted(X, model)
        from spinney.protocols.vertical_prediction import PredictingParty  # noqa: PLC0415

        X = checked_features(self, X, self.categorical_features, reset=False)
        columns = columns_of(X, self._schema, unknown_categories=self.unknown_categories)
        values = columns.values(slice(None))
        parts: dict[str, PartialModel] = self.partial_models_
        roles: Roles = self.roles_
        sides = {}
        for name, part in parts.items():
            own = VectorColumns(tuple(values[part.numbers])) if part.columns else None
            sides[name] = PredictingParty(part, own, values.shape[1], n_jobs=self.n_jobs)
        return roles.predict(InProcess(sides), n_jobs=self.n_jobs)

    def _agreed(self, parties: ColumnParties) -> None:
        """Raise unless `consent` is "all" or names of parties."""
        consent = self.consent
        if isinstance(consent, str) and consent == "all":
            return
        known = isinstance(consent, list | tuple | set | frozenset)
        unknown = [name for name in consent if name not in parties.columns] if known else []
        if not known or unknown:
            raise SettingError(
                "consent must be 'all' or a list of parties that agree to join the forest; "
                f"got {consent!r}."
            )


def _holdings(table: MemoryTable, parties: ColumnParties) -> dict[str, Holding]:
    """Return what each party holds of the rows."""
    schema, values = table.schema, table.columns.values(slice(None))
    holdings = {}
    for name, own in parties.columns.items():
        has_label = name == parties.label_party
        holdings[name] = Holding(
            table.n_rows,
            tuple(schema.columns[i] for i in own),
            VectorColumns(tuple(values[list(own)])) if own else None,
            schema.label if has_label else None,
            table.target if has_label else None,
        )
    return holdings


class VerticalForestClassifier(ClassifierMixin, _VerticalForest):  # type: ignore[misc]
    r"""A random forest grown jointly by parties that hold different columns of the same rows (S2).

    The forest is the same, bit for bit, as with all columns in one place. Parameters are
    scikit-learn's where it has them.

    Parameters
    ----------
    n_estimators, criterion, max_depth, min_samples_split, min_samples_leaf, max_features, \
    min_weight_fraction_leaf, min_impurity_decrease, bootstrap, class_weight, oob_score, \
    random_state, n_jobs
        As in scikit-learn's `RandomForestClassifier`, but for `n_jobs`: None means all cores.
    max_leaf_nodes
        Refused unless None: trees grow a level at a time.
    column_party
        Which party holds which columns: a dict of lists of names, or of positions for an array; see
        `deal_columns`. None: one party holds all. A party with an empty list may hold the labels.
    label_party
        Which party holds the labels.
    labels
        "shared": every party gets the encoded labels, as in the paper: two classes are easily told
        apart. "encrypted": only the label party has them; the others add up ciphertexts.
    label_epsilon
        Randomise every label once before anything leaves the label party (pure differential
        privacy of one label); None: labels as they are. Works with both kinds of `labels`.
    scheme
        The encryption: "okamoto-uchiyama" (sf-heu), "paillier" (phe), or "auto".
    key_bits
        The length of its modulus: 2048 or 3072.
    intersect_at
        Who intersects leaf sets in predictions: "label_party" or "coordinator".
    consent
        Which parties agree that the forest is joined from its parts: "all", or their names.
        Without everybody's, `model_`, `save` and `to_sklearn` are refused; `predict` is not.
    max_bins
        How finely numbers are told apart: bins in a table, 2 to 255.
    max_cells
        How finely a node's histogram is looked at; it zooms into the bins its path leaves open.
    binning
        "quantiles" of each column; "ranges", equal parts of the schema's declared ranges.
    categorical_features
        "from_dtype", None, or which columns are categories: names, positions or a mask.
    unknown_categories
        What `predict` does with a category it has never seen: "refuse" it, or take it
        "as_missing".
    schema
        The public facts: kinds, ranges, categories, classes. None: read from the data.
    verbose
        Print progress.

    Attributes
    ----------
    classes_, n_classes_, n_features_in_, feature_names_in_, feature_importances_, oob_score_
        As in scikit-learn.
    partial_models_
        Each party's part of the forest, by its name.
    model_
        The forest joined from all parts, which predicts on its own; needs `consent`.
    report_
        What happened: quality, traffic, time, disclosures, and how many labels node membership
        gives away.
    ledger_
        The label party's ledger with `label_epsilon`, by its name; else empty.
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
        verbose: int = 0,
    ) -> None:
        self.n_estimators = n_estimators
        self.criterion = criterion
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.min_impurity_decrease = min_impurity_decrease
        self.max_features = max_features
        self.max_leaf_nodes = max_leaf_nodes
        self.max_bins = max_bins
        self.max_cells = max_cells
        self.binning = binning
        self.bootstrap = bootstrap
        self.class_weight = class_weight
        self.oob_score = oob_score
        self.column_party = column_party
        self.label_party = label_party
        self.labels = labels
        self.label_epsilon = label_epsilon
        self.scheme = scheme
        self.key_bits = key_bits
        self.intersect_at = intersect_at
        self.consent = consent
        self.categorical_features = categorical_features
        self.unknown_categories = unknown_categories
        self.schema = schema
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Grow the forest over the parties that `column_party` names."""
        if y is not None and is_complete(y):  # what is not is refused in words of our own
            check_classification_targets(y)
        return super().fit(X, y)

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, in the order of `classes_`."""
        return self._predicted(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest class of each row."""
        best = self._predicted(X).argmax(axis=1)
        found: NDArray[Any] = self.classes_.take(best)
        return found


class VerticalForestRegressor(RegressorMixin, _VerticalForest):  # type: ignore[misc]
    """A random forest for numbers, grown by parties that hold different columns (S2).

    As `VerticalForestClassifier`; the criterion is the variance. Targets are fixed-point numbers
    over their declared range.
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
        verbose: int = 0,
    ) -> None:
        self.n_estimators = n_estimators
        self.criterion = criterion
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.min_impurity_decrease = min_impurity_decrease
        self.max_features = max_features
        self.max_leaf_nodes = max_leaf_nodes
        self.max_bins = max_bins
        self.max_cells = max_cells
        self.binning = binning
        self.bootstrap = bootstrap
        self.oob_score = oob_score
        self.column_party = column_party
        self.label_party = label_party
        self.labels = labels
        self.label_epsilon = label_epsilon
        self.scheme = scheme
        self.key_bits = key_bits
        self.intersect_at = intersect_at
        self.consent = consent
        self.categorical_features = categorical_features
        self.unknown_categories = unknown_categories
        self.schema = schema
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def predict(self, X: Any) -> Floats:
        """Return the predicted target of each row."""
        return self._predicted(X)[:, 0]
