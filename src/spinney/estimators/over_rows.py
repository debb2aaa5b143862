"""What estimators over parties that hold different rows share: how they are fitted."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import TYPE_CHECKING, Any, Self

from spinney.estimators.base import ForestEstimator, classes_like, printed
from spinney.estimators.inputs import dealt_tables, fit_input, warn_of_leaks
from spinney.estimators.private import is_private, with_read_facts
from spinney.tables.table import MemoryTable
from spinney.trees.threads import thread_count
from spinney.typing import Progress, silent

if TYPE_CHECKING:
    from spinney.privacy.ledger import Ledger
    from spinney.protocols.training import Training


class RowsEstimator(ForestEstimator, metaclass=ABCMeta):
    """Validate, deal out to parties, train, report."""

    @abstractmethod
    def _settings(self, classes: tuple[Any, ...], sizes: dict[str, int]) -> Any:
        """Return the settings of the protocol: they have a `privacy`, which may be None.

        `sizes`: how many rows each party holds, by its name.
        """

    def _sizes_read(self) -> tuple[str, ...]:
        """Name the public sizes that are read from the data because nobody declared them."""
        return ()

    def _pays(self, settings: Any) -> bool:
        """Tell whether parties need a ledger to pay from."""
        return settings.privacy is not None

    def _compare(self, tables: dict[str, MemoryTable]) -> None:
        """Train whatever the model is to be held against."""

    @abstractmethod
    def _train(
        self,
        tables: dict[str, MemoryTable],
        settings: Any,
        ledgers: dict[str, Ledger],
        progress: Progress,
    ) -> Training:
        """Run the protocol over the parties' tables."""

    @property
    def _is_private(self) -> bool:
        """Whether anything is noised."""
        return is_private(self)

    @property
    def _needs_ranges(self) -> bool:
        """Whether the columns' declared ranges are used."""
        return self.binning == "ranges" or self._is_private

    def fit(self, X: Any, y: Any, party: Any = None) -> Self:
        """Grow the forest.

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
        given = fit_input(
            self,
            X,
            y,
            is_classifier=self._is_classifier,
            needs_ranges=self._needs_ranges,
            schema=self.schema,
            categorical_features=self.categorical_features,
            is_private=self._is_private,
            n_threads=thread_count(self.n_jobs),
        )
        read_facts = given.read_facts + self._sizes_read()
        if party is not None or self._is_private:
            warn_of_leaks(read_facts)
        classes = given.table.schema.label.classes or ()
        tables = dealt_tables(given.table, party)
        sizes = {name: table.n_rows for name, table in tables.items()}
        settings = with_read_facts(self._settings(classes, sizes), read_facts)
        ledgers = ledgers_of(list(tables)) if self._pays(settings) else {}
        training = self._train(tables, settings, ledgers, printed if self.verbose else silent)
        if self._is_classifier:
            self.classes_ = classes_like(given.labels, classes)
            self.n_classes_ = len(classes)
        self._adopt(training.model)
        from spinney.report.report import Report  # noqa: PLC0415  loads numba

        self.report_ = Report.of(training, ledgers=ledgers)
        self.ledger_ = ledgers
        if getattr(self, "oob_score", False):
            self.oob_score_ = training.score
        self._compare(tables)
        return self


def ledgers_of(parties: list[str]) -> dict[str, Ledger]:
    """Return a ledger for each simulated party, gone with the process."""
    from spinney.privacy.ledger import Ledger  # noqa: PLC0415  for private jobs alone

    return {name: Ledger.in_memory(name) for name in parties}
