"""Every protocol: few rounds, traffic as reported, a full record of disclosures, clean stops."""

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from spinney import HorizontalForestClassifier, HorizontalForestRegressor, deal_rows
from spinney.errors import PartyLostError, ProtocolError, SchemaError, TableError
from spinney.estimators.inputs import dealt_tables, fit_input
from spinney.protocols import horizontal_forest
from spinney.protocols.adaptive_histograms import AdaptiveAsk
from spinney.protocols.growing import Job
from spinney.protocols.horizontal_forest import Party
from spinney.protocols.secure_sums import secured
from spinney.protocols.setup import CountsReply, EdgesAsk, FactsAsk
from spinney.report.report import Report
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MatrixColumns, MemoryTable
from spinney.transport import codec
from spinney.transport.channel import Ask
from spinney.transport.in_process import InProcess
from spinney.trees.binning import Binning
from spinney.trees.counts import Counts

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")

SUMS = ["Facts", "Edges", "Level"]


def job(label, **changes):
    is_amount = label == "amount"
    facts: dict[str, Any] = {
        "task": "regression" if is_amount else "classification",
        "criterion": "squared_error" if is_amount else "gini",
        "n_estimators": 5,
        "seed": 1,
    }
    return horizontal_forest.Settings(**(facts | changes))


def tables_of(X, y, party, label):
    is_amount = label == "amount"
    estimator = HorizontalForestRegressor() if is_amount else HorizontalForestClassifier()
    given_input = fit_input(
        estimator,
        X,
        y,
        is_classifier=not is_amount,
        needs_ranges=True,
        schema=None,
        categorical_features="from_dtype",
    )
    return dealt_tables(given_input.table, party)


@pytest.fixture(params=["two classes", "three classes", "amount"])
def label(request):
    return request.param


@pytest.fixture
def three_tables(label, ward_table, ward_labels):
    y = ward_labels[label]
    return tables_of(ward_table, y, deal_rows(y, 3, random_state=0), label)


def connected(tables, **how):
    return InProcess({name: Party(table) for name, table in tables.items()}, **how)


def masked(tables):
    parties: dict[str, Any] = {name: Party(table) for name, table in tables.items()}
    return secured(parties, InProcess, horizontal_forest.SUMMED, job="test")


# --- rounds and bytes ----------------------------------------------------------------------------


@pytest.mark.parametrize("max_depth", [1, 4, None])
@pytest.mark.parametrize("binning", ["quantiles", "ranges", "adaptive"])
def test_rounds_are_at_most_the_deepest_depth_and_eight(binning, max_depth, three_tables, label):
    channel = connected(three_tables)
    training = horizontal_forest.train(channel, job(label, binning=binning, max_depth=max_depth))
    depth = int(training.model.forest.depths.max())
    assert len(channel.rounds) <= depth + 8
    assert [r.number for r in channel.rounds] == list(range(1, len(channel.rounds) + 1))


def test_more_trees_take_no_more_rounds(three_tables, label):
    rounds = [
        len(horizontal_forest.train(connected(three_tables), job(label, **size)).rounds)
        for size in (
            {"n_estimators": 1, "max_depth": 4},
            {"n_estimators": 60, "max_depth": 4},
        )
    ]
    assert rounds[0] == rounds[1]


@pytest.mark.parametrize("through_codec", [False, True])
def test_the_report_s_traffic_is_the_channel_s(through_codec, three_tables, label):
    channel = connected(three_tables, through_codec=through_codec)
    report = Report.of(horizontal_forest.train(channel, job(label)))
    assert report.rounds == len(channel.rounds)
    assert report.parties == channel.parties == ("0", "1", "2")
    for written, real in zip(report.traffic, channel.rounds, strict=True):
        assert written.question == real.question
        assert written.bytes_up == real.bytes_up
        assert written.bytes_down == real.bytes_down
    for party in channel.parties:
        assert report.bytes_up[party] == sum(r.bytes_up[party] for r in channel.rounds)
        assert report.bytes_down[party] == sum(r.bytes_down[party] for r in channel.rounds)


def test_messages_are_counted_as_they_would_be_sent(three_tables, label):
    plain, coded = connected(three_tables), connected(three_tables, through_codec=True)
    horizontal_forest.train(plain, job(label))
    horizontal_forest.train(coded, job(label))
    for here, there in zip(plain.rounds, coded.rounds, strict=True):
        assert (here.bytes_up, here.bytes_down) == (there.bytes_up, there.bytes_down)


# --- disclosures ---------------------------------------------------------------------------------


@pytest.mark.parametrize("binning", ["quantiles", "ranges", "adaptive"])
def test_the_disclosure_record_lists_each_kind_of_question(binning, three_tables, label):
    channel = connected(three_tables)
    report = Report.of(horizontal_forest.train(channel, job(label, binning=binning)))
    entries = {entry.question: entry for entry in report.disclosures}
    assert list(entries) == list(dict.fromkeys(r.question for r in channel.rounds))
    trees = ["Adaptive"] if binning == "adaptive" else ["Level"]
    edges = ["Edges"] if binning == "quantiles" else []
    assert list(entries) == ["Schema", "Facts", *edges, *trees, "Quality"]
    for name, entry in entries.items():
        rounds = [r for r in channel.rounds if r.question == name]
        assert entry.times == len(rounds)
        assert entry.statistic == rounds[0].reveals
        for party in channel.parties:
            assert entry.bytes_up[party] == sum(r.bytes_up[party] for r in rounds)
        seen = "summed, not masked" if name in SUMS else "party by party"
        assert entry.seen_by == f"the coordinator, {seen}"


def test_sums_are_asked_for_wherever_a_sum_is_enough(three_tables, label):
    channel = connected(three_tables)
    horizontal_forest.train(channel, job(label))
    verbs = {r.question: r.verb for r in channel.rounds}
    assert verbs == {
        "Schema": "ask",
        "Facts": "sum",
        "Edges": "sum",
        "Level": "sum",
        "Quality": "ask",
    }


# --- secure sums ---------------------------------------------------------------------------------


@pytest.mark.parametrize("binning", ["quantiles", "ranges"])
@pytest.mark.parametrize("max_features", ["sqrt", None])
def test_masks_change_nothing_but_what_is_seen(binning, max_features, three_tables, label):
    settings = job(label, binning=binning, max_features=max_features)
    plain = horizontal_forest.train(connected(three_tables), settings)
    secret = horizontal_forest.train(masked(three_tables), settings)
    assert secret.model.to_bytes() == plain.model.to_bytes()
    assert list(plain.quality) == list(three_tables)
    assert list(secret.quality) == ["all parties"]  # one party's would show what masks hide
    n_rows = sum(quality.n_rows for quality in plain.quality.values())
    assert secret.quality["all parties"].n_rows == n_rows
    for round_ in secret.rounds:
        if round_.verb == "sum":
            assert round_.protection.startswith("masked: single replies are hidden while")


class AskedTwice:
    """A party whose replies got lost: it is asked everything again."""

    def __init__(self, party):
        self._party = party

    def answer(self, ask):
        first = codec.encode(self._party.answer(ask))
        again = self._party.answer(ask)
        assert codec.encode(again) == first
        return again


def test_masks_lie_on_nothing_that_a_party_keeps(three_tables, label):
    """Masks are written over counts where they lie; asked again, a party must have them still."""
    parties: dict[str, Any] = {name: Party(table) for name, table in three_tables.items()}

    def connect(secure):
        return InProcess({name: AskedTwice(party) for name, party in secure.items()})

    channel = secured(parties, connect, horizontal_forest.SUMMED, job="test")
    found = horizontal_forest.train(channel, job(label, max_depth=4)).model
    plain = horizontal_forest.train(connected(three_tables), job(label, max_depth=4)).model
    assert found.to_bytes() == plain.to_bytes()


def test_a_party_behind_masks_answers_no_sum_openly(three_tables):
    channel = masked(three_tables)
    schema = next(iter(three_tables.values())).schema
    ask = FactsAsk(schema.digest(), with_leading=True)
    with pytest.raises(ProtocolError, match="answers FactsAsk under masks only"):
        channel.ask(ask)


def test_a_party_behind_masks_does_not_show_its_own_histograms(three_tables):
    """Adaptive histograms hold means of real values, and are never summed."""
    channel = masked(three_tables)
    schema = next(iter(three_tables.values())).schema
    settings = job("two classes", binning="adaptive")
    nothing = np.zeros(0, np.float32)
    binning = Binning(
        (nothing,) * len(schema.columns),
        tuple(np.arange(len(c.categories or ()), dtype=np.uint8) for c in schema.columns),
        np.ones(len(schema.columns), np.bool_),
        8,
    )
    about = Job(settings, schema.digest(), binning, 2, 100)
    with pytest.raises(ProtocolError, match="the reply would show what masks hide"):
        channel.ask(AdaptiveAsk(about, (), 0, 1))


@pytest.mark.parametrize("kind", [HorizontalForestClassifier, HorizontalForestRegressor])
def test_an_estimator_with_secure_sums_is_the_same_forest(kind, ward_table, ward_labels):
    y = ward_labels["amount" if kind is HorizontalForestRegressor else "three classes"]
    party = deal_rows(y, 4, random_state=0)
    plain, secret = (
        kind(4, secure_sum=secure, random_state=0).fit(ward_table, y, party=party)
        for secure in (False, True)
    )
    assert secret.model_.to_bytes() == plain.model_.to_bytes()
    assert secret.report_.disclosures[1].protection.startswith("masked")
    assert plain.report_.disclosures[1].protection == "summed by the channel; not masked"


# --- progress and stops --------------------------------------------------------------------------


def test_progress_is_told(three_tables, label):
    told: list[tuple[str, int, int]] = []
    channel = connected(three_tables)
    horizontal_forest.train(
        channel, job(label, max_depth=4), progress=lambda *step: told.append(step)
    )
    phases = list(dict.fromkeys(phase for phase, _, _ in told))
    assert phases == ["binning", "growing", "judging"]
    grown = [(done, total) for phase, done, total in told if phase == "growing"]
    assert grown == [(depth, 4) for depth in range(len(grown))]


def test_verbose_prints_progress(ward_table, ward_labels, capsys):
    y = ward_labels["two classes"]
    HorizontalForestClassifier(2, verbose=1, max_depth=2).fit(ward_table, y)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "spinney: binning"
    assert "spinney: growing 1/2" in lines
    assert lines[-1] == "spinney: judging"


@pytest.mark.parametrize("step", [0, 1, 4, 8])
def test_a_stop_in_the_middle_leaves_the_estimator_unfitted(
    step, ward_table, ward_labels, monkeypatch
):
    asked = []

    def stopped(self, ask):
        asked.append(ask)
        if len(asked) > step:
            raise KeyboardInterrupt
        return answer(self, ask)

    answer = Party.answer
    monkeypatch.setattr(Party, "answer", stopped)
    forest = HorizontalForestClassifier(3, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        forest.fit(ward_table, ward_labels["two classes"])
    with pytest.raises(NotFittedError):
        forest.predict(ward_table)
    for name in ("model_", "report_", "classes_"):
        assert not hasattr(forest, name)
    monkeypatch.undo()
    forest.fit(ward_table, ward_labels["two classes"])  # and nothing stands in the way of another
    assert forest.predict(ward_table).size == len(ward_table)


def test_a_stop_in_the_middle_of_a_second_fit_leaves_no_mixture(
    ward_table, ward_labels, monkeypatch
):
    forest = HorizontalForestClassifier(3, random_state=0)
    forest.fit(ward_table, ward_labels["two classes"])

    def stopped(self, ask):
        raise KeyboardInterrupt

    monkeypatch.setattr(Party, "answer", stopped)
    with pytest.raises(KeyboardInterrupt):
        forest.fit(ward_table[["age", "income"]], ward_labels["three classes"])
    with pytest.raises(NotFittedError):
        forest.predict(ward_table)


def test_a_job_leaves_no_thread_of_its_own_behind(three_tables, label):
    horizontal_forest.train(connected(three_tables), job(label))
    before = threading.active_count()
    for _ in range(3):
        horizontal_forest.train(connected(three_tables), job(label))
    assert threading.active_count() <= before


# --- parties that do not fit ---------------------------------------------------------------------


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
