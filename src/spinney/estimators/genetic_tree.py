"""`GeneticTreeClassifier` and `GeneticTreeRegressor`: scikit-learn faces of S4."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from spinney.errors import SettingError, TableError
from spinney.estimators.base import ForestEstimator, classes_like, printed
from spinney.estimators.inputs import (
    checked_features,
    dealt_tables,
    fit_input,
    is_complete,
    warn_of_leaks,
)
from spinney.privacy.ledger import Ledger
from spinney.protocols import genetic_tree
from spinney.protocols.genetic_settings import GeneticSettings
from spinney.protocols.model import ForestModel
from spinney.protocols.personal import gathered, home_model
from spinney.protocols.private_settings import PrivacySettings, as_text
from spinney.protocols.secure_sums import secured
from spinney.report.report import Report
from spinney.report.tree_view import TreeView
from spinney.seeds import job_seed
from spinney.tables.frames import columns_of
from spinney.tables.schema import Schema
from spinney.tables.table import MemoryTable
from spinney.transport.channel import Answering, Channel
from spinney.transport.in_process import InProcess
from spinney.trees.threads import thread_count
from spinney.typing import Floats, silent

_SHARED = (  # parameters that are settings under the same name
    "population_size",
    "n_generations",
    "participation",
    "train_ratio",
    "validation",
    "metric",
    "leaf_ratio",
    "tournament_size",
    "flip_ratio",
    "swap_ratio",
    "n_folds",
    "min_depth",
    "max_depth",
    "keep_home",
    "binning",
    "max_bins",
)
_OF_REGRESSION = ("noise_threshold", "complexity_threshold", "unique_threshold")


class TreesByParty(Mapping[Any, TreeView]):
    """One tree for each party, by the party's name; a number is as good as its text."""

    def __init__(self, trees: dict[str, TreeView]) -> None:
        self._trees = trees

    def __getitem__(self, party: Any) -> TreeView:
        if str(party) not in self._trees:
            raise SettingError(
                f"No party is called {party!r}. There are trees of: {', '.join(self._trees)}."
            )
        return self._trees[str(party)]

    def __contains__(self, party: object) -> bool:
        return str(party) in self._trees

    def __iter__(self) -> Iterator[str]:
        return iter(self._trees)

    def __len__(self) -> int:
        return len(self._trees)


class _GeneticTree(ForestEstimator):
    """What classifier and regressor share."""

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"party": True}
    __metadata_request__predict: ClassVar[dict[str, bool]] = {"party": False}
    __metadata_request__predict_proba: ClassVar[dict[str, bool]] = {"party": False}

    def fit(self, X: Any, y: Any, party: Any = None) -> Self:
        """Evolve structures over the parties and let each keep the tree that is best for it.

        Parameters
        ----------
        X
            A numeric array, or a data frame (pandas, polars, pyarrow).
        y
            The label of each row.
        party
            Which party holds each row; see `deal_rows`. None: one party holds them all.
        """
        for name in ("model_", "ledger_"):  # a fit that fails or is stopped leaves nothing behind
            self.__dict__.pop(name, None)
        self._require_sound_parameters()
        settings = self._genetic_settings()
        is_private = settings.privacy is not None
        given = fit_input(
            self,
            X,
            y,
            is_classifier=self._is_classifier,
            needs_ranges=is_private,
            schema=self.schema,
            categorical_features=self.categorical_features,
            is_private=is_private,
        )
        if party is not None or is_private:
            warn_of_leaks(given.read_facts)
        if settings.privacy is not None:
            privacy = replace(settings.privacy, read_facts=given.read_facts)
            settings = replace(settings, privacy=privacy)
        tables = dealt_tables(given.table, party)
        self._require_rows(tables, settings)
        self._evolve(tables, settings)
        if self._is_classifier:
            classes = given.table.schema.label.classes or ()
            self.classes_ = classes_like(given.labels, classes)
            self.n_classes_ = len(classes)
        return self

    def _evolve(self, tables: dict[str, MemoryTable], settings: GeneticSettings) -> None:
        ledgers = {}
        if settings.size_epsilon is not None or settings.privacy is not None:
            ledgers = {name: Ledger.in_memory(name) for name in tables}
        parties = {
            name: genetic_tree.Party(
                table,
                name,
                n_jobs=self.n_jobs,
                ledger=ledgers.get(name),
                only_noise=settings.privacy is not None,
            )
            for name, table in tables.items()
        }
        sides: dict[str, Answering] = dict(parties)
        channel: Channel = InProcess(sides)
        if self.secure_sum and len(parties) > 1:  # alone there is nobody to hide from
            channel = secured(
                sides,
                InProcess,
                genetic_tree.SUMMED,
                job=f"simulation {uuid4()}",
                honest=self.honest,
                min_survivors=len(parties) if settings.privacy else None,
            )
        progress = printed if self.verbose else silent
        evolved = gathered(genetic_tree.train(channel, settings, progress=progress), parties)
        self.home_model_ = home_model(evolved, parties)
        self.report_ = Report.of(evolved)
        self.ledger_ = ledgers
        self.depth_ = evolved.depth
        self._adopt(evolved.model)

    def _genetic_settings(self) -> GeneticSettings:
        if not isinstance(self.secure_sum, bool | np.bool_):
            raise SettingError(f"secure_sum must be True or False; got {self.secure_sum!r}.")
        if self.honest is not None and not self.secure_sum:
            raise SettingError(
                "honest says how many parties' secrets a secure sum rests on. It needs "
                "secure_sum=True."
            )
        names = _SHARED if self._is_classifier else _SHARED + _OF_REGRESSION
        size = self.size_epsilon
        epsilon = getattr(self, "epsilon", None)
        private: dict[str, Any] = {}
        if epsilon is not None:
            private["privacy"] = PrivacySettings(
                job=f"simulation {uuid4()}",
                epsilon=as_text(epsilon, "epsilon"),
                in_shares=bool(self.secure_sum),
                honest=self.honest,
            )
            private["delta"] = as_text(self.delta, "delta")
        return GeneticSettings(
            task="classification" if self._is_classifier else "regression",
            seed=job_seed(self.random_state),
            size_epsilon=None if size is None else as_text(size, "size_epsilon"),
            job=f"simulation {uuid4()}" if size is not None else "simulation",
            **{name: getattr(self, name) for name in names},
            **private,
        )

    def _require_rows(self, tables: dict[str, MemoryTable], settings: GeneticSettings) -> None:
        """Raise if a party has fewer rows than folds; a simulation may say how many it has."""
        for name, table in tables.items():
            if table.n_rows < settings.n_folds:
                whose = "X" if len(tables) == 1 else f"Party {name!r}"
                raise TableError(
                    f"{whose} has n_samples={table.n_rows}, fewer rows than the "
                    f"{settings.n_folds} folds of the cross-validation. Set n_folds lower, or give "
                    "it more rows."
                )

    def _adopt(self, model: ForestModel) -> None:
        """Take a trained model as this estimator's own."""
        super()._adopt(model)
        self.tree_of_ = TreesByParty(
            {name: self._view(model.of_owner(name), name) for name in model.owners}
        )

    def _view(self, tree: ForestModel, name: str) -> TreeView:
        report = getattr(self, "report_", None)
        known = {q.party: q.scores for q in report.quality} if report else {}
        if report is None or name not in known:
            return TreeView(tree)
        scores, metric = known[name], str(report.settings["metric"])
        return TreeView(
            tree,
            bool(scores["kept_home"]),
            scores.get(metric),
            scores.get(f"home_{metric}"),
            scores.get("edit_distance"),
        )

    @property
    def home_tree_of_(self) -> TreesByParty:
        """The tree that each party grows alone: what joining is measured against."""
        check_is_fitted(self)
        if not hasattr(self, "home_model_"):
            raise AttributeError("A loaded model has no home trees: they are not saved with it.")
        model = self.home_model_
        return TreesByParty({name: TreeView(model.of_owner(name)) for name in model.owners})

    def _predicted(self, X: Any, party: Any = None) -> Floats:
        """Return what the parties' own trees predict; for no party, the mean of all trees."""
        if party is None:
            return super()._predicted(X)
        check_is_fitted(self)
        X = checked_features(self, X, self.categorical_features, reset=False)
        columns = columns_of(X, self.model_.schema, unknown_categories=self.unknown_categories)
        labels = np.asarray(party)
        if labels.ndim == 0:
            labels = np.full(columns.n_rows, str(labels), dtype=object)
        labels = column_or_1d(labels).astype(str)
        if labels.shape[0] != columns.n_rows:
            raise SettingError(
                f"party must be one party's name, or name one for each of the {columns.n_rows} "
                f"rows; got {labels.shape[0]} names."
            )
        out = np.empty((columns.n_rows, self.model_.n_outputs))
        threads = thread_count(self.n_jobs)
        for name in np.unique(labels):
            mine = labels == name
            out[mine] = self.model_.of_owner(str(name)).predict(columns, n_threads=threads)[mine]
        return out


class GeneticTreeClassifier(ClassifierMixin, _GeneticTree):  # type: ignore[misc]
    r"""One small tree for each party, of structures that all parties evolve together (S4).

    A structure says which column each node asks about. Parties fit structures to their own rows and
    answer with scores, which are summed; a coordinator breeds those that do well. In the end every
    party keeps the tree that does best for it; thresholds and leaves never leave it. Defaults are
    those of the paper's Table II.

    Parameters
    ----------
    population_size
        P, the structures that survive a generation. None: 20; for numbers 40.
    n_generations
        G.
    participation
        c, the share of parties that take part in a generation, drawn anew each time.
    train_ratio
        r, the share of a party's rows that structures are fitted to; the others judge them.
    validation
        "rotating": each generation is judged by other rows, and survivors again, by the mean of
        their scores. "fixed": always by the same rows and once, as in the paper; such scores are
        soon learnt by heart.
    metric
        What is evolved for. None: "f1", of the second class, or the mean over more than two. For
        numbers "mse" (default), "r2" or "rae", the relative absolute error.
    leaf_ratio, tournament_size, flip_ratio, swap_ratio
        r_l, s, m_1 and m_2: absent nodes in random structures; structures in a tournament; shares
        of a structure's nodes that a mutation flips or swaps.
    n_folds, min_depth, max_depth
        K, d_min and d_max: each party's cross-validation chooses a depth; all use the median.
    noise_threshold, complexity_threshold, unique_threshold
        phi*, theta* and mu* (in percent), for regression: when parties vote for judging by all
        rows, and for keeping all parties' own structures.
    keep_home
        Whether a party keeps the tree it would have had alone, where that does better on its own
        validation rows. So joining costs nobody.
    binning
        "own": numbers are cut at quantiles of the party's own rows, which stay there. "pooled": at
        quantiles of all parties' rows, found by summed counts; with `max_bins=5` the paper's.
    max_bins
        How finely numbers are told apart: 2 to 255.
    size_epsilon
        With which epsilon a party's number of rows is noised before it weighs its scores; 1 in the
        paper. None: without noise, inside sums only. Noise cannot be fixed by `random_state`.
    categorical_features
        "from_dtype", None, or which columns are categories: names, positions or a mask.
    unknown_categories
        What `predict` does with a category it has never seen: "refuse" it, or take it
        "as_missing".
    schema
        The public facts: kinds, ranges, categories, classes. None: read from the data.
    secure_sum
        Whether parties' scores are masked, so that the coordinator sees weighted sums only; the
        trees are the same.
    honest
        How many parties secure sums count on to keep their secrets; half of them, rounded up.
    epsilon, delta
        For classes, the budget of the whole search (zCDP, read at `delta`): structures then evolve
        from noisy counts of public halvings of declared ranges, in place of scores; every party
        still fits its own tree exactly, and keeps it. Needs a small `max_depth`, such as 4, few
        structures and generations, and many rows. None: no noise.
    random_state
        Fixes the search, the folds and who takes part.
    n_jobs
        Threads; None means all cores.
    verbose
        Print progress, with the best score of each generation.

    Attributes
    ----------
    classes_, n_classes_, n_features_in_, feature_names_in_, feature_importances_
        As in scikit-learn; importances are means over the parties' trees.
    tree_of_
        Each party's tree by its name: `text()`, `svg()`, `n_decisions`, `edit_distance`.
    home_tree_of_
        The tree each party grows alone, at the depth it would choose.
    depth_
        The depth of the evolved structures.
    model_
        All parties' trees; deployed, each party has its own only.
    report_
        What happened: scores and nodes by party, the best score by generation, what left a party.
    ledger_
        The ledger of each simulated party; empty without `size_epsilon`.
    """

    _is_classifier = True

    def __init__(
        self,
        population_size: int | None = None,
        *,
        n_generations: int = 100,
        participation: float = 1.0,
        train_ratio: float = 0.8,
        validation: Literal["rotating", "fixed"] = "rotating",
        metric: Literal["f1"] | None = None,
        leaf_ratio: float = 0.01,
        tournament_size: int = 3,
        flip_ratio: float = 0.05,
        swap_ratio: float = 0.05,
        n_folds: int = 5,
        min_depth: int = 2,
        max_depth: int = 15,
        keep_home: bool = True,
        binning: Literal["own", "pooled"] = "own",
        max_bins: int = 255,
        size_epsilon: float | None = None,
        categorical_features: Any = "from_dtype",
        unknown_categories: Literal["refuse", "as_missing"] = "refuse",
        schema: Schema | None = None,
        secure_sum: bool = False,
        honest: int | None = None,
        epsilon: float | None = None,
        delta: float = 1e-6,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.population_size = population_size
        self.n_generations = n_generations
        self.participation = participation
        self.train_ratio = train_ratio
        self.validation = validation
        self.metric = metric
        self.leaf_ratio = leaf_ratio
        self.tournament_size = tournament_size
        self.flip_ratio = flip_ratio
        self.swap_ratio = swap_ratio
        self.n_folds = n_folds
        self.min_depth = min_depth
        self.max_depth = max_depth
        self.keep_home = keep_home
        self.binning = binning
        self.max_bins = max_bins
        self.size_epsilon = size_epsilon
        self.categorical_features = categorical_features
        self.unknown_categories = unknown_categories
        self.schema = schema
        self.secure_sum = secure_sum
        self.honest = honest
        self.epsilon = epsilon
        self.delta = delta
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any, party: Any = None) -> "GeneticTreeClassifier":
        """Evolve; `party` says which party holds each row, None that one holds all."""
        if y is not None and is_complete(y):  # what is not is refused in words of our own
            check_classification_targets(y)
        super().fit(X, y, party)
        return self

    def predict_proba(self, X: Any, party: Any = None) -> Floats:
        """Return the probability of each class, in the order of `classes_`; see `predict`."""
        return self._predicted(X, party)

    def predict(self, X: Any, party: Any = None) -> NDArray[Any]:
        """Return the likeliest class of each row.

        By the tree of `party`: one name, or one for each row; None: by the mean of all trees.
        """
        best = self._predicted(X, party).argmax(axis=1)
        found: NDArray[Any] = self.classes_.take(best)
        return found


class GeneticTreeRegressor(RegressorMixin, _GeneticTree):  # type: ignore[misc]
    """One small tree for each party, for numbers, of structures that all evolve together (S4).

    As `GeneticTreeClassifier`. Parties also vote, as the paper has it: on judging by all rows where
    there is little noise and much interaction, and on keeping all parties' own structures.
    """

    _is_classifier = False

    def __init__(
        self,
        population_size: int | None = None,
        *,
        n_generations: int = 100,
        participation: float = 1.0,
        train_ratio: float = 0.8,
        validation: Literal["rotating", "fixed"] = "rotating",
        metric: Literal["mse", "r2", "rae"] | None = None,
        leaf_ratio: float = 0.01,
        tournament_size: int = 3,
        flip_ratio: float = 0.05,
        swap_ratio: float = 0.05,
        n_folds: int = 5,
        min_depth: int = 2,
        max_depth: int = 15,
        noise_threshold: float = 0.25,
        complexity_threshold: float = 0.02,
        unique_threshold: float = 80.0,
        keep_home: bool = True,
        binning: Literal["own", "pooled"] = "own",
        max_bins: int = 255,
        size_epsilon: float | None = None,
        categorical_features: Any = "from_dtype",
        unknown_categories: Literal["refuse", "as_missing"] = "refuse",
        schema: Schema | None = None,
        secure_sum: bool = False,
        honest: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.population_size = population_size
        self.n_generations = n_generations
        self.participation = participation
        self.train_ratio = train_ratio
        self.validation = validation
        self.metric = metric
        self.leaf_ratio = leaf_ratio
        self.tournament_size = tournament_size
        self.flip_ratio = flip_ratio
        self.swap_ratio = swap_ratio
        self.n_folds = n_folds
        self.min_depth = min_depth
        self.max_depth = max_depth
        self.noise_threshold = noise_threshold
        self.complexity_threshold = complexity_threshold
        self.unique_threshold = unique_threshold
        self.keep_home = keep_home
        self.binning = binning
        self.max_bins = max_bins
        self.size_epsilon = size_epsilon
        self.categorical_features = categorical_features
        self.unknown_categories = unknown_categories
        self.schema = schema
        self.secure_sum = secure_sum
        self.honest = honest
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def predict(self, X: Any, party: Any = None) -> Floats:
        """Return the predicted target of each row.

        By the tree of `party`: one name, or one for each row; None: by the mean of all trees.
        """
        return self._predicted(X, party)[:, 0]
