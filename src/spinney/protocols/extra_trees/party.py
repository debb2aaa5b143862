"""A party's side of extra-trees: exact counts, counts of randomised labels, or noisy counts."""

from collections.abc import Sequence
from typing import Any

from spinney.errors import ProtocolError, SettingError
from spinney.privacy.label_memory import LabelMemory
from spinney.privacy.ledger import Ledger
from spinney.protocols.accounts.account import ClaimsAsk, ExactJob, JoinAsk, PartyAccount, Plan
from spinney.protocols.extra_trees.labels import LabelledTable, LabelPlan, randomise_labels
from spinney.protocols.extra_trees.messages import CutsAsk, NoisyCutsAsk, RangesAsk, RangesReply
from spinney.protocols.extra_trees.settings import NAME
from spinney.protocols.row_forest.budget import ForestPlan
from spinney.protocols.row_forest.messages import LeafAsk, NoisyLevelAsk, noisy_job, plan_of
from spinney.protocols.row_forest.noisy_rows import NoisyRows
from spinney.protocols.row_forest.party import Counting, PrivateParty, RowParty
from spinney.protocols.rows.setup import CountsReply
from spinney.protocols.settings import ForestSettings, PrivacySettings, Terms
from spinney.tables.schema import Schema
from spinney.tables.table import Table
from spinney.trees.counts import Counters
from spinney.trees.cuts import ReportedBits, cut_counts
from spinney.trees.ranges import Ranges, join_ranges, node_ranges
from spinney.trees.threads import thread_count


class CutRows(NoisyRows):
    """A party's rows, dealt to the trees by its own secret coins and counted by drawn cuts."""

    def _counted(self, ask: NoisyLevelAsk) -> Counters:
        """Return the counts to which noise is added."""
        assert isinstance(ask, NoisyCutsAsk)
        standing = self.standing(ask)
        return cut_counts(
            self.binned(ask.job),
            standing,
            ask.candidates,
            (ask.first, ask.last),
            n_classes=ask.job.n_classes,
            n_threads=self._n_threads,
        ).counters


def extra_plan(schema: Schema, settings: ForestSettings, n_parties: int) -> LabelPlan | ForestPlan:
    """Return how a private job's budget is divided; raise if the settings cannot be met."""
    privacy = settings.privacy
    if privacy is None:
        raise ProtocolError("The job has no privacy settings, so there is nothing to join.")
    if privacy.perturbs_input:
        raise SettingError("Extra-trees support only label_privacy='local' or 'laplace'.")
    if not privacy.randomises_labels:
        return plan_of(noisy_job(schema, settings, n_parties))
    wrong = {"class_weight": settings.class_weight == "balanced", "oob_score": settings.oob_score}
    for name, is_wrong in wrong.items():
        if is_wrong:
            raise SettingError(
                f"{name}={getattr(settings, name)!r} needs true labels, but with "
                "label_privacy='local' no true label leaves its party."
            )
    return LabelPlan(schema, privacy, n_parties)


class ExtraPrivateParty(PrivateParty):
    """Answers with noise, or from randomised labels, and only after its ledger was charged."""

    memory: LabelMemory

    def _plan(self, settings: ForestSettings, n_parties: int) -> Plan:
        return extra_plan(self._table.schema, settings, n_parties)

    def _noisy_rows(self, account: PartyAccount, n_threads: int) -> NoisyRows:
        return CutRows(self._table, account, n_threads)

    def _carries_noise(self, privacy: PrivacySettings) -> bool:
        return privacy.randomises_labels

    def _with_noise(self, terms: Terms, account: PartyAccount) -> Table:
        plan = LabelPlan(self._table.schema, terms.privacy, terms.n_parties)
        return randomise_labels(self._table, plan, account, self.memory)


class _Counting(Counting):
    """Counts on both sides of drawn cuts."""

    def _counted(self, ask: CutsAsk | RangesAsk) -> CountsReply | RangesReply:
        if isinstance(ask, RangesAsk) and ask.job.settings.thresholds != "exchanged":
            raise ProtocolError("This job draws its cuts in public ranges; no value is revealed.")
        standing = self._rows.standing(ask)  # Alg. 1, line 17: by the splits so far
        rows = (self._rows.binned(ask.job), standing, ask.candidates, (ask.first, ask.last))
        if isinstance(ask, RangesAsk):
            ranges = node_ranges(*rows, n_threads=self._n_threads)  # lines 10 to 11
            return RangesReply(self._own_ranges(ask, ranges))
        how: dict[str, Any] = {"n_classes": ask.job.n_classes, "n_threads": self._n_threads}
        counts = cut_counts(*rows, **how, bits=self._bits(ask))  # lines 13 to 15
        return CountsReply(self._own(ask, counts))

    def _own_ranges(self, ask: RangesAsk, ranges: Ranges) -> Ranges:
        """Return the ranges without nodes in which the party has too few rows of its own."""
        is_in = self._rows.is_in(ask)
        return ranges if is_in is None else ranges.only(is_in)

    @classmethod
    def joined(cls, replies: Sequence[Any]) -> Any:
        """Return the reply of a table from the replies of its parts."""
        if isinstance(replies[0], RangesReply):
            return RangesReply(join_ranges([reply.ranges for reply in replies]))
        return super().joined(replies)

    def _bits(self, ask: CutsAsk) -> ReportedBits | None:
        """Return the bits that rows report instead of a class, if they report bits."""
        if not isinstance(self.table, LabelledTable) or not self.table.words.shape[1]:
            return None
        return ReportedBits(self.table.words, ask.job.cell_counters - 1)


class Party(RowParty):
    """One organisation's side. What it keeps between questions is only a cache.

    Without a ledger it answers exactly. With one it answers only with noise, except for the `exact`
    job. `memory` holds the answers of its records if labels are randomised: keep it for the life of
    the data (see `extra_trees.labels.open_memory`). It counts itself out of nodes in which it has
    some rows of a class, but fewer than `min_own_rows`.
    """

    name, counting = NAME, _Counting
    of_nodes = (CutsAsk, RangesAsk)
    of_private_jobs = (JoinAsk, ClaimsAsk, NoisyCutsAsk, LeafAsk)

    def __init__(
        self,
        table: Table,
        *,
        n_jobs: int | None = None,
        ledger: Ledger | None = None,
        data: str | None = None,
        memory: LabelMemory | None = None,
        exact: ExactJob | None = None,
        min_own_rows: int = 0,
    ) -> None:
        n_threads = thread_count(n_jobs)
        private = ExtraPrivateParty(table, ledger, data, n_threads, exact)
        private.memory = memory or LabelMemory()
        super().__init__(table, private, n_threads, min_own_rows=min_own_rows)
