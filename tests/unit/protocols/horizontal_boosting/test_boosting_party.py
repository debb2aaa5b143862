"""A party of a boosting job: what it keeps is a cache, and it checks what it is asked."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spinney.errors import PartyLostError, ProtocolError
from spinney.estimators.horizontal_boosting import HorizontalBoostingClassifier
from spinney.estimators.inputs import deal_tables, fit_input
from spinney.protocols import horizontal_boosting
from spinney.protocols.horizontal_boosting import rows as boosted_rows
from spinney.protocols.horizontal_boosting.messages import (
    CurveAsk,
    CurveReply,
    ErrorsAsk,
    GradientsAsk,
)
from spinney.protocols.secure_sums.simulated import secure_parties
from spinney.transport.in_process import InProcess
from spinney.trees.batch import GrownBatch

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
SETTINGS = horizontal_boosting.Settings(
    task="classification",
    loss="log_loss",
    max_iter=6,
    batch_trees=2,
    max_depth=3,
    min_samples_leaf=2,
    seed=5,
)


class Forgetful:
    """A party that starts anew at every question."""

    def __init__(self, table):
        self._table = table

    def answer(self, ask):
        return horizontal_boosting.Party(self._table).answer(ask)


class Listening(horizontal_boosting.Party):
    """A party that keeps its questions about gradients."""

    def __init__(self, table):
        super().__init__(table)
        self.heard: list[GradientsAsk] = []

    def answer(self, ask):
        if isinstance(ask, GradientsAsk):
            self.heard.append(ask)
        return super().answer(ask)


@pytest.fixture
def tables(ward_table, ward_labels):
    given = fit_input(
        HorizontalBoostingClassifier(),
        ward_table,
        ward_labels["three classes"],
        is_classifier=True,
        needs_ranges=False,
        schema=None,
        categorical_features="from_dtype",
    )
    return deal_tables(given.table, np.arange(len(ward_table)) % 3)


@pytest.fixture
def heard(tables):
    parties = {name: Listening(table) for name, table in tables.items()}
    horizontal_boosting.train(InProcess(parties), SETTINGS)
    return next(iter(parties.values())).heard


def test_a_party_that_lost_its_memory_answers_the_same(tables):
    kept = {name: horizontal_boosting.Party(table) for name, table in tables.items()}
    lost: dict[str, Any] = {name: Forgetful(table) for name, table in tables.items()}
    expected = horizontal_boosting.train(InProcess(kept), SETTINGS).model
    found = horizontal_boosting.train(InProcess(lost), SETTINGS).model
    assert found.to_bytes() == expected.to_bytes()


def test_a_party_answers_an_earlier_question_again(tables, heard):
    party = horizontal_boosting.Party(next(iter(tables.values())))
    replies = [party.answer(ask).counts.counters.copy() for ask in heard]
    for place in (len(heard) - 1, 4, 0, 2):
        again = party.answer(heard[place]).counts.counters
        assert np.array_equal(again, replies[place])


def test_a_question_that_does_not_fit_is_refused(tables, heard):
    party = horizontal_boosting.Party(next(iter(tables.values())))
    late = heard[-1]
    batch = late.grown[0]
    short = GrownBatch(batch.levels, batch.value[:-1])
    unfinished = GrownBatch(
        batch.levels[:1], batch.value[: 6 + batch.levels[0].child_open.size // 2]
    )
    wrong = {
        "more trees than the job has": replace(late, grown=late.grown * 3),
        "leaves do not fit its levels": replace(late, grown=(short,), levels=(), first=0, last=1),
        "A finished batch has open nodes": replace(
            late, grown=(unfinished,), levels=(), first=0, last=1
        ),
        "nodes that are not open": replace(late, last=late.frontier.n_open + 1),
    }
    for words, ask in wrong.items():
        with pytest.raises(ProtocolError, match=words):
            party.answer(ask)


def test_parties_that_sit_together_answer_as_if_alone(tables, heard):
    alone = [horizontal_boosting.Party(table) for table in tables.values()]
    together = [horizontal_boosting.Party(table) for table in tables.values()]
    horizontal_boosting.Party.sit_together(together)
    for ask in (*heard, heard[1], heard[0], *heard[-2:]):
        for one, other in zip(together, alone, strict=True):
            found, expected = one.answer(ask), other.answer(ask)
            assert np.array_equal(found.counts.counters, expected.counts.counters)
            assert np.array_equal(found.counts.run_ends, expected.counts.run_ends)
            assert np.array_equal(found.losses, expected.losses)
    last = heard[-1]
    for one, other in zip(together, alone, strict=True):
        for ask in (ErrorsAsk(last.job, last.grown), CurveAsk(last.job, last.grown)):
            found, expected = one.answer(ask), other.answer(ask)
            assert all(map(np.array_equal, _arrays(found), _arrays(expected)))


def _arrays(reply):
    return [reply.losses] if isinstance(reply, CurveReply) else list(reply.vectors())


def test_neighbours_replies_are_not_held_beyond_a_limit(tables, heard, monkeypatch):
    monkeypatch.setattr(boosted_rows, "_MOST_HELD", 1)
    together = [horizontal_boosting.Party(table) for table in tables.values()]
    horizontal_boosting.Party.sit_together(together)
    first = horizontal_boosting.Party(next(iter(tables.values())))
    for ask in heard:
        found = [party.answer(ask).counts.counters for party in together]
        assert np.array_equal(found[0], first.answer(ask).counts.counters)
        assert all(one.base is not found[0].base for one in found[1:])


class Leaving(horizontal_boosting.Party):
    """A party that leaves at the third question about gradients."""

    n_left = 2

    def answer(self, ask):
        if isinstance(ask, GradientsAsk):
            self.n_left -= 1
            if self.n_left < 0:
                raise PartyLostError("It does not answer.")
        return super().answer(ask)


def test_a_masked_job_that_can_do_without_a_party_goes_on_when_it_leaves(tables):
    """Nodes are then asked about anew: a parent and a child no longer count the same rows."""
    names = list(tables)
    sides: dict[str, Any] = {name: horizontal_boosting.Party(tables[name]) for name in names}
    sides[names[-1]] = Leaving(tables[names[-1]])
    known = horizontal_boosting.SUMMED
    channel = secure_parties(sides, InProcess, known, job="one leaves", min_survivors=2)
    found = horizontal_boosting.train(channel, SETTINGS)
    assert found.model.forest.n_trees == 3 * SETTINGS.max_iter
    there = [one.answered for one in found.rounds if one.question == "Gradients"]
    assert there[:2] == [tuple(names)] * 2
    assert set(there[2:]) == {tuple(names[:-1])}


def test_a_masked_job_that_needs_all_ends_when_a_party_leaves(tables):
    sides: dict[str, Any] = {
        name: horizontal_boosting.Party(table) for name, table in tables.items()
    }
    name = next(iter(tables))
    sides[name] = Leaving(tables[name])
    known = horizontal_boosting.SUMMED
    channel = secure_parties(sides, InProcess, known, job="one leaves", needs_all=True)
    with pytest.raises(PartyLostError, match="2 parties"):
        horizontal_boosting.train(channel, SETTINGS)
