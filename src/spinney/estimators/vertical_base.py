"""The base of the vertical estimators: the parties' columns, training, prediction."""

from abc import abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self
from uuid import uuid4

from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from spinney.errors import SettingError
from spinney.estimators.base import (
    classes_like,
    print_progress,
    refuse_others,
)
from spinney.estimators.column_party import ColumnParties, column_parties
from spinney.estimators.comparing import Compares
from spinney.estimators.inputs import check_features, fit_input, warn_of_leaks
from spinney.protocols.release_terms import Hardening
from spinney.protocols.settings import as_text
from spinney.tables.columns import VectorColumns
from spinney.tables.frames import columns_of
from spinney.tables.holding import Holding
from spinney.tables.table import MemoryTable
from spinney.tables.undeclared import undeclared_rows
from spinney.transport.in_process import InProcess
from spinney.trees.threads import thread_count
from spinney.typing import Floats, silent

if TYPE_CHECKING:  # they load numba
    from spinney.protocols.columns.model import PartialModel
    from spinney.protocols.model import ForestModel
    from spinney.protocols.training import Roles
    from spinney.report.facts import Holder


_MOST_AT_ONCE = 8  # parties that answer at the same time


class ColumnsEstimator(Compares):
    """What estimators over columns share: the parties' columns, training, prediction."""

    __metadata_request__fit: ClassVar[dict[str, Any]] = {"party": UNUSED}
    _keys_by_content: ClassVar[bool] = False  # whether rows have the keys of a table over rows

    @abstractmethod
    def _vertical_settings(self, classes: tuple[Any, ...]) -> Any:
        """Return the settings of the job."""

    @property
    @abstractmethod
    def _family(self) -> Any:
        """The protocol's package: a party's side, and `train`."""

    def _threads(self, n_rows: int, parties: ColumnParties) -> int:
        """Return how many threads work at the same time, over all parties."""
        del n_rows, parties
        return thread_count(self.n_jobs)

    def _label_settings(self) -> dict[str, Any]:
        """Return how labels are protected."""
        epsilon = self.label_epsilon
        return {
            "labels": self.labels,
            "label_epsilon": None if epsilon is None else as_text(epsilon, "label_epsilon"),
            "job": f"simulation {uuid4()}" if epsilon is not None else "",
            "intersect_at": self.intersect_at,
            "scheme": self.scheme,
            "key_bits": self.key_bits,
        }

    def fit(self, X: Any, y: Any, **others: Any) -> Self:  # no `party`: parties hold columns
        """Grow the trees over the parties that `column_party` names.

        Parameters
        ----------
        X
            A numeric array, or a data frame (pandas, polars, pyarrow), with all parties' columns of
            the rows that they share.
        y
            The label of each row.
        others
            Must be empty: an error says why.
        """
        refuse_others(self, others)
        for name in ("partial_models_", "roles_", "_joined", "ledger_"):
            self.__dict__.pop(name, None)  # a failed or interrupted fit leaves nothing behind
        self._require_sound_parameters()
        given = fit_input(
            self,
            X,
            y,
            is_classifier=self._is_classifier,
            needs_ranges=self.binning == "ranges",
            schema=self.schema,
            categorical_features=self.categorical_features,
            outside="refuse" if self.label_epsilon is None else "keep",
        )
        table = given.table
        parties = column_parties(self.column_party, self.label_party, table.schema.names, X)
        self._agreed(parties)
        classes = table.schema.label.classes or ()
        settings = self._vertical_settings(classes)
        if len(parties.columns) > 1:
            warn_of_leaks(given.read_facts, table)
        own = table.schema.label.name
        read = tuple(fact for fact in given.read_facts if fact.endswith(f" of {own!r}"))
        self._train_parties(table, parties, settings, read)
        self._compare_columns(table, parties, settings)
        self._undeclared = undeclared_rows([table], table.schema, given.read_facts)
        if self._is_classifier:
            self.classes_ = classes_like(given.labels, classes)
            self.n_classes_ = len(classes)
        self.n_features_in_ = len(table.schema.columns)
        self.n_outputs_ = 1
        return self

    def _train_parties(
        self,
        table: MemoryTable,
        parties: ColumnParties,
        settings: Any,
        read_facts: tuple[str, ...],
    ) -> None:
        # These modules load numba.
        from spinney.privacy.ledger import Ledger  # noqa: PLC0415
        from spinney.protocols.columns.labels import LabelAccount  # noqa: PLC0415
        from spinney.protocols.columns.leakage import measure_label_leakage  # noqa: PLC0415
        from spinney.protocols.columns.seat import seats_in_one_process  # noqa: PLC0415
        from spinney.report.holders import holders_of  # noqa: PLC0415
        from spinney.report.report import Report  # noqa: PLC0415

        ledgers, accounts = {}, {}
        if settings.label_epsilon is not None:
            name = parties.label_party
            ledgers = {name: Ledger.in_memory(name)}
            accounts = {name: LabelAccount(ledgers[name], read_facts=read_facts)}
        nothing = LabelAccount()
        seats = seats_in_one_process(tuple(parties.columns), parties.label_party)
        n_threads = self._threads(table.n_rows, parties)
        at_once = min(len(parties.columns), n_threads, _MOST_AT_ONCE)
        sides = {
            name: self._family.Party(
                holding,
                n_jobs=n_threads // at_once,
                account=accounts.get(name, nothing),
                seat=seats[name],
            )
            for name, holding in _holdings(table, parties, by_content=self._keys_by_content).items()
        }
        training = self._family.train(
            InProcess(sides, at_once=at_once),
            settings,
            owners=parties.owners,
            n_jobs=self.n_jobs,
            progress=print_progress if self.verbose else silent,
        )
        self.partial_models_ = {name: side.finished_model for name, side in sides.items()}
        self.roles_ = training.roles
        holder = sides[parties.label_party]
        leakage = measure_label_leakage(holder) if len(sides) > 1 else None
        held: tuple[Holder, ...] = ()
        if len(sides) > 1:
            names = table.schema.names
            columns = {name: [names[i] for i in own] for name, own in parties.columns.items()}
            held = holders_of(training.roles, columns, self._consenting(sides))
        release = Hardening() if len(sides) > 1 else None
        self.report_ = Report.of(training, label_leakage=leakage, holders=held, release=release)
        self.ledger_ = ledgers
        self._schema = table.schema
        self._keep_training(training)

    def _compare_columns(self, table: MemoryTable, parties: ColumnParties, settings: Any) -> None:
        """Train the model of one party that holds everything, and that of the label party."""
        self.__dict__.pop("baselines_", None)
        if not self.baselines:
            return
        plain = replace(settings, labels="shared", label_epsilon=None, job="")
        every = ColumnParties({"all": tuple(range(len(table.schema.names)))}, "all")
        by_content, holder = self._keys_by_content, parties.label_party
        all_columns = _holdings(table, every, by_content=by_content)["all"]
        own = _holdings(table, parties, by_content=by_content)[holder]
        local: dict[str, ForestModel | None] = dict.fromkeys(parties.columns)
        if own.columns:
            names = [column.name for column in own.columns]
            local[holder] = self._trained_alone(own, self._narrowed(plain, names))
        self.baselines_ = {"pooled": self._trained_alone(all_columns, plain), "local": local}

    def _narrowed(self, settings: Any, names: Collection[str]) -> Any:
        """Return the settings of a job over some of the columns."""
        del names
        return settings

    def _trained_alone(self, holding: Holding, settings: Any) -> "ForestModel":
        """Return the model of one party that has labels and needs nobody else."""
        from spinney.protocols.columns.labels import LabelAccount  # noqa: PLC0415  loads numba
        from spinney.protocols.columns.model import join_model  # noqa: PLC0415
        from spinney.protocols.columns.seat import seats_in_one_process  # noqa: PLC0415

        (seat,) = seats_in_one_process(("all",), "all").values()
        n_jobs, account = thread_count(self.n_jobs), LabelAccount()
        side = self._family.Party(holding, n_jobs=n_jobs, account=account, seat=seat)
        owners = ("all",) * len(holding.columns)
        self._family.train(
            InProcess({"all": side}), settings, owners=owners, n_jobs=self.n_jobs, progress=silent
        )
        return join_model({"all": side.finished_model}, ("all",))

    def _predicted_by(self, model: "ForestModel", X: Any) -> Floats:
        """Return what a model of some of the columns predicts."""
        X = check_features(self, X, self.categorical_features, reset=False)
        columns = columns_of(X, self._schema, unknown_categories=self.unknown_categories)
        own = [self._schema.names.index(name) for name in model.schema.names]
        values = VectorColumns(tuple(columns.values(slice(None))[own]))
        return model.predict(values, n_threads=thread_count(self.n_jobs))

    def _keep_training(self, training: Any) -> None:
        """Keep what else a training found."""

    @property
    def model_(self) -> "ForestModel":
        """The forest joined from all parts; every party must consent."""
        check_is_fitted(self)
        loaded: ForestModel | None = self.__dict__.get("_joined")
        if loaded is not None:
            return loaded
        from spinney.protocols.columns.model import join_model  # noqa: PLC0415  loads numba

        parts: dict[str, PartialModel] = self.partial_models_
        joined = join_model(parts, self._consenting(parts))
        return replace(joined, undeclared=self._undeclared)

    @model_.setter
    def model_(self, model: "ForestModel") -> None:
        self._joined = model

    def _consenting(self, parties: Iterable[str]) -> tuple[str, ...]:
        """Return the parties that consent to joining the forest."""
        return tuple(parties) if self.consent == "all" else tuple(self.consent)

    def _consented(self) -> "ForestModel":
        """Return the joined forest with the names of the parties that consented."""
        model = self.model_
        parts = tuple(self.__dict__.get("partial_models_", ()))
        return replace(model, consent=parts) if len(parts) > 1 else model

    def __sklearn_is_fitted__(self) -> bool:
        return "partial_models_" in self.__dict__ or "_joined" in self.__dict__

    def _predicted(self, X: Any, model: "ForestModel | None" = None) -> Floats:
        """Return the mean over trees, (n_rows, n_outputs), in one round for all rows and trees."""
        check_is_fitted(self)
        model = model or self.__dict__.get("_joined")
        if model is not None:
            return super()._predicted(X, model)
        from spinney.protocols.columns.prediction import predict_rows  # noqa: PLC0415  loads numba

        roles: Roles = self.roles_
        return predict_rows(roles, self._predicting(X), n_jobs=self.n_jobs)

    def _predicting(self, X: Any) -> InProcess:
        """Return the parties, each with its part of the trees and its columns of some rows."""
        from spinney.protocols.columns.prediction import PredictingParty  # noqa: PLC0415  loads numba

        X = check_features(self, X, self.categorical_features, reset=False)
        columns = columns_of(X, self._schema, unknown_categories=self.unknown_categories)
        values = columns.values(slice(None))
        parts: dict[str, PartialModel] = self.partial_models_
        sides = {}
        for name, part in parts.items():
            own = VectorColumns(tuple(values[part.numbers])) if part.columns else None
            sides[name] = PredictingParty(part, own, values.shape[1], n_jobs=self.n_jobs)
        return InProcess(sides)

    def _agreed(self, parties: ColumnParties) -> None:
        """Raise unless `consent` is "all" or a list of parties."""
        consent = self.consent
        if isinstance(consent, str) and consent == "all":
            return
        known = isinstance(consent, list | tuple | set | frozenset)
        unknown = [name for name in consent if name not in parties.columns] if known else []
        if not known or unknown:
            raise SettingError(
                "consent must be 'all' or a list of parties that consent to joining the forest; "
                f"got {consent!r}."
            )


def _holdings(
    table: MemoryTable, parties: ColumnParties, *, by_content: bool
) -> dict[str, Holding]:
    """Return each party's columns and labels of the rows."""
    keys = table.all_keys if by_content else None
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
            own_keys=keys,
        )
    return holdings
