"""Extra-trees keep the protocols' promises: few rounds, traffic and disclosures as they are."""

import numpy as np
import pytest

from contracts.forest_jobs import EXTRA, small_table  # type: ignore[import-not-found]
from spinney.errors import ProtocolError, SettingError
from spinney.protocols import extra_trees
from spinney.protocols.extra_trees.messages import CutsAsk
from spinney.protocols.extra_trees.party import Party
from spinney.protocols.rows.setup import CountsReply
from spinney.report.report import Report
from spinney.tables.schema import Label, Schema
from spinney.tables.table import MemoryTable
from spinney.transport.in_process import InProcess
from spinney.trees.counts import Counts

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")

job, connected, masked = EXTRA.job, EXTRA.connected, EXTRA.masked


# --- rounds, bytes, disclosures ------------------------------------------------------------------


@pytest.mark.parametrize("max_depth", [1, 4, None])
@pytest.mark.parametrize("binning", ["quantiles", "magnitudes", "ranges"])
def test_rounds_are_at_most_the_deepest_depth_and_ten(binning, max_depth, three_tables, label):
    """Schemas, facts, quality; a last level that nothing cuts; 3 for nodes that draw on.

    And three for quantiles.
    """
    channel = connected(three_tables)
    settings = job(label, binning=binning, max_depth=max_depth, n_estimators=20)
    training = extra_trees.train(channel, settings)
    most = 10 if binning == "quantiles" else 7
    assert len(channel.rounds) <= int(training.model.forest.depths.max()) + most


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


# --- parties that do not fit ---------------------------------------------------------------------


@pytest.mark.parametrize("binning", ["magnitudes", "ranges"])
def test_a_missing_range_is_refused(binning):
    channel = connected({"one": small_table(bounds=None)})
    with pytest.raises(SettingError, match="Column 'a' has no declared range"):
        extra_trees.train(channel, job("two classes", binning=binning))


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
    with pytest.raises(ProtocolError, match="do not add up to the rows of its node"):
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
    with pytest.raises(ProtocolError, match="they are too large for the number of rows"):
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
