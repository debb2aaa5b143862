"""The base of estimators over parties that hold different rows: how `fit` works."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from spinney.estimators.base import (
    classes_like,
    print_progress,
    require_classes,
)
from spinney.estimators.comparing import Compares
from spinney.estimators.evaluating import Evaluates
from spinney.estimators.inputs import FitInput, deal_tables, fit_input, warn_of_leaks
from spinney.estimators.private import is_private, ledgers_of
from spinney.tables.table import MemoryTable
from spinney.tables.undeclared import undeclared_rows
from spinney.transport.in_process import InProcess
from spinney.trees.threads import in_turn, thread_count
from spinney.typing import Floats, Progress, silent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spinney.privacy.label_memory import LabelMemory
    from spinney.privacy.ledger import Ledger
    from spinney.protocols.spec import Spec
    from spinney.protocols.training import Trained
    from spinney.tables.outside import Outside


class RowsEstimator(Evaluates, Compares, metaclass=ABCMeta):
    """Validate, deal out to parties, train, report."""

    @abstractmethod
    def _settings(self, classes: tuple[Any, ...], sizes: dict[str, int]) -> Any:
        """Return the settings of the protocol; their `privacy` may be None.

        `sizes` holds each party's number of rows, by name.
        """

    def _sizes_read(self) -> tuple[str, ...]:
        """Return the public sizes that are read from the data because they were not declared."""
        return ()

    def _pays(self, settings: Any) -> bool:
        """Return whether parties need a ledger."""
        return settings.privacy is not None

    @property
    @abstractmethod
    def _spec(self) -> Spec[Any]:
        """The protocol; it loads numba."""

    def _is_masked(self, settings: Any, n_parties: int) -> bool:
        """Return whether sums over the simulated parties are masked."""
        del settings, n_parties
        return bool(self.secure_sum)

    def _begin_fit(self) -> None:
        """Forget the model: a failed or interrupted fit leaves nothing behind."""
        for name in ("model_", "ledger_"):
            self.__dict__.pop(name, None)

    def _weighed(self, settings: Any, weight: Floats | None) -> Any:
        """Return the settings of a job whose rows have weights."""
        del weight
        return settings

    def _n_at_once(self, tables: Mapping[str, MemoryTable]) -> int:
        """Return how many simulated parties answer at the same time."""
        del tables
        return 1

    def _threads_of_party(self, tables: Mapping[str, MemoryTable]) -> int | None:
        """Return the number of threads of each simulated party; None means all cores."""
        del tables
        n_jobs: int | None = self.n_jobs
        return n_jobs

    def _memories(self, tables: Mapping[str, MemoryTable]) -> Mapping[str, LabelMemory]:
        """Return the parties' memories of randomised labels, if any."""
        del tables
        return {}

    def _train(
        self,
        tables: dict[str, MemoryTable],
        settings: Any,
        ledgers: dict[str, Ledger],
        progress: Progress,
    ) -> Trained:
        """Run the protocol over the parties' tables."""
        training: Trained = self._trained(tables, settings, ledgers, progress)[0]
        return training

    def _trained(
        self,
        tables: dict[str, MemoryTable],
        settings: Any,
        ledgers: dict[str, Ledger],
        progress: Progress,
        data: str | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Train over the channel that all estimators use; return the training and the parties.

        `data` names the data set whose account ledgers debit; None: each table has its own.
        """
        from spinney.protocols.spec import PartySite  # noqa: PLC0415
        from spinney.protocols.verified.simulated import connect_parties  # noqa: PLC0415  late

        spec, is_masked = self._spec, self._is_masked(settings, len(tables))
        memories, at_once = self._memories(tables), self._n_at_once(tables)
        sides = {
            name: spec.party(
                table,
                settings,
                PartySite(
                    name,
                    self._threads_of_party(tables),
                    ledgers.get(name),
                    data,
                    memory=memories.get(name),
                    is_masked=is_masked,
                ),
            )
            for name, table in tables.items()
        }
        spec.sit_together(list(sides.values()))
        channel = connect_parties(
            sides,
            is_masked=is_masked,
            privacy=settings.privacy,
            honest=self.honest,
            unverified=() if spec.is_verified(settings) else spec.summed,
            connect=partial(InProcess, at_once=at_once),
        )
        with in_turn() if at_once > 1 else nullcontext():
            training = spec.train(channel, settings, n_jobs=self.n_jobs, progress=progress)
        return training, dict(sides)

    @property
    def _is_private(self) -> bool:
        """Whether the job adds noise."""
        return is_private(self)

    @property
    def _outside(self) -> Outside:
        """What happens to values that a declared schema does not allow."""
        return "leave_out" if self._is_private else "refuse"

    @property
    def _needs_ranges(self) -> bool:
        """Whether the columns' declared ranges are used."""
        return self.binning == "ranges" or self._is_private

    def _given(self, X: Any, y: Any, sample_weight: Any = None) -> FitInput:
        """Return X and y as one table, checked."""
        return fit_input(
            self,
            X,
            y,
            is_classifier=self._is_classifier,
            needs_ranges=self._needs_ranges,
            schema=self.schema,
            categorical_features=self.categorical_features,
            is_private=self._is_private,
            outside=self._outside,
            n_threads=thread_count(self.n_jobs),
            sample_weight=sample_weight,
        )

    def _judge_out_of_bag(self, table: MemoryTable) -> None:
        """Keep what trees predict for the rows they have not drawn."""

    def fit(self, X: Any, y: Any, party: Any = None) -> Self:
        """Grow the forest.

        Parameters
        ----------
        X
            A numeric array, or a data frame (pandas, polars, pyarrow).
        y
            The label of each row.
        party
            The party of each row; see `deal_rows`. None: one party holds all rows.
        """
        return self._fitted(X, y, party)

    def _fitted(self, X: Any, y: Any, party: Any, sample_weight: Any = None) -> Self:
        """Fit, for subclasses whose rows may have weights."""
        if self._is_classifier:
            require_classes(y)
        self._begin_fit()
        self._require_sound_parameters()
        given = self._given(X, y, sample_weight)
        read_facts = given.read_facts + self._sizes_read()
        if party is not None or self._is_private:
            warn_of_leaks(read_facts, given.table)
        classes = given.table.schema.label.classes or ()
        tables = deal_tables(given.table, party)
        sizes = {name: table.n_rows for name, table in tables.items()}
        from spinney.protocols.settings import with_read_facts  # noqa: PLC0415  loaded late

        settings = with_read_facts(self._settings(classes, sizes), read_facts)
        settings = self._weighed(settings, given.table.weight)
        ledgers = ledgers_of(list(tables)) if self._pays(settings) else {}
        training = self._train(
            tables, settings, ledgers, print_progress if self.verbose else silent
        )
        if self._is_classifier:
            self.classes_ = classes_like(given.labels, classes)
            self.n_classes_ = len(classes)
        assert training.model is not None  # jobs over rows always have one
        counted = undeclared_rows(tables.values(), given.table.schema, given.read_facts)
        self._adopt(replace(training.model, undeclared=counted))
        from spinney.protocols.release_terms import Hardening  # noqa: PLC0415  loaded late
        from spinney.report.report import Report  # noqa: PLC0415  loads numba

        release = Hardening() if len(tables) > 1 else None
        self.report_ = Report.of(training, ledgers=ledgers, release=release)
        self.ledger_ = ledgers
        if getattr(self, "oob_score", False):
            self.oob_score_ = training.score
            self._judge_out_of_bag(given.table)
        self._compare(tables, self._spec, settings)
        return self
