"""Extra-trees keep the protocols' promises: few rounds, traffic and disclosures as they are."""

from typing import Any

import numpy as np
import pytest

from spinney import ExtraTreesClassifier, ExtraTreesRegressor, deal_rows
from spinney.errors import PartyLostError, ProtocolError, SchemaError, SettingError, TableError
from spinney.estimators.inputs import dealt_tables, fit_input
from spinney.protocols import extra_trees
from spinney.protocols.drawn_cuts import CutsAsk
from spinney.protocols.extra_trees import Party
from spinney.protocols.secure_sums import secured
from spinney.protocols.setup import CountsReply, FactsAsk
from spinney.report.report import Report
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MatrixColumns, MemoryTable
from spinney.transport.channel import Ask
from spinney.transport.in_process import InProcess
from spinney.trees.counts import Counts

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")


def job(label, **changes):
    is_amount = label == "amount"
    facts: dict[str, Any] = {
        "task": "regression" if is_amount else "classification",
        "criterion": "squared_error" if is_amount else "gini",
        "n_estimators": 5,
        "seed": 1,
        "bootstrap": False,
        "binning": "magnitudes",
        "thresholds": "public",
    }
    return extra_trees.Settings(**(facts | changes))


def tables_of(X, y, party, label):
    is_amount = label == "amount"
    given_input = fit_input(
        ExtraTreesRegressor() if is_amount else ExtraTreesClassifier(),
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
    return secured(parties, InProcess, extra_trees.SUMMED, job="test")


# --- rounds, bytes, disclosures ------------------------------------------------------------------


@pytest.mark.parametrize("max_depth", [1, 4, None])
@pytest.mark.parametrize("binning", ["magnitudes", "ranges"])
def test_rounds_are_at_most_the_deepest_depth_and_four(binning, max_depth, three_tables, label):
    channel = connected(three_tables)
    settings = job(label, binning=binning, max_depth=max_depth, n_estimators=20)
    training = extra_trees.train(channel, settings)
    assert len(channel.rounds) <= int(training.model.forest.depths.max()) + 4


def test_more_trees_take_no_more_rounds(three_tables, label):
    few, many = (
        extra_trees.train(connected(three_tables), job(label, n_estimators=n, max_depth=4))
        for n in (1, 60)
    )
    assert len(few.rounds) == len(many.rounds)


def test_messages_are_counted_as_they_would_be_sent(three_tables, label):
    plain, coded = connected(three_tables), connected(three_tables, through_codec=True)
    one, two = (extra_trees.train(channel, job(label)) for channel in (plain, coded))
    assert one.model.to_bytes() == two.model.to_bytes()
    for here, there in zip(plain.rounds, coded.rounds, strict=True):
        assert (here.bytes_up, here.bytes_down) == (there.bytes_up, there.bytes_down)


@pytest.mark.parametrize("binning", ["magnitudes", "ranges", "quantiles"])
def test_the_disclosure_record_lists_each_kind_of_question(binning, three_tables, label):
    channel = connected(three_tables)
    report = Report.of(extra_trees.train(channel, job(label, binning=binning)))
    edges = ["Edges"] if binning == "quantiles" else []
    entries = {entry.question: entry for entry in report.disclosures}
    assert list(entries) == ["Schema", "Facts", *edges, "Cuts", "Quality"]
    for name, entry in entries.items():
        rounds = [r for r in channel.rounds if r.question == name]
        assert entry.times == len(rounds)
        assert entry.statistic == rounds[0].reveals
        seen = "party by party" if name in {"Schema", "Quality"} else "summed"
        assert entry.seen_by.startswith(f"the coordinator, {seen}")


def test_a_small_message_limit_changes_rounds_and_nothing_else(three_tables, label):
    one = extra_trees.train(connected(three_tables), job(label, n_estimators=60))
    many = extra_trees.train(
        connected(three_tables), job(label, n_estimators=60, message_limit=1 << 16)
    )
    assert one.model.to_bytes() == many.model.to_bytes()
    assert len(many.rounds) > len(one.rounds)


# --- secure sums ---------------------------------------------------------------------------------


@pytest.mark.parametrize("max_features", ["sqrt", None])
def test_masks_change_nothing_but_what_is_seen(max_features, three_tables, label):
    settings = job(label, max_features=max_features)
    plain = extra_trees.train(connected(three_tables), settings)
    secret = extra_trees.train(masked(three_tables), settings)
    assert secret.model.to_bytes() == plain.model.to_bytes()
    assert list(secret.quality) == ["all parties"]
    for round_ in secret.rounds:
        if round_.verb == "sum":
            assert round_.protection.startswith("masked: single replies are hidden while")


def test_a_party_behind_masks_answers_no_sum_openly(three_tables):
    schema = next(iter(three_tables.values())).schema
    with pytest.raises(ProtocolError, match="answers FactsAsk under masks only"):
        masked(three_tables).ask(FactsAsk(schema.digest(), with_leading=True))


@pytest.mark.parametrize("kind", [ExtraTreesClassifier, ExtraTreesRegressor])
def test_an_estimator_with_secure_sums_is_the_same_forest(kind, ward_table, ward_labels):
    y = ward_labels["amount" if kind is ExtraTreesRegressor else "three classes"]
    party = deal_rows(y, 4, random_state=0)
    plain, secret = (
        kind(4, secure_sum=secure, random_state=0).fit(ward_table, y, party=party)
        for secure in (False, True)
    )
    assert secret.model_.to_bytes() == plain.model_.to_bytes()


# --- parties that do not fit ---------------------------------------------------------------------


def small_table(names=("a", "b"), classes=("no", "yes"), n=20, bounds=(-9.0, 9.0)):
    random = np.random.RandomState(0)
    columns = tuple(Column(name, "number", range=bounds) for name in names)
    schema = Schema(columns, Label("y", "class", classes))
    matrix = random.standard_normal((n, len(names)))
    return MemoryTable(schema, MatrixColumns(matrix), (np.arange(n) % 2).astype(np.int32))


def test_parties_whose_schemas_differ_are_told_where():
    channel = connected({"one": small_table(), "two": small_table(("a", "c"))})
    with pytest.raises(SchemaError, match=r"Party 'two' has no column 'b'"):
        extra_trees.train(channel, job("two classes"))


@pytest.mark.parametrize("binning", ["magnitudes", "ranges"])
def test_a_missing_range_is_refused(binning):
    channel = connected({"one": small_table(bounds=None)})
    with pytest.raises(SettingError, match="Column 'a' has no declared range"):
        extra_trees.train(channel, job("two classes", binning=binning))


def test_a_party_without_rows_takes_part():
    empty = small_table().select(np.zeros(0, np.intp))
    with_it = connected({"one": small_table(), "none": empty})
    alone = connected({"one": small_table()})
    assert (
        extra_trees.train(with_it, job("two classes")).model.to_bytes()
        == extra_trees.train(alone, job("two classes")).model.to_bytes()
    )


def test_a_job_over_no_rows_is_refused():
    empty = small_table().select(np.zeros(0, np.intp))
    with pytest.raises(TableError, match="The parties hold no rows together"):
        extra_trees.train(connected({"none": empty}), job("two classes"))


def test_a_question_of_another_protocol_is_refused():
    class OtherAsk(Ask[CountsReply]):
        """Who are you?"""

    with pytest.raises(ProtocolError, match="does not answer OtherAsk"):
        Party(small_table()).answer(OtherAsk())


def test_settings_of_another_forest_are_refused():
    with pytest.raises(SettingError, match="thresholds must be 'public' or 'exchanged'"):
        extra_trees.train(connected({"one": small_table()}), job("two classes", thresholds=None))


class Lying(Party):
    """A party that answers counts of its own making."""

    def __init__(self, table, change):
        super().__init__(table)
        self._change = change

    def answer(self, ask):
        reply = super().answer(ask)
        if isinstance(ask, CutsAsk):
            return CountsReply(self._change(reply.counts))
        return reply


def test_counts_without_the_cells_asked_for_are_refused():
    def shorter(counts):
        return Counts(counts.counters[:-1], np.array([len(counts.counters) - 1]))

    channel = InProcess({"liar": Lying(small_table(), shorter)})
    with pytest.raises(ProtocolError, match="do not have the cells asked for"):
        extra_trees.train(channel, job("two classes"))


def one_more(counts):
    counters = counts.counters.copy()
    counters[-1] += 1  # on one side of one cut only
    return Counts(counters, counts.run_ends)


def less_than_nothing(counts):
    counters = counts.counters.copy()
    counters[0] -= 1000
    counters[1] += 1000
    return Counts(counters, counts.run_ends)


def twice(counts):
    return Counts(2 * counts.counters, counts.run_ends)


@pytest.mark.parametrize("change", [one_more, less_than_nothing])
def test_sums_that_cannot_be_are_refused(change):
    parties = {"honest": Party(small_table()), "liar": Lying(small_table(), change)}
    with pytest.raises(ProtocolError, match="do not add up to the rows that its node holds"):
        extra_trees.train(InProcess(parties), job("two classes"))


def beyond_the_range(counts):
    counters = counts.counters.copy()
    counters[:, 1] = counters[:, 0] << 45
    return Counts(counters, counts.run_ends)


def test_targets_out_of_their_range_are_refused():
    table = small_table()
    schema = Schema(table.schema.columns, Label("y", "number", range=(0.0, 1.0)))
    amounts = MemoryTable(schema, table.columns, table.target.astype(np.float64))
    channel = InProcess({"liar": Lying(amounts, beyond_the_range)})
    with pytest.raises(ProtocolError, match="rows cannot have reported so much"):
        extra_trees.train(channel, job("amount"))


def test_sums_that_do_not_fit_the_level_before_are_refused():
    rounds = []

    def later(counts):
        rounds.append(1)
        return twice(counts) if len(rounds) > 1 else counts

    parties = {"honest": Party(small_table()), "liar": Lying(small_table(), later)}
    with pytest.raises(ProtocolError, match="One of the parties answers wrongly"):
        extra_trees.train(InProcess(parties), job("two classes"))
    assert len(rounds) == 2


def test_a_lost_party_ends_an_open_job():
    class Gone(Party):
        def answer(self, ask):
            if isinstance(ask, CutsAsk):
                raise PartyLostError("It does not answer.")
            return super().answer(ask)

    channel = InProcess({"here": Party(small_table()), "gone": Gone(small_table())})
    with pytest.raises(PartyLostError, match="Party 'gone': It does not answer"):
        extra_trees.train(channel, job("two classes"))
