"""Protocols of forests: parties that differ, lie or leave are told so."""

from dataclasses import replace

import numpy as np
import pytest

from contracts.forest_jobs import (  # type: ignore[import-not-found]
    connected,
    job,
    small_table,
)
from spinney.errors import PartyLostError, ProtocolError, SchemaError, TableError
from spinney.protocols import horizontal_forest
from spinney.protocols.horizontal_forest.party import Party
from spinney.protocols.rows.setup import (
    CountsReply,
    EdgesAsk,
    FactsAsk,
)
from spinney.tables.schema import Label
from spinney.transport.channel import Ask
from spinney.transport.in_process import InProcess
from spinney.trees.counts import Counts

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (small_table(("a", "c")), r"Party 'two' has no column 'b', which party 'one' has"),
        (
            small_table(("a", "b", "c")),
            r"Party 'two' has a column 'c', which party 'one' does not have",
        ),
        (small_table(classes=("no", "yes", "maybe")), r"Only one of them names 'maybe'"),
        (
            small_table(label=Label("y", "number", range=(0.0, 1.0))),
            r"Party 'two' declares kind 'number' for the label; party 'one' declares 'class'",
        ),
    ],
)
def test_parties_whose_schemas_differ_are_told_where(forest, other, words):
    channel = forest.connected({"one": small_table(), "two": other})
    with pytest.raises(SchemaError, match=words):
        forest.protocol.train(channel, forest.job("two classes"))
    assert len(channel.rounds) == 1


def test_parties_that_name_their_classes_in_another_order_are_told():
    one, two = small_table(), small_table(classes=("yes", "no"))
    with pytest.raises(SchemaError, match="Only their order differs, and the order matters"):
        horizontal_forest.train(connected({"one": one, "two": two}), job("two classes"))


def test_a_party_without_rows_takes_part(forest):
    empty = small_table().select(np.zeros(0, np.intp))
    with_it = forest.connected({"one": small_table(), "none": empty})
    alone = forest.connected({"one": small_table()})
    one, two = (forest.protocol.train(to, forest.job("two classes")) for to in (with_it, alone))
    assert one.model.to_bytes() == two.model.to_bytes()


def test_a_job_over_no_rows_is_refused(forest):
    empty = small_table().select(np.zeros(0, np.intp))
    with pytest.raises(TableError, match="None of the parties holds any rows"):
        forest.protocol.train(forest.connected({"none": empty}), forest.job("two classes"))


def test_one_class_over_all_parties_is_refused(forest):
    table = small_table()
    one_class = table.select(np.flatnonzero(table.target == 1))
    with pytest.raises(TableError, match="The label 'y' has one class only over all parties"):
        forest.protocol.train(forest.connected({"one": one_class}), forest.job("two classes"))


def test_a_question_of_another_protocol_is_refused(forest):
    class OtherAsk(Ask[CountsReply]):
        """Who are you?"""

    with pytest.raises(ProtocolError, match="does not answer OtherAsk"):
        forest.protocol.Party(small_table()).answer(OtherAsk())


def test_a_question_about_another_schema_is_refused(forest):
    with pytest.raises(SchemaError, match="The question's schema differs"):
        forest.protocol.Party(small_table()).answer(FactsAsk("0" * 64, with_leading=True))


class Lying:
    """A party that answers counts of its own making."""

    def __init__(self, forest, change):
        self._forest = forest
        self._party = forest.protocol.Party(small_table())
        self._change = change

    def answer(self, ask):
        reply = self._party.answer(ask)
        asked = isinstance(ask, self._forest.level_ask)
        return CountsReply(self._change(reply.counts)) if asked else reply


def shorter(counts):
    return Counts(counts.counters[:-1], np.array([len(counts.counters) - 1]))


def test_counts_without_the_cells_asked_for_are_refused(forest):
    channel = InProcess({"liar": Lying(forest, shorter)})
    with pytest.raises(ProtocolError, match="do not have the cells asked for"):
        forest.protocol.train(channel, forest.job("two classes"))


@pytest.mark.parametrize("width", [1, 3])
def test_counts_of_other_classes_are_refused(forest, width):
    def other(counts):
        return Counts(np.ones((len(counts.counters), width), np.int32), counts.run_ends)

    channel = InProcess({"liar": Lying(forest, other)})
    with pytest.raises(ProtocolError, match="do not have the cells asked for"):
        forest.protocol.train(channel, forest.job("two classes"))


@pytest.mark.parametrize("what", ["classes", "missing", "categories", "leading"])
def test_facts_of_other_columns_are_refused(what):
    class Liar(Party):
        def answer(self, ask):
            reply = super().answer(ask)
            if not isinstance(ask, FactsAsk):
                return reply
            held = getattr(reply, what)
            if what == "leading":
                return replace(reply, leading=Counts(held.counters[:4096], held.run_ends[:1]))
            return replace(reply, **{what: np.append(held, 1)})

    parties = {"first": Liar(small_table()), "second": Liar(small_table())}
    with pytest.raises(ProtocolError, match="counts do not fit the columns of the schema"):
        horizontal_forest.train(InProcess(parties), job("two classes"))


def test_parts_that_were_not_asked_for_are_refused():
    class Liar(Party):
        def answer(self, ask):
            reply = super().answer(ask)
            if isinstance(ask, EdgesAsk):
                counters = reply.counts.counters[:16]
                return CountsReply(Counts(counters, np.array([16])))
            return reply

    parties = {"first": Liar(small_table()), "second": Liar(small_table())}
    with pytest.raises(ProtocolError, match="do not have the parts asked for"):
        horizontal_forest.train(InProcess(parties), job("two classes"))


def test_counts_of_different_shapes_are_not_added(forest):
    honest = forest.protocol.Party(small_table())
    channel = InProcess({"honest": honest, "liar": Lying(forest, shorter)})
    with pytest.raises(ProtocolError, match="differ in shape; nothing was used"):
        forest.protocol.train(channel, forest.job("two classes"))


def test_a_lost_party_ends_an_open_job(forest):
    def gone(_):
        raise PartyLostError("It does not answer.")

    here = forest.protocol.Party(small_table())
    channel = InProcess({"here": here, "gone": Lying(forest, gone)})
    with pytest.raises(PartyLostError, match="Party 'gone': It does not answer"):
        forest.protocol.train(channel, forest.job("two classes"))
