"""The whole forest under masks, with parties that leave on the way: byte for byte the forest that
grows without masks when the parties that left count for nothing from then on.

A party leaves at a *stage*: when keys are agreed, or with a question. It leaves before its vector
is sent, so that the sum is without it, or after, before it has opened the sum, which then holds
its counts. The reference sums in the open, over whoever is there, and asks about every node of
every level, so that it shares neither masks nor siblings' arithmetic with what is tested.
"""

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spinney.errors import PartyLostError, ProtocolError
from spinney.protocols import horizontal_forest
from spinney.protocols.horizontal_forest.party import Party
from spinney.protocols.secure_sums.channel import (
    EpochAsk,
    MaskedAsk,
    RevealAsk,
)
from spinney.protocols.secure_sums.simulated import secure_parties
from spinney.report.report import Report
from spinney.tables.columns import VectorColumns
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MemoryTable
from spinney.transport.channel import Channel, Round
from spinney.transport.in_process import InProcess

SCHEMA = Schema(
    (Column("age", "number", (0, 100)), Column("ward", "category", categories=("eye", "ear"))),
    Label("ill", "class", ("no", "yes")),
)
ROWS_EACH = 14
EARLY, LATE = "before its vector", "after its vector"
STAGES = ("keys", "Facts", "Level 0", "Level 1", "Level 2", "Quality")


def table(rows: Any) -> MemoryTable:
    """Return some of a hundred and more rows that a tree of depth 3 cannot part."""
    number = np.asarray(rows)
    age = (number * 37 % 101).astype(np.float32)
    ward = (number % 3 == 0).astype(np.float32)
    ill = ((age > 40) ^ (number % 3 == 0) ^ (number % 7 == 0)).astype(np.int32)
    return MemoryTable(SCHEMA, VectorColumns((age, ward)), ill)


def tables(n_parties: int) -> dict[str, MemoryTable]:
    return {f"p{i}": table(range(i * ROWS_EACH, (i + 1) * ROWS_EACH)) for i in range(n_parties)}


def job(**changes: Any) -> horizontal_forest.Settings:
    facts: dict[str, Any] = {
        "task": "classification",
        "n_estimators": 2,
        "max_depth": 3,
        "max_features": None,  # so that siblings are derived
        "max_bins": 16,
        "binning": "ranges",
        "seed": 3,
    }
    return horizontal_forest.Settings(**facts | changes)


@dataclass(frozen=True)
class Leaving:
    """When a party leaves, and whether its vector of that round still counts."""

    stage: str
    moment: str = EARLY


def stage_of(question: Any) -> str:
    name = type(question).__name__.removesuffix("Ask")
    return f"Level {len(question.levels)}" if name == "Level" else name


class Leaves:
    """A party that answers until it leaves."""

    def __init__(self, party: Any, leaving: Leaving | None) -> None:
        self.party, self.leaving = party, leaving
        self.is_gone, self.stage = False, ""

    def answer(self, ask: Any) -> Any:
        moment = EARLY
        if isinstance(ask, EpochAsk):
            self.stage = "keys"
        elif isinstance(ask, MaskedAsk):
            known = {kind.__name__: kind for kind in horizontal_forest.SUMMED}
            self.stage = stage_of(ask.unwrapped(known))
        elif isinstance(ask, RevealAsk):
            moment = LATE
        self.is_gone |= self.leaving == Leaving(self.stage, moment)
        if self.is_gone:
            raise PartyLostError("It does not answer.")
        return self.party.answer(ask)


class InTheOpen(Channel):
    """The reference: sums over the parties that are there."""

    is_masked = True  # quality is summed, as it is under masks

    def __init__(self, parties: dict[str, Any], leaving: dict[str, Leaving]) -> None:
        self.parties, self.rounds = tuple(parties), []
        self._there, self._leaving = dict(parties), leaving
        self._counted: tuple[str, ...] = ()  # whose counts the level before is made of
        self._leave("keys", EARLY)

    def _leave(self, stage: str, moment: str) -> None:
        for name, when in self._leaving.items():
            if when == Leaving(stage, moment):
                self._there.pop(name, None)  # a stage may come twice

    def ask(self, ask: Any, **_: Any) -> dict[str, Any]:
        return {name: party.answer(ask) for name, party in self._there.items()}

    def sum(self, ask: Any, **_: Any) -> Any:
        stage = stage_of(ask)
        self._leave(stage, EARLY)
        replies = [party.answer(ask).vectors() for party in self._there.values()]
        number = len(self.rounds) + 1
        heard = there = tuple(self._there)
        if stage.startswith("Level"):
            heard = (f"whoever answered round {number}",)  # never the same: nothing is derived
        self.rounds.append(Round(number, stage, "sum", ask.reveals, "", {}, {}, 0.0, heard))
        # Under masks a level with derived nodes is asked about again only when somebody has left;
        # here always, and who leaves late is still there for the question that is used.
        is_used = not (stage.startswith("Level") and ask.frontier.derived.any())
        if is_used or there != self._counted:
            self._leave(stage, LATE)
        if is_used:
            self._counted = there
        sums = (np.sum(parts, axis=0) for parts in zip(*replies, strict=True))
        kinds = (vector.dtype for vector in replies[0])
        return ask.reply_type.of_vectors(
            tuple(total.astype(kind) for total, kind in zip(sums, kinds, strict=True))
        )


def parties_of(n_parties: int) -> dict[str, Any]:
    return {name: Party(own, n_jobs=1) for name, own in tables(n_parties).items()}


def masked(n_parties: int, leaving: dict[str, Leaving], **options: Any) -> Any:
    def connect(wrapped: dict[str, Any]) -> InProcess:
        return InProcess({name: Leaves(p, leaving.get(name)) for name, p in wrapped.items()})

    return secure_parties(
        parties_of(n_parties), connect, horizontal_forest.SUMMED, job="dropouts", **options
    )


def forest_bytes(channel: Channel, how: Any) -> bytes:
    return horizontal_forest.train(channel, how, n_jobs=1).model.to_bytes()


def assert_same(n_parties: int, leaving: dict[str, Leaving], how: Any) -> None:
    under_masks = forest_bytes(masked(n_parties, leaving), how)
    reference = forest_bytes(InTheOpen(parties_of(n_parties), leaving), how)
    assert under_masks == reference, leaving


def most_dropouts(n_parties: int) -> int:
    """Half of the parties are honest; a secret takes one more than may collude."""
    honest = (n_parties + 1) // 2
    return n_parties - max(honest, n_parties - honest + 1)


def subsets(n_parties: int) -> list[tuple[str, ...]]:
    names = [f"p{i}" for i in range(n_parties)]
    sizes = range(most_dropouts(n_parties) + 1)
    return [chosen for size in sizes for chosen in combinations(names, size)]


def pooled(n_parties: int, gone: tuple[str, ...], how: Any) -> bytes:
    """Return the forest of one party that holds the rows of all who stayed."""
    stayed = [i for i in range(n_parties) if f"p{i}" not in gone]
    rows = np.concatenate([np.arange(i * ROWS_EACH, (i + 1) * ROWS_EACH) for i in stayed])
    return forest_bytes(InProcess({"all": Party(table(rows), n_jobs=1)}), how)


MOMENTS = [(stage, moment) for stage in STAGES for moment in (EARLY, LATE)]
MOMENTS.remove(("keys", LATE))  # keys are not summed


@pytest.mark.parametrize(("stage", "moment"), MOMENTS)
@pytest.mark.parametrize("n_parties", [3, 4, 5])
def test_every_set_of_parties_may_leave_at_every_stage(n_parties, stage, moment):
    for gone in subsets(n_parties):
        assert_same(n_parties, dict.fromkeys(gone, Leaving(stage, moment)), job())


@pytest.mark.slow
@pytest.mark.parametrize("n_parties", [6, 7, 8, 9, 10])
def test_every_set_of_more_parties_may_leave(n_parties):
    for number, gone in enumerate(subsets(n_parties)):
        assert_same(n_parties, dict.fromkeys(gone, Leaving(*MOMENTS[number % 11])), job())


@settings(max_examples=20)
@given(st.data())
def test_parties_may_leave_one_after_another(data):
    n_parties = data.draw(st.integers(3, 10))
    gone = data.draw(st.sampled_from(subsets(n_parties)))
    stages = st.sampled_from(STAGES[1:])
    leaving = {
        name: Leaving(data.draw(stages), data.draw(st.sampled_from([EARLY, LATE]))) for name in gone
    }
    how = data.draw(
        st.sampled_from(
            [job(), job(max_features="sqrt"), job(binning="quantiles"), job(bootstrap=False)]
        )
    )
    late = {("Facts", LATE), ("Edges", EARLY), ("Edges", LATE)}
    in_binning = any((one.stage, one.moment) in late for one in leaving.values())
    if how.binning == "quantiles" and in_binning:
        return  # ends the job, see below
    assert_same(n_parties, leaving, how)


@pytest.mark.parametrize("gone", subsets(5), ids=",".join)
def test_who_leaves_before_anything_is_counted_might_not_have_been_there(gone):
    """An oracle of its own: the survivors' rows in one table, held by one party."""
    leaving = dict.fromkeys(gone, Leaving("keys"))
    assert forest_bytes(masked(5, leaving), job()) == pooled(5, gone, job())


@pytest.mark.parametrize("when", [("Facts", LATE), ("Edges", EARLY), ("Edges", LATE)], ids=str)
def test_who_leaves_while_bins_are_laid_ends_the_job(when):
    """Ranks of some rows and counts of others give no quantiles; counted again, they would differ
    from the first counts by those of the party that left."""
    how = job(binning="quantiles")
    for gone in filter(None, subsets(4)):
        leaving = dict.fromkeys(gone, Leaving(*when))
        with pytest.raises(ProtocolError, match="To count the others again would show its counts"):
            forest_bytes(masked(4, leaving), how)


def test_who_leaves_after_the_last_count_changes_nothing():
    everybody = forest_bytes(masked(3, {}), job())
    assert forest_bytes(masked(3, {"p1": Leaving("Quality")}), job()) == everybody
    assert forest_bytes(masked(3, {"p1": Leaving("Level 2", LATE)}), job()) == everybody
    assert forest_bytes(masked(3, {"p1": Leaving("Level 1")}), job()) != everybody


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("n_parties", [3, 4, 5])
def test_one_more_ends_the_job(n_parties, stage):
    gone = [f"p{i}" for i in range(most_dropouts(n_parties) + 1)]
    channel = masked(n_parties, dict.fromkeys(gone, Leaving(stage)))
    with pytest.raises(PartyLostError, match="are needed"):
        horizontal_forest.train(channel, job(), n_jobs=1)
    assert all(stage not in round_.question for round_ in channel.rounds)


# --- who left stays out --------------------------------------------------------------------------


class Hiccups(Leaves):
    """A party that misses one round and would be there again."""

    def answer(self, ask: Any) -> Any:
        try:
            return super().answer(ask)
        finally:
            self.is_gone, self.leaving = False, None if self.is_gone else self.leaving


@pytest.mark.parametrize("stage", ["Facts", "Level 1"])
def test_who_misses_one_round_is_asked_no_more(stage):
    """Sums of the same nodes with and without a party would differ by its own counts."""
    made: dict[str, Any] = {}

    def connect(wrapped: dict[str, Any]) -> InProcess:
        for name, party in wrapped.items():
            made[name] = Hiccups(party, Leaving(stage) if name == "p1" else None)
        return InProcess(made)

    channel = secure_parties(parties_of(3), connect, horizontal_forest.SUMMED, job="dropouts")
    reference = InTheOpen(parties_of(3), {"p1": Leaving(stage)})
    assert forest_bytes(channel, job()) == forest_bytes(reference, job())
    missed = [r for r in channel.rounds if "p1" not in r.answered]
    assert missed == channel.rounds[-len(missed) :]


def test_a_party_that_was_left_out_refuses_to_come_back():
    """Also if the coordinator would have it: the party looks at who was in the earlier sums."""
    wrapped: dict[str, Any] = {}

    def connect(parties: dict[str, Any]) -> InProcess:
        wrapped.update(parties)
        return InProcess({name: Hiccups(p, None) for name, p in parties.items()})

    channel = secure_parties(parties_of(3), connect, horizontal_forest.SUMMED, job="dropouts")
    party: Any = channel._inner._party_of_name["p1"]  # type: ignore[attr-defined]
    party.leaving = Leaving("Facts")
    with pytest.raises(ProtocolError, match="'p1' missed an earlier sum of this job"):
        horizontal_forest.train(Forgiving(channel), job(), n_jobs=1)


class Forgiving(Channel):
    """A coordinator that asks everybody again, whoever was missing."""

    is_masked = True

    def __init__(self, channel: Any) -> None:
        self.parties, self.rounds, self._channel = channel.parties, channel.rounds, channel

    def ask(self, ask: Any, *, to: Any = None, quorum: Any = None) -> dict[str, Any]:
        answers: dict[str, Any] = self._channel.ask(ask, to=to, quorum=quorum)
        return answers

    def sum(self, ask: Any, *, quorum: int | None = None) -> Any:
        self._channel._present = self.parties
        return self._channel.sum(ask, quorum=quorum)


def test_the_report_says_what_a_party_showed_by_leaving():
    stayed = Report.of(horizontal_forest.train(masked(3, {}), job(), n_jobs=1))
    assert "left" not in stayed.privacy[2].text
    assert stayed.privacy[2].verdict == "HIDDEN"
    channel = masked(3, {"p1": Leaving("Level 1")})
    report = Report.of(horizontal_forest.train(channel, job(), n_jobs=1))
    totals = report.privacy[2]  # against the coordinator
    assert totals.verdict == "UNPROTECTED"
    assert "p1 left before the end" in totals.text
    assert "HIDDEN" in totals.text  # of the others
