"""The rounds before the trees, the same for every horizontal protocol.

The coordinator compares the parties' schemas, sums counts of their tables, and finds bin edges from
counts alone.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from spinney.errors import ProtocolError, SchemaError
from spinney.protocols.rows.facts import (
    BinSettings,
    FactsReply,
    binning_of,
    check_facts,
    count_facts,
    require_facts,
    runs,
)
from spinney.protocols.settings import Terms, terms_of
from spinney.tables.agree import agree
from spinney.tables.schema import Column, Schema
from spinney.tables.table import Table
from spinney.transport.carried import Carried
from spinney.transport.channel import Ask, Channel, Vector
from spinney.transport.messages import kept_beside, message
from spinney.trees.binning import Binning, Edges
from spinney.trees.counts import Counts
from spinney.trees.dtypes import MAX_BINS
from spinney.trees.fields import Fields
from spinney.trees.own_edges import edges_of_values
from spinney.trees.quantiles import QuantileSearch, Refinement, count_refined
from spinney.trees.threads import thread_count
from spinney.trees.told import ToldCounts
from spinney.typing import Integers

NOT_KNOWN: Final = np.zeros((0, 0), np.int64)
_SORTED_BYTES = 64 << 20  # of numbers that are sorted in memory; larger tables are counted
_NO_EDGES: Edges = np.zeros(0, np.float32)


@message
class SchemaReply:
    """The public facts of a party's table."""

    schema: Schema


@message
class SchemaAsk(Ask[SchemaReply]):
    """Which columns do you hold?"""

    reveals: ClassVar[str] = "column names, kinds, declared ranges, categories and classes"
    reply_type: ClassVar[type[Any]] = SchemaReply


@message
class FactsAsk(Ask[FactsReply]):
    """How many rows are there, by class, missing value, category and magnitude?"""

    schema_digest: str
    with_leading: bool
    terms: Terms | None = None  # of the private job, if it counts perturbed rows
    reveals: ClassVar[str] = "counts of rows, classes, missing values, categories, magnitudes"
    reply_type: ClassVar[type[Any]] = FactsReply
    ring_is_fresh: ClassVar[bool] = True


@message
class CountsReply:
    """Counts that are summed over parties."""

    counts: Counts

    def vectors(self) -> tuple[Vector, ...]:
        """Return its integers."""
        return (self.counts.counters,)

    @classmethod
    def of_vectors(cls, vectors: tuple[Vector, ...]) -> "CountsReply":
        """Return the reply with these integers."""
        (counters,) = vectors
        return cls(Counts(counters, np.array([len(counters)])))


@message
class ToldReply:
    """Summed counts, as parties are told them."""

    counts: ToldCounts


@message
class EdgesAsk(Ask[CountsReply]):
    """How many numbers lie between these cut points?"""

    schema_digest: str
    refinement: Refinement
    terms: Terms | None = None
    reveals: ClassVar[str] = (
        "counts of numbers between proposed cut points, down to single values: the cells at which "
        "bins end, exactly; in a column with at most max_bins different values all of them"
    )
    reply_type: ClassVar[type[Any]] = CountsReply
    ring_is_fresh: ClassVar[bool] = True

    def laid_out(self, total: CountsReply) -> ToldReply:
        """Return counts by cell, each with its total."""
        return ToldReply(ToldCounts(total.counts.counters, self._cells, self._held))

    def taken_in(self, told: Carried) -> CountsReply:
        """Return counts that were told."""
        counts = told.open(ToldReply).counts.read(self._cells, self._held, 1)
        return CountsReply.of_vectors((counts,))

    @property
    def _held(self) -> Integers:
        """The values of each cell, if they are said."""
        return self.refinement.held[:, None]

    @property
    def _cells(self) -> NDArray[np.int32]:
        """The parts of each cell."""
        return np.full((self.refinement.n_cells, 1), 1 << self.refinement.digit_bits, np.int32)

    @property
    def reply_bytes(self) -> int:
        """One count per part, and the end of each cell's run."""
        return 4 * self.refinement.n_counters + 8 * self.refinement.n_cells

    @kept_beside
    def _fields(self) -> Fields | None:
        """How counts are packed into words for masking: no count exceeds its cell's."""
        asked = self.refinement
        if not asked.held.size:
            return None
        return Fields(self._cells, self._held)

    def to_ring(self, reply: CountsReply) -> tuple[Vector, ...]:
        """Return the counts packed into words."""
        fields = self._fields
        if fields is None:
            return reply.vectors()
        return (fields.pack(reply.counts.counters, thread_count(None)),)

    def from_ring(self, sums: tuple[Vector, ...]) -> CountsReply:
        """Return the sums as counts."""
        fields = self._fields
        if fields is None:
            return CountsReply.of_vectors(sums)
        counters = fields.unpack(sums[0].view(np.uint64), thread_count(None))
        return CountsReply.of_vectors((counters.reshape(-1, 1),))


@message
class OwnEdgesReply:
    """The bin edges of a table's numbers."""

    ends: Integers  # (n_columns,) where each column's edges end
    bits: Integers  # of all edges, each a float32

    def vectors(self) -> tuple[Vector, ...]:
        """Return its integers."""
        return self.ends, self.bits

    @classmethod
    def of_vectors(cls, vectors: tuple[Vector, ...]) -> "OwnEdgesReply":
        """Return the reply with these integers."""
        return cls(*vectors)

    @classmethod
    def of_edges(cls, edges: Sequence[Edges]) -> "OwnEdgesReply":
        """Return the reply with these edges."""
        ends = np.cumsum([len(one) for one in edges], dtype=np.int64)
        return cls(ends, np.concatenate([_NO_EDGES, *edges]).view(np.uint32).astype(np.int64))

    def edges(self, n_columns: int) -> tuple[Edges, ...]:
        """Return every column's edges; raise unless there are some for each column."""
        lengths = np.diff(self.ends, prepend=0)
        fits = self.ends.shape == (n_columns,) and bool(np.all(lengths >= 0))
        if not fits or self.bits.shape != (int(lengths.sum()),):
            raise ProtocolError("A party's edges do not fit the columns of the schema.")
        edges = self.bits.astype(np.uint32).view(np.float32)
        ends = self.ends.tolist()
        return tuple(edges[first:last] for first, last in pairwise([0, *ends]))


@message
class OwnEdgesAsk(Ask[OwnEdgesReply]):
    """Where do the bins of your numbers end? Asked of a party that trains alone."""

    schema_digest: str
    max_bins: int
    terms: Terms | None = None
    reveals: ClassVar[str] = "the bin edges of a party that trains alone"
    reply_type: ClassVar[type[Any]] = OwnEdgesReply


def answer_setup(
    ask: SchemaAsk | FactsAsk | EdgesAsk | OwnEdgesAsk, table: Table, n_threads: int
) -> SchemaReply | FactsReply | CountsReply | OwnEdgesReply:
    """Answer a question of the rounds before the trees, at a party."""
    match ask:
        case SchemaAsk():
            return SchemaReply(table.schema)
        case FactsAsk():
            require_schema(table, ask.schema_digest)
            return count_facts(table, with_leading=ask.with_leading, n_threads=n_threads)
        case EdgesAsk():
            require_schema(table, ask.schema_digest)
            if not ask.refinement.fits(len(table.schema.columns)):
                raise ProtocolError("The question's cut points do not fit the schema's columns.")
            return _count_between(table, ask.refinement, n_threads)
        case OwnEdgesAsk():
            require_schema(table, ask.schema_digest)
            if not 2 <= ask.max_bins <= MAX_BINS:
                raise ProtocolError(f"A column has 2 to {MAX_BINS} bins.")
            return OwnEdgesReply.of_edges(own_edges(table, ask.max_bins, n_threads))


def own_edges(table: Table, max_bins: int, n_threads: int) -> tuple[Edges, ...]:
    """Return the bin edges of a table's numbers, found at home."""
    columns = table.schema.columns
    if 4 * table.n_rows * len(columns) > _SORTED_BYTES:
        return edges_by_counting(
            partial(answer_setup, table=table, n_threads=n_threads), table.schema, max_bins
        )
    nothing = np.empty((len(columns), 0), np.float32)
    values = np.concatenate([nothing, *(batch.values for batch in table.batches())], axis=1)
    is_number = np.array([column.kind == "number" for column in columns], np.bool_)
    return edges_of_values(values, is_number, max_bins, n_threads)


def edges_by_counting(
    answer: Callable[[Any], Any], schema: Schema, max_bins: int
) -> tuple[Edges, ...]:
    """Return the bin edges of one table, whose counts `answer` gives."""
    digest = schema.digest()

    def count(question: Refinement) -> Integers:
        counted: Integers = answer(EdgesAsk(digest, question)).counts.counters.ravel()
        return counted.astype(np.int64)

    facts = answer(FactsAsk(digest, with_leading=True))
    edges = find_edges(schema.columns, facts, max_bins, count)
    assert edges is not None  # a party's own rows do not leave
    return edges


def require_schema(table: Table, digest: str) -> None:
    """Raise unless a question is about this table's schema."""
    if table.schema.digest() != digest:
        raise SchemaError(
            "The question's schema differs from that of this party's table. "
            "Propose the job again with the schema all parties agreed on."
        )


def _count_between(table: Table, refinement: Refinement, n_threads: int) -> CountsReply:
    counts = np.zeros(refinement.n_counters, np.int32)
    for batch in table.batches():
        count_refined(batch.values, refinement, counts, n_threads)
    length = 1 << refinement.digit_bits
    return CountsReply(Counts(counts.reshape(-1, 1), runs(counts.size // length, length)))


def agree_on_schema(channel: Channel) -> Schema:
    """Return the schema that all parties share; raise an error that names every difference."""
    return agree({name: reply.schema for name, reply in channel.ask(SchemaAsk()).items()})


def lay_bins(channel: Channel, schema: Schema, settings: BinSettings) -> tuple[FactsReply, Binning]:
    """Count the tables and lay the bins; quantiles take up to three more rounds.

    If a party leaves meanwhile, ranks and counts are not of the same rows. Everything is then
    counted again over the parties that stay; but not under masks, where the difference between the
    two sums would be the counts of the party that left.
    """
    while True:
        facts, binning = _laid(channel, schema, settings)
        if binning is not None:
            return facts, binning
        if channel.is_masked:
            raise ProtocolError(
                "A party left while the bins were laid. To count the others again would show its "
                "counts. Start the job anew, with it or without it."
            )


def _laid(
    channel: Channel, schema: Schema, settings: BinSettings
) -> tuple[FactsReply, Binning | None]:
    """Return the facts and the bins; no bins if a party left before they were found."""
    digest = schema.digest()
    by_quantiles = settings.binning == "quantiles"
    terms = terms_of(settings.privacy, len(channel.parties))
    is_alone = by_quantiles and len(channel.parties) == 1 and terms is None
    with_leading = (by_quantiles and not is_alone) or settings.binning == "magnitudes"
    facts = channel.sum(FactsAsk(digest, with_leading, terms))
    counted = channel.rounds[-1].answered
    require_facts(schema, facts, with_leading=with_leading)
    check_facts(schema, facts)
    if not by_quantiles:
        return facts, binning_of(schema, facts, settings, ())
    if is_alone:
        found = channel.sum(OwnEdgesAsk(digest, settings.max_bins)).edges(len(schema.columns))
        return facts, binning_of(schema, facts, settings, found)

    def count(question: Refinement) -> Integers | None:
        if not channel.is_masked:  # the counts are packed by their own sizes
            question = Refinement(question.step, question.prefixes)
        reply = channel.sum(EdgesAsk(digest, question, terms))
        if channel.rounds[-1].answered != counted:
            return None
        if reply.counts.counters.size != question.n_counters:
            raise ProtocolError("A party's counts do not have the parts asked for.")
        counters: Any = reply.counts.counters.ravel()
        # Those of a wide table are many, and are not copied to wider integers.
        signed: Integers = counters.astype(np.int64) if counters.dtype.kind == "u" else counters
        return signed

    edges = find_edges(schema.columns, facts, settings.max_bins, count)
    return facts, None if edges is None else binning_of(schema, facts, settings, edges)


def find_edges(
    columns: Sequence[Column],
    facts: FactsReply,
    max_bins: int,
    count: Callable[[Refinement], Integers | None],
) -> tuple[Edges, ...] | None:
    """Return bin edges at the quantiles of every number, found by counting.

    Parameters
    ----------
    columns
        The columns; edges are searched for numbers only.
    facts
        The counts of all rows.
    max_bins
        How many bins a column has at most.
    count
        Counts the numbers between proposed cut points: over all parties, or at one. None: it
        cannot go on, and neither can the search.
    """
    leading = facts.leading.counters.reshape(len(columns), -1).astype(np.int64)
    for number, column in enumerate(columns):
        if column.kind != "number":
            leading[number] = 0  # no cut points are searched
    search = QuantileSearch(leading, max_bins)
    while (question := search.question()) is not None:
        counts = count(question)
        if counts is None:
            return None
        search.answer(counts)
    return search.edges()
