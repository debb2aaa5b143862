"""A party whose rows are counted: what all forests over rows share of its side.

**Who learns what.** Decided by the protocol that runs. Questions of a private job go to the
party's private side; every other is counted, from the true rows or, where the job's terms ask for
that, from rows that carry noise themselves. **Who never learns what.** Nobody but the party sees
the rows: what it keeps between questions only saves time, and never leaves it.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from spinney.errors import ProtocolError
from spinney.protocols.growing import PartyRows
from spinney.protocols.private_party import PrivateParty
from spinney.protocols.private_settings import Terms
from spinney.protocols.quality import QualityAsk, answer_quality
from spinney.protocols.setup import EdgesAsk, FactsAsk, SchemaAsk, SchemaReply, answer_setup
from spinney.tables.table import Table
from spinney.transport.channel import Ask


class Counting(ABC):
    """A table, and answers counted from it."""

    def __init__(self, table: Table, n_threads: int) -> None:
        self.table = table
        self._n_threads = n_threads
        self._rows = PartyRows(table, n_threads)

    def answer(self, ask: Any) -> Any:
        """Answer a question."""
        match ask:
            case FactsAsk() | EdgesAsk():
                return answer_setup(ask, self._rows.table, self._n_threads)
            case QualityAsk():
                return answer_quality(ask, self._rows, self._n_threads)
        return self._counted(ask)

    @abstractmethod
    def _counted(self, ask: Any) -> Any:
        """Answer a question of the protocol's own, about open nodes."""


class RowParty:
    """One organisation's side.

    Attributes
    ----------
    name
        The protocol's.
    counting
        How it counts.
    of_nodes
        Its questions about the rows of nodes.
    of_private_jobs
        Those that the private side answers.
    """

    name: ClassVar[str]
    counting: ClassVar[type[Counting]]
    of_nodes: ClassVar[tuple[type[Ask[Any]], ...]]
    of_private_jobs: ClassVar[tuple[type[Ask[Any]], ...]]

    def __init__(self, table: Table, private: PrivateParty, n_threads: int) -> None:
        self._n_threads = n_threads
        self._schema = table.schema
        self._counting = self.counting(table, n_threads)
        self._private = private

    def answer(self, ask: Any) -> Any:
        """Answer a question."""
        kind = type(ask)
        if kind is SchemaAsk:
            return SchemaReply(self._schema)
        if kind in self.of_private_jobs:
            return self._private.answer(ask)
        if kind in (FactsAsk, EdgesAsk):
            return self._counting_for(ask, ask.terms).answer(ask)
        if kind in (*self.of_nodes, QualityAsk):
            return self._counting_for(ask, ask.job.terms).answer(ask)
        raise ProtocolError(f"A party in {self.name} does not answer {type(ask).__name__}.")

    def _counting_for(self, ask: Ask[Any], terms: Terms | None) -> Counting:
        """Return the rows that a question is about: the true ones, or those with noise."""
        table = self._private.rows_to_count(ask, terms)
        if self._counting.table is not table:
            self._counting = self.counting(table, self._n_threads)
        return self._counting
