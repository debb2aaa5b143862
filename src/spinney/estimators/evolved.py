"""The base of `GeneticTreeClassifier` and `GeneticTreeRegressor`: fitting, one tree per party."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self
from uuid import uuid4

import numpy as np
from sklearn.utils.validation import check_is_fitted, column_or_1d

from spinney.errors import SettingError, TableError
from spinney.estimators.base import refuse_others
from spinney.estimators.inputs import check_features
from spinney.estimators.over_rows import RowsEstimator
from spinney.privacy.ledger import Ledger
from spinney.protocols import genetic_tree
from spinney.protocols.genetic_tree.settings import GeneticSettings, noisy_search
from spinney.protocols.settings import as_text
from spinney.protocols.spec import Spec
from spinney.report.tree_view import TreeView
from spinney.seeds import job_seed
from spinney.tables.frames import columns_of
from spinney.tables.table import MemoryTable
from spinney.trees.threads import thread_count
from spinney.typing import Floats, Progress, silent

_SETTINGS = (  # parameters that have the same name as settings
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
    """One tree for each party, by the party's name; a number works like its text."""

    def __init__(self, trees: dict[str, TreeView]) -> None:
        self._trees = trees

    def __getitem__(self, party: Any) -> TreeView:
        if str(party) not in self._trees:
            raise SettingError(
                f"There is no party {party!r}. Parties with trees: {', '.join(self._trees)}."
            )
        return self._trees[str(party)]

    def __contains__(self, party: object) -> bool:
        return str(party) in self._trees

    def __iter__(self) -> Iterator[str]:
        return iter(self._trees)

    def __len__(self) -> int:
        return len(self._trees)


class EvolvedTrees(RowsEstimator):
    """Evolve tree structures over the parties; each party keeps the tree that suits it best."""

    __metadata_request__predict: ClassVar[dict[str, bool]] = {"party": False}
    __metadata_request__predict_proba: ClassVar[dict[str, bool]] = {"party": False}

    def fit(self, X: Any, y: Any, party: Any = None, **others: Any) -> Self:
        """Evolve the trees; see `RowsEstimator.fit`. An error says why it takes nothing else."""
        refuse_others(self, others)
        return super().fit(X, y, party)

    @property
    def _is_private(self) -> bool:
        return self._is_classifier and self.epsilon is not None

    @property
    def _needs_ranges(self) -> bool:
        return self._is_private

    def _pays(self, settings: GeneticSettings) -> bool:
        return settings.privacy is not None or settings.size_epsilon is not None

    def _settings(
        self,
        classes: tuple[Any, ...],  # noqa: ARG002  no setting depends on classes
        sizes: dict[str, int],
    ) -> GeneticSettings:
        settings = self._evolution()
        for name, n_rows in sizes.items():  # a simulation may name the number of rows
            if n_rows < settings.n_folds:
                whose = "X" if len(sizes) == 1 else f"Party {name!r}"
                raise TableError(
                    f"{whose} has n_samples={n_rows}, fewer rows than the "
                    f"{settings.n_folds} folds of the cross-validation. Set n_folds lower, or use "
                    "more rows."
                )
        return settings

    def _evolution(self) -> GeneticSettings:
        if not isinstance(self.secure_sum, bool | np.bool_):
            raise SettingError(f"secure_sum must be True or False; got {self.secure_sum!r}.")
        names = _SETTINGS if self._is_classifier else _SETTINGS + _OF_REGRESSION
        size = self.size_epsilon
        private: dict[str, Any] = {}
        job = f"simulation {uuid4()}"
        epsilon = self.epsilon if self._is_private else None
        secure = bool(self.secure_sum)
        privacy = noisy_search(job, epsilon, secure_sum=secure, honest=self.honest)
        if privacy is not None:
            private = {"privacy": privacy, "delta": as_text(self.delta, "delta")}
        return GeneticSettings(
            task="classification" if self._is_classifier else "regression",
            seed=job_seed(self.random_state),
            size_epsilon=None if size is None else as_text(size, "size_epsilon"),
            job=job if size is not None else "simulation",
            **{name: getattr(self, name) for name in names},
            **private,
        )

    @property
    def _spec(self) -> Spec[GeneticSettings]:
        return genetic_tree.SPEC

    def _is_masked(self, settings: GeneticSettings, n_parties: int) -> bool:
        del settings
        return bool(self.secure_sum) and n_parties > 1  # one party needs no masks

    def _train(
        self,
        tables: dict[str, MemoryTable],
        settings: GeneticSettings,
        ledgers: dict[str, Ledger],
        progress: Progress,
    ) -> genetic_tree.Evolved:
        training, sides = self._trained(tables, settings, ledgers, progress)
        evolved, self.home_model_ = genetic_tree.SPEC.gather(training, sides)
        self.depth_ = evolved.depth
        return evolved

    def _compare(
        self, tables: dict[str, MemoryTable], spec: Spec[Any], settings: GeneticSettings
    ) -> None:
        """Keep the parties' home trees, and grow that of one party with all rows."""
        self.__dict__.pop("baselines_", None)
        if not self.baselines:
            return
        _, few = spec.baseline(settings)
        training, sides = self._trained({"all": _pooled(tables)}, few, {}, silent)
        home, own = self.home_model_, genetic_tree.SPEC.gather(training, sides)[1]
        self.baselines_ = {
            "pooled": own.of_owner("all"),
            "local": {name: home.of_owner(name) for name in home.owners},
        }

    @property
    def tree_of_(self) -> TreesByParty:
        """Each party's tree, by its name."""
        check_is_fitted(self)
        model = self.model_
        return TreesByParty({name: self._view(name) for name in model.owners})

    def _view(self, name: str) -> TreeView:
        tree = self.model_.of_owner(name)
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
        """The tree that each party grows alone, for comparison."""
        check_is_fitted(self)
        if not hasattr(self, "home_model_"):
            raise AttributeError("A loaded model has no home trees; they are not saved with it.")
        model = self.home_model_
        return TreesByParty({name: TreeView(model.of_owner(name)) for name in model.owners})

    def _by_party(self, X: Any, party: Any) -> Floats:
        """Return the predictions of the named parties' trees; for None, the mean of all trees."""
        if party is None:
            return self._predicted(X)
        check_is_fitted(self)
        X = check_features(self, X, self.categorical_features, reset=False)
        columns = columns_of(X, self.model_.schema, unknown_categories=self.unknown_categories)
        labels = np.asarray(party)
        if labels.ndim == 0:
            labels = np.full(columns.n_rows, str(labels), dtype=object)
        labels = column_or_1d(labels).astype(str)
        if labels.shape[0] != columns.n_rows:
            raise SettingError(
                f"party must be one party's name, or one name for each of the {columns.n_rows} "
                f"rows; got {labels.shape[0]} names."
            )
        out = np.empty((columns.n_rows, self.model_.n_outputs))
        threads = thread_count(self.n_jobs)
        for name in np.unique(labels):
            mine = labels == name
            out[mine] = self.model_.of_owner(str(name)).predict(columns, n_threads=threads)[mine]
        return out


def _pooled(tables: Mapping[str, MemoryTable]) -> MemoryTable:
    """Return all parties' rows, which were dealt from one table."""
    first = next(iter(tables.values()))
    if first.rows is None:
        return first
    dealt = [table.rows for table in tables.values() if table.rows is not None]
    return replace(first, keys=first.all_keys, rows=np.sort(np.concatenate(dealt)))
