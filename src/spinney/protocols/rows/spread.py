"""Count a table whose rows lie on a cluster: each worker counts its part, the integers add up."""

from collections.abc import Sequence
from functools import reduce
from typing import Any, Protocol

import numpy as np

from spinney.protocols.rows.setup import (
    CountsReply,
    OwnEdgesAsk,
    OwnEdgesReply,
    edges_by_counting,
)
from spinney.tables.cluster.held import HeldPart
from spinney.tables.cluster.spread import SpreadTable
from spinney.tables.table import Table
from spinney.transport import codec
from spinney.transport.channel import Answering, Ask
from spinney.trees.counts import Counts


class CountsParts(Protocol):
    """A class that answers from a table, or from a part of one."""

    def __call__(self, table: Table, n_threads: int, *, is_masked: bool) -> Answering:
        """Return what answers from a table, or from a part of one."""
        ...

    def joined(self, replies: Sequence[Any]) -> Any:
        """Return the reply of a table from the replies of its parts."""
        ...


def joined(replies: Sequence[Any]) -> Any:
    """Return the sum of the replies of a table's parts."""
    first = replies[0]
    vectors = zip(*(reply.vectors() for reply in replies), strict=True)
    sums = tuple(reduce(np.add, same) for same in vectors)
    if isinstance(first, CountsReply):  # the parts have the same runs
        return CountsReply(Counts(sums[0], first.counts.run_ends))
    return type(first).of_vectors(sums)


class SpreadCounting:
    """Counts a table on a cluster: every worker counts its part, and the integers are added up."""

    def __init__(self, table: SpreadTable, counting: CountsParts) -> None:
        self.table = table
        self._counting = counting

    def answer(self, ask: Any) -> Any:
        """Answer a question; it travels to the workers as it came, in our own encoding."""
        if isinstance(ask, OwnEdgesAsk):  # edges of parts do not add up; counts do
            edges = edges_by_counting(self.answer, self.table.schema, ask.max_bins)
            return OwnEdgesReply.of_edges(edges)
        replies = self.table.each(_count_part, self._counting, type(ask), codec.encode(ask))
        return self._counting.joined(replies)


def _count_part(held: HeldPart, counting: CountsParts, kind: type[Ask[Any]], ask: bytes) -> Any:
    """Answer a question from one part; called on its worker."""
    # Only the sum's encoded size matters, so none is computed here.
    own = held.kept(lambda: counting(held.table, held.n_threads, is_masked=True))
    return own.answer(codec.decode(ask, kind))
