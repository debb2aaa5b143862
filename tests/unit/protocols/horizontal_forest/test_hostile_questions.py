"""A party answers sound questions only: what cannot be is refused, in words that may travel.

A question that decodes may still be nonsense; kernels do not look twice, so the party must.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spinney.errors import ProtocolError, SettingError, SpinneyError, StorageError
from spinney.protocols import horizontal_forest
from spinney.protocols.horizontal_forest.messages import LevelAsk
from spinney.protocols.horizontal_forest.party import Party
from spinney.protocols.rows import levels as growing
from spinney.protocols.rows.setup import CountsReply, EdgesAsk, OwnEdgesAsk, OwnEdgesReply
from spinney.tables.columns import MatrixColumns
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MemoryTable
from spinney.transport import codec
from spinney.transport.in_process import InProcess
from spinney.trees.counts import Counts
from spinney.trees.quantiles import Refinement


def small_table():
    random = np.random.RandomState(0)
    schema = Schema(
        (Column("a", "number"), Column("b", "number")), Label("y", "class", ("no", "yes"))
    )
    target = random.randint(0, 2, 60).astype(np.int32)
    return MemoryTable(schema, MatrixColumns(random.standard_normal((60, 2))), target)


@pytest.fixture
def asks():
    """All questions of a small job."""
    asked: list[Any] = []

    class Noting(Party):
        def answer(self, ask):
            asked.append(ask)
            return super().answer(ask)

    job = horizontal_forest.Settings(task="classification", n_estimators=2, max_depth=4)
    horizontal_forest.train(InProcess({"one": Noting(small_table())}), job)
    return asked


@pytest.fixture
def level_ask(asks):
    """A sound question about the third level of a small forest."""
    return [ask for ask in asks if isinstance(ask, LevelAsk)][2]


@pytest.fixture
def quality_ask(asks):
    """A sound question about the finished forest."""
    return asks[-1]


def require_refusal(ask):
    with pytest.raises(SpinneyError) as caught:
        Party(small_table()).answer(ask)
    assert caught.value.public


def with_level(ask, **changes):
    first, *others = ask.levels
    return replace(ask, levels=(first.replaced(**changes), *others))


def test_the_sound_questions_are_answered(level_ask, quality_ask):
    party = Party(small_table())
    assert len(party.answer(replace(level_ask)).counts.counters)
    assert party.answer(replace(quality_ask)).counts.sum() > 0


def test_a_column_that_is_not_there(level_ask):
    require_refusal(with_level(level_ask, feature=level_ask.levels[0].feature + 99))


def test_decisions_for_other_nodes_than_there_are(level_ask):
    require_refusal(with_level(level_ask, feature=level_ask.levels[0].feature[:1]))


def test_children_of_other_nodes_than_there_are(level_ask):
    require_refusal(with_level(level_ask, child_open=np.ones(98, bool)))


@pytest.mark.parametrize(("first", "last"), [(0, 10**6), (-3, 1), (1, 0), (0, 0)])
def test_a_range_of_nodes_that_is_not_there(first, last, level_ask):
    require_refusal(replace(level_ask, first=first, last=last))


def test_bins_for_fewer_columns_than_the_schema_has(level_ask):
    binning = level_ask.job.binning
    fewer = replace(binning, edges=binning.edges[:1], bin_of_category=binning.bin_of_category[:1])
    require_refusal(replace(level_ask, job=replace(level_ask.job, binning=fewer)))


def test_more_edges_than_a_byte_can_tell_apart(level_ask):
    binning = replace(level_ask.job.binning, edges=(np.arange(300, dtype=np.float32),) * 2)
    require_refusal(replace(level_ask, job=replace(level_ask.job, binning=binning)))


def test_a_number_of_classes_that_the_schema_has_not(level_ask):
    require_refusal(replace(level_ask, job=replace(level_ask.job, n_classes=3)))


def test_a_seed_below_zero(level_ask):
    with pytest.raises(SettingError, match="seed must be a whole number between 0 and"):
        replace(level_ask.job.settings, seed=-1)


@pytest.mark.parametrize(
    "refinement",
    [
        Refinement(7, (np.zeros(1, np.uint32),) * 2),
        Refinement(-4, (np.zeros(1, np.uint32),) * 2),
        Refinement(0, (np.array([99_999], np.uint32),) * 2),
        Refinement(0, (np.zeros(1, np.uint32),)),
    ],
    ids=["a digit that is not there", "a digit before the first", "a prefix too long", "columns"],
)
def test_cut_points_that_cannot_be(refinement):
    require_refusal(EdgesAsk(small_table().schema.digest(), refinement))


@pytest.mark.parametrize("max_bins", [1, 256, 1 << 40])
def test_more_bins_than_a_column_has(max_bins):
    with pytest.raises(ProtocolError, match="2 to 255 bins"):
        Party(small_table()).answer(OwnEdgesAsk(small_table().schema.digest(), max_bins))


def test_edges_that_do_not_fit_the_columns():
    reply = OwnEdgesReply(np.array([2, 1]), np.zeros(1, np.int64))
    with pytest.raises(ProtocolError, match="edges do not fit the columns"):
        reply.edges(2)


@pytest.mark.parametrize("change", [-1, 1])
def test_leaves_of_another_forest(change, quality_ask):
    counters = quality_ask.leaf_moments.counters
    other = counters[:change] if change < 0 else np.vstack([counters, counters[:1]])
    moments = Counts(other, np.array([len(other)]))
    require_refusal(replace(quality_ask, leaf_moments=moments))


def test_leaves_of_other_classes(quality_ask):
    counters = np.hstack([quality_ask.leaf_moments.counters] * 2)
    moments = Counts(counters, np.array([len(counters)]))
    require_refusal(replace(quality_ask, leaf_moments=moments))
    require_refusal(replace(quality_ask, class_weight=np.ones(3)))


def test_a_finished_forest_with_a_column_that_is_not_there(quality_ask):
    feature = quality_ask.levels[0].feature + 99
    require_refusal(with_level(quality_ask, feature=feature))


def test_a_finished_forest_in_other_bins(quality_ask):
    binning = replace(quality_ask.job.binning, edges=(np.array([1.0, 0.0], np.float32),) * 2)
    require_refusal(replace(quality_ask, job=replace(quality_ask.job, binning=binning)))


def test_a_node_of_more_rows_than_there_can_be(level_ask):
    bits = np.full_like(level_ask.levels[0].child_bits, 200)
    require_refusal(with_level(level_ask, child_bits=bits))


def test_a_forest_over_no_rows_has_words(asks):
    """Whatever a question says, its nodes may hold a row."""
    first = next(ask for ask in asks if isinstance(ask, LevelAsk))
    ask = replace(first, job=replace(first.job, n_rows=0))
    assert ask.fields.held.min() >= 1
    reply = Party(small_table()).answer(ask)
    (words,) = ask.to_ring(reply)
    assert words.size == ask.fields.n_words > 0


# --- sizes ---------------------------------------------------------------------------------------


def test_a_question_for_more_trees_than_anybody_grows_is_refused(level_ask):
    data = codec.encode(level_ask)
    settings = level_ask.job.settings
    object.__setattr__(settings, "n_estimators", 2**40)
    with pytest.raises(StorageError, match="LevelAsk is malformed") as caught:
        codec.decode(codec.encode(level_ask), LevelAsk)
    assert "between 1 and 100000; got 1099511627776" in str(caught.value.local)
    assert codec.decode(data, LevelAsk).job.settings.n_estimators == 2


def test_a_party_without_the_memory_says_so(level_ask, monkeypatch):
    def none_left(*_given, **_how):
        raise MemoryError

    monkeypatch.setattr(growing, "standing_at_roots", none_left)
    with pytest.raises(
        ProtocolError, match=r"not have enough memory for 2 trees at once\. Ask for fewer"
    ):
        Party(small_table()).answer(level_ask)


@pytest.mark.parametrize("kind", [LevelAsk, EdgesAsk])
def test_a_reply_may_unpack_to_what_was_asked_for_and_no_more(kind, asks):
    """Counters that are zero take a bit each: ten megabytes of them would unpack to gigabytes."""
    party = Party(small_table())
    for ask in (ask for ask in asks if isinstance(ask, kind)):
        counts = party.answer(ask).counts
        assert ask.reply_bytes == 4 * counts.counters.size + 8 * counts.run_ends.size
        data = codec.encode(CountsReply(counts))
        assert codec.decode(data, CountsReply, unpacked=ask.reply_bytes)
        more = np.zeros((2 * len(counts.counters), counts.counters.shape[1]), np.int32)
        ends = np.concatenate([counts.run_ends, len(counts.counters) + counts.run_ends])
        data = codec.encode(CountsReply(Counts(more, ends)))
        with pytest.raises(StorageError, match="would unpack to more numbers than it may hold"):
            codec.decode(data, CountsReply, unpacked=ask.reply_bytes)


def test_a_reply_that_is_too_large_ends_the_job():
    class Flooding(Party):
        def answer(self, ask):
            reply = super().answer(ask)
            if isinstance(ask, LevelAsk):
                return CountsReply(Counts(np.zeros((60_000, 2), np.int32), np.array([60_000])))
            return reply

    job = horizontal_forest.Settings(task="classification", n_estimators=2, max_depth=4)
    channel = InProcess({"one": Flooding(small_table())}, through_codec=True)
    with pytest.raises(StorageError, match="CountsReply would unpack to more numbers"):
        horizontal_forest.train(channel, job)


def test_only_counts_in_the_runs_of_their_slots_are_summed_while_they_come_in(asks, level_ask):
    """Where runs lie does not travel ahead, so it must follow from the question."""
    reply = Party(small_table()).answer(level_ask)
    assert level_ask.numbers_ahead(reply).tobytes() in codec.encode(reply)
    in_one_run = CountsReply.of_vectors(reply.vectors())
    assert level_ask.numbers_ahead(in_one_run) is None
    roots = next(ask for ask in asks if isinstance(ask, LevelAsk))  # whose rows nobody knows yet
    assert roots.numbers_ahead(Party(small_table()).answer(roots)) is None
    assert roots.running(3, is_masked=False) is None
