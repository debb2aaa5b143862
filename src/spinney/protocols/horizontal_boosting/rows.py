"""The rows of a boosting job: scores, nodes, and sums, of one party or of several in one process.

**Who learns what.** See `spinney.protocols.horizontal_boosting`. Parties in one process lay their
rows side by side, so that a question costs its fixed work once and every core has a share of the
rest. Each party's sums are of its own rows. A party that is alone is the first of one.
"""

from collections.abc import Sequence

import numpy as np

from spinney.errors import ProtocolError
from spinney.protocols.boosted.scores import ALL_WORDS, RowScores
from spinney.protocols.horizontal_boosting.messages import (
    BatchOfJob,
    BoostingJob,
    GradientsAsk,
    GradientsReply,
    require_grown,
)
from spinney.trees.batch import GrownBatch
from spinney.trees.binning import BinnedTable
from spinney.trees.boosting import Sampling, Walk, sums_of_parts, walk_from_roots
from spinney.trees.buffers import SHARED
from spinney.trees.level import Level
from spinney.trees.losses import ALIKE, Shares
from spinney.typing import Floats, Integers

_MOST_HELD = 8 << 20  # bytes of sums that are held until their party is asked


class BoostedRows:
    """The binned rows of some parties, the score of each row, and its node in each tree."""

    def __init__(
        self,
        job: BoostingJob,
        tables: list[BinnedTable],
        n_threads: int,
        shares: Sequence[Shares] = (ALIKE,),
        *,
        sized: bool = False,
    ) -> None:
        """Lay tables side by side; the list is emptied. If `sized`, packed sizes are found too."""
        self.job = job
        self._sized = sized
        self._n_threads = n_threads
        self._first_row = np.cumsum([0, *(table.n_rows for table in tables)])
        n_blocks = [table.block_start.size - 1 for table in tables]
        self._first_block = np.cumsum([0, *n_blocks])
        self.table = tables[0] if len(tables) == 1 else BinnedTable.side_by_side(tables)
        self.share = np.concatenate([ALIKE, *shares])
        self._restart()

    @classmethod
    def side_by_side(cls, held: list["BoostedRows"], *, sized: bool) -> "BoostedRows":
        """Return the rows of several parties together; the list is emptied."""
        job, n_threads = held[0].job, held[0]._n_threads  # noqa: SLF001  of this class
        shares, tables = [one.share for one in held], [one.table for one in held]
        held.clear()
        return cls(job, tables, n_threads, shares, sized=sized)

    @property
    def n_parties(self) -> int:
        """How many parties the rows belong to."""
        return self._first_row.size - 1

    def _restart(self) -> None:
        """Forget all trees."""
        job, first_row = self.job, self._first_row[:-1]
        self.scores = RowScores(
            job, job.base, self.table, self._n_threads, share=self.share, first_row=first_row
        )
        self._grown: Sequence[GrownBatch] | None = None  # the batches whose values are added
        self._added: list[bytes] = []  # their digests
        self._levels: tuple[Level, ...] = ()
        self._walk: Walk | None = None
        self._counted: GradientsAsk | None = None  # the last question
        self._replies: dict[int, GradientsReply] = {}  # to it, of parties not asked yet

    def reply(self, ask: GradientsAsk, party: int) -> GradientsReply:
        """Return the sums of a party's rows; those of the next parties are found with them."""
        if self._counted is not ask or party not in self._replies:
            self._count(ask, party)
        return self._replies.pop(party)

    def _count(self, ask: GradientsAsk, first: int) -> None:
        """Find the replies of some parties, from the first one on."""
        self._counted, self._replies = None, {}
        counted = self._go_to(ask.grown, ask.levels).counted
        a_party = 8 * ask.slots.n_cells * ask.job.units.width
        last = min(self.n_parties, first + max(1, _MOST_HELD // max(a_party, 1)))
        found = sums_of_parts(
            self.table,
            self._first_block[first : last + 1],
            ask.frontier.columns,
            counted.between(ask.first, ask.last),
            ask.slots,
            has_h=ask.job.units.width == 3,
            n_threads=self._n_threads,
            sized=self._sized,
            buffers=SHARED,
        )
        losses = self.scores.course[-1] if ask.n_losses else np.zeros((self.n_parties, 0), np.int64)
        replies = map(GradientsReply, found, losses[first:last])
        self._counted, self._replies = ask, dict(enumerate(replies, first))

    def _go_to(self, grown: Sequence[GrownBatch], levels: tuple[Level, ...]) -> Walk:
        """Return where the rows are after some finished batches and some levels of the next."""
        self.add(grown)
        return self._walked(self.job.batch(len(grown)), levels)

    def add(self, grown: Sequence[GrownBatch]) -> None:
        """Add the values of finished batches to the scores, if they are not added yet."""
        if grown is self._grown:  # as for most questions: no batch has ended since
            return
        self._grown = None
        if [batch.digest for batch in grown[: len(self._added)]] != self._added:
            self._restart()
        for number in range(len(self._added), len(grown)):
            batch = grown[number]
            require_grown(self.job, number, batch)
            of_job = self.job.batch(number)
            walk = self._walked(of_job, batch.levels)
            walk.add_values(batch.value, of_job.output_of_tree, self.scores.scores, self._n_threads)
            self._added.append(batch.digest)
            self.scores.note_losses()
            self._walk = None
        self._grown = grown

    def _walked(self, batch: BatchOfJob, levels: tuple[Level, ...]) -> Walk:
        """Return where the rows are after some levels: some levels further, or from the roots."""
        if self._walk is None or self._levels != levels[: len(self._levels)]:
            self._walk, self._levels = self._at_roots(batch), ()
        for level in levels[len(self._levels) :]:
            self._walk.go(level, self._n_threads)
        self._levels = levels
        return self._walk

    def _at_roots(self, batch: BatchOfJob) -> Walk:
        job, table = self.job, self.table
        keep = round(job.settings.subsample * ALL_WORDS)
        try:
            return walk_from_roots(
                table,
                Sampling(batch.keys, batch.output_of_tree, keep, self.scores.is_apart),
                self.scores.gradients(),
                job.units,
                self._n_threads,
            )
        except MemoryError:
            raise ProtocolError(
                f"This party does not have enough memory for {batch.n_trees} trees at once. Use a "
                "smaller batch_trees."
            ) from None

    def target(self, party: int) -> Integers:
        """Return the targets of a party's rows."""
        target: Integers = self.table.target[self._rows_of(party)]
        return target

    def guesses(self, party: int) -> Floats:
        """Return what the finished trees predict for a party's rows."""
        return self.scores.guesses(self._rows_of(party))

    def curve(self, party: int) -> Integers:
        """Return rows and loss of a party's rows that are trained on, after each batch."""
        return np.stack([course[party, :2] for course in self.scores.course])

    def _rows_of(self, party: int) -> slice:
        return slice(self._first_row[party], self._first_row[party + 1])
