"""The forest is the same however messages travel, and however often they are asked."""

from typing import Any

import pytest

from spinney import HorizontalForestClassifier, HorizontalForestRegressor, deal_rows
from spinney.estimators.inputs import deal_tables, fit_input
from spinney.protocols import horizontal_forest
from spinney.protocols.horizontal_forest.messages import LevelAsk
from spinney.protocols.horizontal_forest.party import Party
from spinney.transport import codec
from spinney.transport.in_process import InProcess

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")


def trained(X, y, party, *, task, through_codec=False, wrap=None, **changes):
    """Train by the protocol itself, with each party's object passed through `wrap`."""
    is_classifier = task == "classification"
    estimator = HorizontalForestClassifier() if is_classifier else HorizontalForestRegressor()
    given_input = fit_input(
        estimator,
        X,
        y,
        is_classifier=is_classifier,
        needs_ranges=False,
        schema=None,
        categorical_features="from_dtype",
    )
    tables = deal_tables(given_input.table, party)
    wrap = wrap or (lambda make: make())
    parties = {name: wrap(lambda table=table: Party(table)) for name, table in tables.items()}
    channel = InProcess(parties, through_codec=through_codec)
    criterion = "gini" if is_classifier else "squared_error"
    wanted: dict[str, Any] = {"n_estimators": 5, "criterion": criterion, "seed": 3} | changes
    return horizontal_forest.train(
        channel, horizontal_forest.Settings(task=task, **wanted)
    ), channel


TASKS = {"two classes": "classification", "three classes": "classification", "amount": "regression"}


@pytest.mark.parametrize("max_features", ["sqrt", None])
@pytest.mark.parametrize("label", TASKS)
def test_the_codec_changes_nothing(label, max_features, ward_table, ward_labels):
    y = ward_labels[label]
    party = deal_rows(y, 3, random_state=0)
    facts = {"task": TASKS[label], "max_features": max_features}
    plain, plain_channel = trained(ward_table, y, party, **facts)
    coded, coded_channel = trained(ward_table, y, party, through_codec=True, **facts)
    pooled, _ = trained(ward_table, y, None, **facts)
    assert plain.model.to_bytes() == coded.model.to_bytes() == pooled.model.to_bytes()
    assert plain.quality == coded.quality
    for here, there in zip(plain_channel.rounds, coded_channel.rounds, strict=True):
        assert here.bytes_up == there.bytes_up
        assert here.bytes_down == there.bytes_down


@pytest.mark.parametrize("max_features", ["sqrt", None])
@pytest.mark.parametrize("label", TASKS)
def test_a_message_limit_cuts_levels_into_batches_and_changes_nothing(
    label, max_features, ward_table, ward_labels
):
    y = ward_labels[label]
    party = deal_rows(y, 3, random_state=0)
    facts = {"task": TASKS[label], "n_estimators": 150, "max_features": max_features}
    whole, channel = trained(ward_table, y, party, **facts)
    batched, more_rounds = trained(ward_table, y, party, message_limit=1 << 16, **facts)
    assert len(more_rounds.rounds) > len(channel.rounds)
    assert batched.model.to_bytes() == whole.model.to_bytes()


class Forgetful:
    """A party that starts afresh before some questions."""

    def __init__(self, make, times):
        self._make, self._times = make, times
        self._n_asked = 0
        self._party = make()

    def answer(self, ask):
        if self._n_asked in self._times:
            self._party = self._make()
        self._n_asked += 1
        return self._party.answer(ask)


class Repeating:
    """A party that is asked every question again, and now and then an older one."""

    def __init__(self, make):
        self._party = make()
        self._asked = []

    def answer(self, ask):
        once = codec.encode(self._party.answer(ask))
        twice = codec.encode(self._party.answer(ask))
        assert once == twice
        if self._asked:
            older = self._asked[len(self._asked) // 2]
            self._party.answer(older)
            assert codec.encode(self._party.answer(ask)) == once
        self._asked.append(ask)
        return self._party.answer(ask)


@pytest.mark.parametrize("label", TASKS)
def test_a_party_that_restarts_changes_nothing(label, ward_table, ward_labels):
    y = ward_labels[label]
    party = deal_rows(y, 3, random_state=0)
    facts = {"task": TASKS[label], "max_features": None}
    expected, channel = trained(ward_table, y, party, **facts)
    every_question = range(len(channel.rounds))
    for times in (every_question, {3}, {6, 7}, {len(channel.rounds) - 1}):
        found, _ = trained(
            ward_table, y, party, wrap=lambda make, times=times: Forgetful(make, times), **facts
        )
        assert found.model.to_bytes() == expected.model.to_bytes()
        assert found.quality == expected.quality


@pytest.mark.parametrize("label", TASKS)
def test_the_same_question_gets_the_same_reply(label, ward_table, ward_labels):
    y = ward_labels[label]
    party = deal_rows(y, 2, random_state=0)
    facts = {"task": TASKS[label], "max_features": None, "max_depth": 5}
    expected, _ = trained(ward_table, y, party, **facts)
    found, _ = trained(ward_table, y, party, wrap=Repeating, **facts)
    assert found.model.to_bytes() == expected.model.to_bytes()


def test_a_party_answers_two_jobs_in_turn(ward_table, ward_labels):
    """A question says which job it belongs to; a cache of another job is not used for it."""
    y = ward_labels["two classes"]
    asked: dict[int, list[LevelAsk]] = {}
    replies: dict[int, list[bytes]] = {}

    class Noting:
        def __init__(self, make, seed):
            self._party, self._seed = make(), seed
            asked[seed], replies[seed] = [], []

        def answer(self, ask):
            reply = self._party.answer(ask)
            if isinstance(ask, LevelAsk):
                asked[self._seed].append(ask)
                replies[self._seed].append(codec.encode(reply))
            return reply

    makes = []
    for seed in (1, 2):

        def noting(make, seed=seed):
            makes.append(make)
            return Noting(make, seed)

        trained(ward_table, y, None, task="classification", seed=seed, max_depth=4, wrap=noting)
    party = makes[0]()
    for step in range(3):
        for seed in (1, 2):
            assert codec.encode(party.answer(asked[seed][step])) == replies[seed][step]
