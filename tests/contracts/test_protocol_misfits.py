"""The forest's protocol: parties that differ, lie or leave are told so."""

from dataclasses import replace

import numpy as np
import pytest

from contracts.forest_jobs import (  # type: ignore[import-not-found]
    connected,
    job,
)
from spinney.errors import PartyLostError, ProtocolError, SchemaError, TableError
from spinney.protocols import horizontal_forest
from spinney.protocols.horizontal_forest import Party
from spinney.protocols.setup import CountsReply, EdgesAsk, FactsAsk
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MatrixColumns, MemoryTable
from spinney.transport.channel import Ask
from spinney.transport.in_process import InProcess
from spinney.trees.counts import Counts

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")


def small_table(names=("a", "b"), label=None, classes=("no", "yes"), n=20):
    random = np.random.RandomState(0)
    schema = Schema(
        tuple(Column(name, "number") for name in names),
        label or Label("y", "class", classes),
    )
    matrix = random.standard_normal((n, len(names)))
    target = (
        np.arange(n) % 2 if schema.label.kind == "class" else random.standard_normal(n)
    ).astype(np.int32 if schema.label.kind == "class" else np.float64)
    return MemoryTable(schema, MatrixColumns(matrix), target)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (small_table(("a", "c")), r"Party 'two' has no column 'b', which party 'one' has"),
        (small_table(("a", "b", "c")), r"Party 'two' has a column 'c', which party 'one' has not"),
        (small_table(classes=("no", "yes", "maybe")), r"Only one of them names 'maybe'"),
        (
            small_table(label=Label("y", "number", range=(0.0, 1.0))),
            r"Party 'two' declares kind 'number' for the label; party 'one' declares 'class'",
        ),
    ],
)
def test_parties_whose_schemas_differ_are_told_where(other, words):
    channel = connected({"one": small_table(), "two": other})
    with pytest.raises(SchemaError, match=words):
        horizontal_forest.train(channel, job("two classes"))
    assert len(channel.rounds) == 1


def test_parties_that_name_their_classes_in_another_order_are_told():
    one, two = small_table(), small_table(classes=("yes", "no"))
    with pytest.raises(SchemaError, match="Only their order differs, and it counts"):
        horizontal_forest.train(connected({"one": one, "two": two}), job("two classes"))


def test_a_party_without_rows_takes_part():
    empty = small_table().select(np.zeros(0, np.intp))
    with_it = connected({"one": small_table(), "none": empty})
    alone = connected({"one": small_table()})
    assert (
        horizontal_forest.train(with_it, job("two classes")).model.to_bytes()
        == horizontal_forest.train(alone, job("two classes")).model.to_bytes()
    )


def test_a_job_over_no_rows_is_refused():
    empty = small_table().select(np.zeros(0, np.intp))
    with pytest.raises(TableError, match="The parties hold no rows together"):
        horizontal_forest.train(connected({"none": empty}), job("two classes"))


def test_one_class_over_all_parties_is_refused():
    table = small_table()
    one_class = table.select(np.flatnonzero(table.target == 1))
    with pytest.raises(TableError, match="The label 'y' has one class only over all parties"):
        horizontal_forest.train(connected({"one": one_class}), job("two classes"))


def test_a_question_of_another_protocol_is_refused():
    class OtherAsk(Ask[CountsReply]):
        """Who are you?"""

    with pytest.raises(ProtocolError, match="does not answer OtherAsk"):
        Party(small_table()).answer(OtherAsk())


def test_a_question_about_another_schema_is_refused():
    with pytest.raises(SchemaError, match="The question is about another schema"):
        Party(small_table()).answer(FactsAsk("0" * 64, with_leading=True))


class Lying(Party):
    """A party that answers histograms of its own making."""

    def __init__(self, table, change):
        super().__init__(table)
        self._change = change

    def answer(self, ask):
        reply = super().answer(ask)
        if isinstance(ask, horizontal_forest.LevelAsk):
            return CountsReply(self._change(reply.counts))
        return reply


def test_histograms_without_the_cells_asked_for_are_refused():
    def shorter(counts):
        return Counts(counts.counters[:-1], np.array([len(counts.counters) - 1]))

    channel = InProcess({"liar": Lying(small_table(), shorter)})
    with pytest.raises(ProtocolError, match="do not have the cells asked for"):
        horizontal_forest.train(channel, job("two classes"))


@pytest.mark.parametrize("width", [1, 3])
def test_histograms_of_other_classes_are_refused(width):
    def other(counts):
        return Counts(np.ones((len(counts.counters), width), np.int32), counts.run_ends)

    channel = InProcess({"liar": Lying(small_table(), other)})
    with pytest.raises(ProtocolError, match="do not have the cells asked for"):
        horizontal_forest.train(channel, job("two classes"))


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

    with pytest.raises(ProtocolError, match="counts do not fit the columns of the schema"):
        horizontal_forest.train(InProcess({"liar": Liar(small_table())}), job("two classes"))


def test_parts_that_were_not_asked_for_are_refused():
    class Liar(Party):
        def answer(self, ask):
            reply = super().answer(ask)
            if isinstance(ask, EdgesAsk):
                counters = reply.counts.counters[:16]
                return CountsReply(Counts(counters, np.array([16])))
            return reply

    with pytest.raises(ProtocolError, match="do not have the parts asked for"):
        horizontal_forest.train(InProcess({"liar": Liar(small_table())}), job("two classes"))


def test_histograms_of_different_shapes_are_not_added():
    def shorter(counts):
        return Counts(counts.counters[:-1], np.array([len(counts.counters) - 1]))

    channel = InProcess({"honest": Party(small_table()), "liar": Lying(small_table(), shorter)})
    with pytest.raises(ProtocolError, match="differ in shape; nothing was used"):
        horizontal_forest.train(channel, job("two classes"))


def test_a_lost_party_ends_an_open_job():
    class Gone(Party):
        def answer(self, ask):
            if isinstance(ask, horizontal_forest.LevelAsk):
                raise PartyLostError("It does not answer.")
            return super().answer(ask)

    channel = InProcess({"here": Party(small_table()), "gone": Gone(small_table())})
    with pytest.raises(PartyLostError, match="Party 'gone': It does not answer"):
        horizontal_forest.train(channel, job("two classes"))
