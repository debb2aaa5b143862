"""Protocols of forests: few rounds, traffic as reported, a full record of disclosures, masks."""

from typing import Any

import numpy as np
import pytest
from sklearn.base import is_regressor

from contracts.forest_jobs import (  # type: ignore[import-not-found]
    connected,
    job,
    masked,
)
from spinney import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HorizontalForestClassifier,
    HorizontalForestRegressor,
    deal_rows,
)
from spinney.errors import ProtocolError
from spinney.protocols import horizontal_forest
from spinney.protocols.horizontal_forest.messages import AdaptiveAsk
from spinney.protocols.horizontal_forest.party import Party
from spinney.protocols.rows.levels import GrowingJob
from spinney.protocols.rows.setup import FactsAsk
from spinney.protocols.secure_sums.simulated import secure_parties
from spinney.report.report import Report
from spinney.transport import codec
from spinney.transport.in_process import InProcess
from spinney.trees.binning import Binning
from spinney.trees.frontier import ROUNDS_LOST

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")

SUMS = ["Facts", "Edges", "Level"]


# --- rounds and bytes ----------------------------------------------------------------------------


@pytest.mark.parametrize("max_depth", [1, 4, None])
@pytest.mark.parametrize("binning", ["quantiles", "ranges", "adaptive"])
def test_rounds_are_at_most_the_deepest_depth_and_ten(binning, max_depth, three_tables, label):
    channel = connected(three_tables)
    training = horizontal_forest.train(channel, job(label, binning=binning, max_depth=max_depth))
    depth = int(training.model.forest.depths.max())
    assert len(channel.rounds) <= depth + 10
    assert [r.number for r in channel.rounds] == list(range(1, len(channel.rounds) + 1))


def test_more_trees_take_no_more_rounds(forest, three_tables, label):
    few, many = (
        forest.protocol.train(
            forest.connected(three_tables), forest.job(label, n_estimators=n, max_depth=4)
        )
        for n in (1, 60)
    )
    assert len(many.rounds) <= len(few.rounds) + ROUNDS_LOST  # nodes of some tree may draw on


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


def test_messages_are_counted_as_they_would_be_sent(forest, three_tables, label):
    plain, coded = (
        forest.connected(three_tables, through_codec=through) for through in (False, True)
    )
    one, two = (forest.protocol.train(channel, forest.job(label)) for channel in (plain, coded))
    assert one.model.to_bytes() == two.model.to_bytes()
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

    channel = secure_parties(parties, connect, horizontal_forest.SUMMED, job="test")
    found = horizontal_forest.train(channel, job(label, max_depth=4)).model
    plain = horizontal_forest.train(connected(three_tables), job(label, max_depth=4)).model
    assert found.to_bytes() == plain.to_bytes()


def test_a_party_behind_masks_answers_no_sum_openly(forest, three_tables):
    schema = next(iter(three_tables.values())).schema
    with pytest.raises(ProtocolError, match="answers FactsAsk only with masks"):
        forest.masked(three_tables).ask(FactsAsk(schema.digest(), with_leading=True))


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
    about = GrowingJob(settings, schema.digest(), binning, 2, 100)
    with pytest.raises(ProtocolError, match="the reply would show what masks hide"):
        channel.ask(AdaptiveAsk(about, (), 0, 1))


@pytest.mark.parametrize(
    "kind",
    [
        HorizontalForestClassifier,
        HorizontalForestRegressor,
        ExtraTreesClassifier,
        ExtraTreesRegressor,
    ],
)
def test_an_estimator_with_secure_sums_is_the_same_forest(kind, ward_table, ward_labels):
    y = ward_labels["amount" if is_regressor(kind()) else "three classes"]
    party = deal_rows(y, 4, random_state=0)
    plain, secret = (
        kind(4, secure_sum=secure, random_state=0).fit(ward_table, y, party=party)
        for secure in (False, True)
    )
    assert secret.model_.to_bytes() == plain.model_.to_bytes()
    assert secret.report_.disclosures[1].protection.startswith("masked")
    assert plain.report_.disclosures[1].protection == "summed by the channel; not masked"
