"""A party's side of a horizontal forest: it counts its rows, exactly or with noise."""

from typing import Any

from spinney.errors import ProtocolError
from spinney.privacy.ledger import Ledger
from spinney.protocols.accounts.account import ClaimsAsk, ExactJob, JoinAsk
from spinney.protocols.horizontal_forest.messages import AdaptiveAsk, AdaptiveReply, LevelAsk
from spinney.protocols.horizontal_forest.settings import NAME
from spinney.protocols.row_forest.messages import LeafAsk, NoisyLevelAsk
from spinney.protocols.row_forest.party import Counting, PrivateParty, RowParty
from spinney.protocols.rows.setup import CountsReply
from spinney.tables.table import Table
from spinney.trees.adaptive import AdaptiveHistograms, stream_histograms
from spinney.trees.histogram import level_counts
from spinney.trees.own_rows import cells_out
from spinney.trees.threads import thread_count


class _Counting(Counting):
    """Counts histograms exactly."""

    def _counted(self, ask: LevelAsk | AdaptiveAsk) -> CountsReply | AdaptiveReply:
        if isinstance(ask, AdaptiveAsk) != bool(ask.job.binning.adaptive_bins):
            raise ProtocolError("The question does not fit the job's binning.")
        standing = self._rows.standing(ask)
        table = self._rows.binned(ask.job)
        cells = (table, ask.frontier.columns, standing, ask.slots, (ask.first, ask.last))
        how: dict[str, Any] = {"n_classes": ask.job.n_classes, "n_threads": self._n_threads}
        if isinstance(ask, AdaptiveAsk):
            return self._adaptive(ask, stream_histograms(*cells, **how))  # Alg. 2
        how |= {"narrow": ask.is_narrow, "sized": not self.is_masked}
        inside = standing.within(ask.frontier, table, (ask.first, ask.last))
        cells = (table, ask.frontier.columns, inside, ask.slots, (0, ask.last - ask.first))
        return CountsReply(self._own(ask, level_counts(*cells, **how)))  # Alg. 1, line 3

    def _adaptive(self, ask: AdaptiveAsk, found: AdaptiveHistograms) -> AdaptiveReply:
        """Return the histograms without nodes in which the party has too few rows of its own."""
        is_in = self._rows.is_in(ask)
        if is_in is not None:
            out = cells_out(ask.slots, is_in)
            found.means[out], found.moments[out] = 0, 0
        return AdaptiveReply(found)


class Party(RowParty):
    """One organisation's side. What it keeps between questions is only a cache.

    Without a ledger it answers exactly. With one it answers only with noise, except for the `exact`
    job, which the ledger then records as unprotected. `data` names the data set whose account its
    jobs debit (see `accounts.account.Account`). With `is_masked` its counts leave masked. It counts
    itself out of nodes in which it has some rows of a class, but fewer than `min_own_rows`.
    """

    name, counting = NAME, _Counting
    of_nodes = (LevelAsk, AdaptiveAsk)
    of_private_jobs = (JoinAsk, ClaimsAsk, NoisyLevelAsk, LeafAsk)

    def __init__(
        self,
        table: Table,
        *,
        n_jobs: int | None = None,
        ledger: Ledger | None = None,
        data: str | None = None,
        exact: ExactJob | None = None,
        is_masked: bool = False,
        min_own_rows: int = 0,
    ) -> None:
        n_threads = thread_count(n_jobs)
        private = PrivateParty(table, ledger, data, n_threads, exact)
        super().__init__(table, private, n_threads, is_masked=is_masked, min_own_rows=min_own_rows)
