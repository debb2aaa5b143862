"""The party's side that all horizontal forests share: it counts its rows.

**Who learns what.** The protocol that runs decides. Questions of a private job go to the party's
private side. Every other question is answered with counts of the true rows or, if the job's terms
ask for it, of rows that carry noise themselves. **Who never learns what.** Nobody but the party
sees the rows. What it keeps between questions is a cache and never leaves it.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from spinney.errors import PolicyError, ProtocolError, SettingError
from spinney.privacy.ledger import Ledger
from spinney.protocols.accounts.account import ClaimsAsk, ExactJob, JoinAsk, PartyAccount, Plan
from spinney.protocols.row_forest.messages import LeafAsk, NoisyLevelAsk, noisy_job, plan_of
from spinney.protocols.row_forest.noisy_rows import NoisyRows
from spinney.protocols.row_forest.perturbed_input import InputPlan, perturb_table
from spinney.protocols.rows.facts import FactsReply
from spinney.protocols.rows.levels import BinnedRows, OpenNodes
from spinney.protocols.rows.quality import QualityAsk, answer_quality
from spinney.protocols.rows.setup import (
    EdgesAsk,
    FactsAsk,
    OwnEdgesAsk,
    SchemaAsk,
    SchemaReply,
    answer_setup,
    require_schema,
)
from spinney.protocols.rows.spread import SpreadCounting, joined
from spinney.protocols.settings import ForestSettings, PrivacySettings, Terms
from spinney.tables.cluster.spread import SpreadTable
from spinney.tables.schema import Schema
from spinney.tables.table import Table
from spinney.transport.channel import Ask
from spinney.trees.counts import Counts
from spinney.trees.own_rows import cells_out

PrivateAsk = JoinAsk | ClaimsAsk | NoisyLevelAsk | LeafAsk


def private_plan(schema: Schema, settings: ForestSettings, n_parties: int) -> Plan:
    """Return how a private job's budget is divided; raise if the settings cannot be met."""
    if settings.privacy is None:
        raise ProtocolError("The job has no privacy settings, so there is nothing to join.")
    if settings.privacy.randomises_labels:
        raise SettingError("mechanism='randomised_labels' is for extra-trees only.")
    if settings.privacy.perturbs_input:
        return InputPlan(schema, settings.privacy, n_parties)
    return plan_of(noisy_job(schema, settings, n_parties))


class PrivateParty:
    """Answers only with noise, and only after its ledger was charged.

    It answers an exact job only if that job was named; the ledger records it as unprotected.
    """

    def __init__(
        self,
        table: Table,
        ledger: Ledger | None,
        data: str | None,
        n_threads: int,
        exact: ExactJob | None = None,
    ) -> None:
        self._table = table
        self._exact = exact
        self._account = None if ledger is None else PartyAccount(ledger, table, data)
        self._rows = None if self._account is None else self._noisy_rows(self._account, n_threads)
        self._noised: tuple[Terms, Table] | None = None

    def answer(self, ask: PrivateAsk) -> Any:
        """Answer a question of a private job."""
        if self._account is None or self._rows is None:
            raise _without_ledger(ask)
        match ask:
            case JoinAsk():
                require_schema(self._table, ask.schema_digest)
                return self._account.join(self._plan(ask.settings, ask.n_parties))
            case ClaimsAsk():
                return self._account.claims(ask)
        return self._rows.answer(ask)

    def rows_to_count(self, ask: Ask[Any], terms: Terms | None) -> Table:
        """Return the rows from which a question is answered exactly.

        These are the true rows if there is no ledger, or in the exact job that this party allows.
        Otherwise they are rows that carry noise themselves.
        """
        if self._account is None:
            if terms is not None:
                raise _without_ledger(ask)
            return self._table
        if terms is None and self._exact is not None:
            self._account.note_exact(self._exact, ask)
            return self._table
        if terms is None or not self._carries_noise(terms.privacy):
            raise PolicyError(
                f"This party has a ledger and answers only with noise; {type(ask).__name__} asks "
                "for exact counts. Nothing was released."
            )
        if self._noised is None or self._noised[0] != terms:
            self._noised = (terms, self._with_noise(terms, self._account))
        return self._noised[1]

    # What differs from protocol to protocol.

    def _plan(self, settings: ForestSettings, n_parties: int) -> Plan:
        return private_plan(self._table.schema, settings, n_parties)

    def _noisy_rows(self, account: PartyAccount, n_threads: int) -> NoisyRows:
        return NoisyRows(self._table, account, n_threads)

    def _carries_noise(self, privacy: PrivacySettings) -> bool:
        """Return whether rows carry noise themselves, so that they may be counted exactly."""
        return privacy.perturbs_input

    def _with_noise(self, terms: Terms, account: PartyAccount) -> Table:
        """Return the rows with the noise that the job's terms ask for."""
        plan = InputPlan(self._table.schema, terms.privacy, terms.n_parties)
        return perturb_table(self._table, plan, account)


def _without_ledger(ask: Ask[Any]) -> PolicyError:
    return PolicyError(
        f"{type(ask).__name__} belongs to a private job, and this party has no ledger to pay from. "
        "Give it one."
    )


class Counting(ABC):
    """A table, and answers counted from it."""

    def __init__(
        self, table: Table, n_threads: int, *, is_masked: bool = False, min_own_rows: int = 0
    ) -> None:
        self.table = table
        self.is_masked = is_masked
        self._n_threads = n_threads
        self._min_own_rows = min_own_rows
        self._rows = BinnedRows(table, n_threads, min_own_rows=min_own_rows)

    def answer(self, ask: Any) -> Any:
        """Answer a question."""
        match ask:
            case FactsAsk() | EdgesAsk() | OwnEdgesAsk():
                reply = answer_setup(ask, self._rows.table, self._n_threads)
                if isinstance(reply, FactsReply):
                    self._require_own_rows(reply)
                return reply
            case QualityAsk():
                return answer_quality(ask, self._rows, self._n_threads)
        return self._counted(ask)

    @abstractmethod
    def _counted(self, ask: Any) -> Any:
        """Answer a question about open nodes that is specific to the protocol."""

    def _require_own_rows(self, facts: FactsReply) -> None:
        """Raise if the party has so few rows that hardly any tree would count them."""
        held = facts.classes if facts.classes.size else facts.n_rows
        least = 2 * self._min_own_rows  # a bootstrap draws about two rows in three
        if np.any((held > 0) & (held < least)):
            raise PolicyError(
                f"This party has fewer than {least} rows, or fewer of a class, and its "
                f"policy counts it out of nodes with fewer than {self._min_own_rows} (rule "
                "'min_own_rows'), so hardly any tree would count it. Leave it out of the job, or "
                "lower min_own_rows. Nothing was released."
            )

    def _own(self, ask: OpenNodes, counts: Counts) -> Counts:
        """Return the counts without nodes in which the party has too few rows of its own."""
        is_in = self._rows.is_in(ask)
        if is_in is None:
            return counts
        counts.counters[cells_out(ask.slots, is_in)] = 0
        return Counts(counts.counters, counts.run_ends)

    @classmethod
    def joined(cls, replies: Sequence[Any]) -> Any:
        """Return the reply of a table from the replies of its parts."""
        return joined(replies)


class RowParty:
    """One organisation's side.

    Attributes
    ----------
    name
        The protocol's name.
    counting
        The class that counts rows.
    of_nodes
        The questions about the rows of nodes.
    of_private_jobs
        The questions that the private side answers.

    In nodes in which it has some rows of a class, but fewer than `min_own_rows`, its rows are not
    counted (see `trees.own_rows`). Private jobs have noise instead.
    """

    name: ClassVar[str]
    counting: ClassVar[type[Counting]]
    of_nodes: ClassVar[tuple[type[Ask[Any]], ...]]
    of_private_jobs: ClassVar[tuple[type[Ask[Any]], ...]]

    def __init__(
        self,
        table: Table,
        private: PrivateParty,
        n_threads: int,
        *,
        is_masked: bool = False,
        min_own_rows: int = 0,
    ) -> None:
        self._n_threads = n_threads
        self._is_masked = is_masked
        self._min_own_rows = min_own_rows
        self._schema = table.schema
        self._counting = self._counting_of(table)
        self._private = private

    def answer(self, ask: Any) -> Any:
        """Answer a question."""
        kind = type(ask)
        if kind is SchemaAsk:
            return SchemaReply(self._schema)
        if kind in self.of_private_jobs:
            return self._private.answer(ask)
        if kind in (FactsAsk, EdgesAsk, OwnEdgesAsk):
            return self._counting_for(ask, ask.terms).answer(ask)
        if kind in (*self.of_nodes, QualityAsk):
            return self._counting_for(ask, ask.job.terms).answer(ask)
        raise ProtocolError(f"A party in {self.name} does not answer {type(ask).__name__}.")

    def _counting_for(self, ask: Ask[Any], terms: Terms | None) -> Counting | SpreadCounting:
        """Return the rows that a question is about: the true rows, or those with noise."""
        table = self._private.rows_to_count(ask, terms)
        if self._counting.table is not table:
            self._counting = self._counting_of(table)
        return self._counting

    def _counting_of(self, table: Table) -> Counting | SpreadCounting:
        if isinstance(table, SpreadTable):
            if self._min_own_rows > 0:
                raise PolicyError(
                    "A cluster counts a party's rows in parts, so the party cannot count itself "
                    "out of nodes in which it has few (rule 'min_own_rows'). Drop the rule, or "
                    "read the table in one process."
                )
            return SpreadCounting(table, self.counting)
        return self.counting(
            table, self._n_threads, is_masked=self._is_masked, min_own_rows=self._min_own_rows
        )
