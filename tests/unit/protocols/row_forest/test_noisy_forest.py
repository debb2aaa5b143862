"""A forest with noise on its histograms: what is paid, what is released."""

import logging
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from spinney.privacy import entropy
from spinney.privacy.ledger import Ledger
from spinney.privacy.ledger_store import Charged
from spinney.protocols import horizontal_forest
from spinney.protocols.horizontal_forest.party import Party
from spinney.protocols.row_forest.messages import LeafAsk, NoisyLevelAsk
from spinney.tables.columns import VectorColumns
from spinney.tables.schema import Column
from spinney.transport import codec
from spinney.transport.in_process import InProcess
from unit.protocols.row_forest.noisy_forests import (  # type: ignore[import-not-found]
    COLUMNS,
    RECORD,
    N,
    asked_of_one,
    exact_model,
    job,
    masked,
    parties_of,
    table,
    trained,
)

# --- what is paid --------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3, 0])
@pytest.mark.parametrize("tree_rows", ["disjoint", "all"])
@pytest.mark.parametrize("epsilon", ["1/10", "3"])
def test_each_party_s_ledger_shows_exactly_epsilon(n_classes, tree_rows, epsilon):
    settings = job(n_classes, epsilon=epsilon, tree_rows=tree_rows)
    training, ledgers = trained(settings, table(n_classes), through_codec=True)
    for ledger in ledgers.values():
        assert ledger.spent("q", RECORD) == Fraction(epsilon)
        assert ledger.left("q", RECORD) == 0
        ledger.verify()
    claimed = {claim.epsilon for claim in training.claims if claim.verdict == "EPSILON"}
    assert claimed == {epsilon}


def test_trees_on_samples_spend_epsilon_but_for_rounding():
    _, ledgers = trained(job(tree_rows="sampled", sample_rate="1/3"), table())
    for ledger in ledgers.values():
        assert 1 - Fraction(1, 2**60) < ledger.spent("q", RECORD) <= 1


@pytest.mark.parametrize(("tree_rows", "times"), [("all", 3), ("disjoint", 1), ("bootstrap", 36)])
def test_the_paper_s_noise_is_charged_what_it_costs(tree_rows, times):
    settings = job(epsilon_per_count="2", tree_rows=tree_rows)
    training, ledgers = trained(settings, table())
    levels = int(training.model.forest.depths.max())
    assert levels == 3
    for ledger in ledgers.values():
        assert ledger.spent("q", RECORD) == times * levels * 2 * 2
        assert ledger.left("q", RECORD) is None  # nothing is refused


def test_a_tree_that_stops_early_leaves_nothing_unspent():
    _, ledgers = trained(job(changes={"min_samples_split": 10**9}), table())
    for ledger in ledgers.values():
        assert ledger.spent("q", RECORD) == 1
        charged = [e.body for e in ledger.entries() if isinstance(e.body, Charged)]
        assert [c.what for c in charged] == [
            "class counts in the histograms of level 0",
            "class counts in the leaves after 1 levels",
        ]
        assert charged[1].cost.amount == Fraction(3, 4)


@pytest.mark.parametrize("tree_rows", ["disjoint", "sampled", "all"])
def test_a_level_in_several_messages_costs_no_more(tree_rows):
    settings = job(changes={"n_estimators": 300, "message_limit": 1 << 16}, tree_rows=tree_rows)
    training, ledgers = trained(settings, table())
    assert sum(r.question == "NoisyLevel" for r in training.rounds) > 3
    assert all(ledger.spent("q", RECORD) <= 1 for ledger in ledgers.values())


def test_a_question_that_comes_again_gets_the_same_bytes_and_costs_nothing():
    asked, ledger, whole = asked_of_one(job(epsilon="100"))
    entries = len(ledger.entries())
    again = Party(whole, ledger=ledger)  # has forgotten all but its ledger
    questions = [(ask, reply) for ask, reply in asked if isinstance(ask, NoisyLevelAsk | LeafAsk)]
    assert len(questions) == 4
    for party in (again, again):
        for ask, reply in reversed(questions):
            assert codec.encode(party.answer(ask)) == codec.encode(reply)
    assert len(ledger.entries()) == entries
    assert ledger.spent("q", RECORD) == 100


def test_a_party_that_restarts_keeps_its_trees_rows():
    """Other coins after a restart would put a row in two trees, at twice the price."""
    whole, ledger = table(), Ledger.in_memory("one")

    class Forgetful:
        def answer(self, ask):
            return Party(whole, ledger=ledger).answer(ask)

    settings = job(epsilon="1000000", changes={"n_estimators": 5})
    forest = horizontal_forest.train(InProcess({"one": Forgetful()}), settings).model.forest
    roots = forest.moments[forest.tree_start[:-1]]
    assert roots.sum() == N  # every row in one tree


# --- what is released ----------------------------------------------------------------------------


@pytest.mark.parametrize("n_parties", [1, 2, 5])
@pytest.mark.parametrize("secure", [False, True])
def test_at_a_very_large_epsilon_the_forest_is_the_exact_one(n_parties, secure):
    if secure and n_parties == 1:
        return
    whole = table(3)
    made, _ = parties_of(whole, n_parties)
    settings = job(3, epsilon="1000000", tree_rows="all", in_shares=secure)
    channel: Any = InProcess(made, through_codec=True)
    if secure:
        channel = masked(made)
    private = horizontal_forest.train(channel, settings).model
    assert replace(private, noise=None).to_bytes() == exact_model(settings, whole).to_bytes()


@pytest.mark.parametrize("n_classes", [2, 0])
def test_at_a_very_large_epsilon_predictions_are_the_exact_ones(n_classes):
    whole = table(n_classes)
    settings = job(n_classes, epsilon="1000000000", tree_rows="all")
    private = horizontal_forest.train(InProcess(parties_of(whole)[0]), settings).model
    exact = exact_model(settings, whole)
    near = np.isclose(private.predict(whole.columns), exact.predict(whole.columns), rtol=1e-3)
    assert near.mean() > 0.99


@pytest.mark.parametrize("tree_rows", ["disjoint", "sampled"])
def test_trees_on_fewer_rows_are_exact_on_them_at_a_very_large_epsilon(tree_rows):
    whole = table(3)
    settings = job(3, epsilon="100000000", tree_rows=tree_rows, changes={"n_estimators": 4})
    model = trained(settings, whole)[0].model
    roots = model.forest.moments[model.forest.tree_start[:-1]].sum(axis=1)
    if tree_rows == "disjoint":
        assert roots.sum() == N
    else:
        assert all(abs(n - N / 2) < 100 for n in roots)
    hits = model.predict(whole.columns).argmax(axis=1) == whole.target
    assert hits.mean() > 0.6


@pytest.mark.parametrize("tree_rows", ["disjoint", "sampled", "all"])
def test_at_a_very_small_epsilon_the_forest_is_at_chance(tree_rows):
    whole = table(2)
    scores = []
    for seed in range(12):
        settings = job(epsilon="1/1000000000", tree_rows=tree_rows, changes={"seed": seed})
        with entropy.seeded_for_tests(seed):  # else one run in some hundreds would miss the mark
            model = trained(settings, whole)[0].model
        scores.append((model.predict(whole.columns).argmax(axis=1) == whole.target).mean())
    assert abs(np.mean(scores) - 0.5) < 0.12  # 12 forests of one standard deviation of about 0.12


def test_shares_at_a_very_small_epsilon_leave_the_forest_at_chance():
    whole = table(2)
    scores = []
    for seed in range(8):
        settings = job(epsilon="1/1000000000", in_shares=True, changes={"seed": seed})
        with entropy.seeded_for_tests(100 + seed):
            model = horizontal_forest.train(masked(parties_of(whole, 3)[0]), settings).model
        scores.append((model.predict(whole.columns).argmax(axis=1) == whole.target).mean())
    assert abs(np.mean(scores) - 0.5) < 0.14, scores


@pytest.mark.parametrize("tree_rows", ["disjoint", "all"])
def test_amounts_at_a_very_small_epsilon_are_guesses_within_their_range(tree_rows):
    whole = table(0)
    likeness = []
    for seed in range(12):
        settings = job(0, epsilon="1/1000000000", tree_rows=tree_rows, changes={"seed": seed})
        with entropy.seeded_for_tests(seed):
            found = trained(settings, whole)[0].model.predict(whole.columns)[:, 0]
        assert np.all((found >= 0) & (found <= 50))
        spread = np.std(found)
        likeness.append(np.corrcoef(found, whole.target)[0, 1] if spread > 0 else 0.0)
    assert abs(np.mean(likeness)) < 0.3, likeness  # as often against the truth as with it


def test_only_questions_with_noise_are_asked_and_every_cell_is_answered():
    asked, _, _ = asked_of_one(job(epsilon="100"))
    kinds = [type(ask).__name__ for ask, _ in asked]
    assert kinds == ["SchemaAsk", "JoinAsk", *["NoisyLevelAsk"] * 3, "LeafAsk", "ClaimsAsk"]
    for ask, reply in asked:
        if isinstance(ask, NoisyLevelAsk):
            assert reply.counters.size == 2 * ask.slots.n_cells
            assert np.all(ask.slots.cells[ask.slots.feature >= 0] > 1)
            assert np.all((ask.slots.feature >= 0).sum(axis=1) == 2)  # every slot, in every node
        if isinstance(ask, LeafAsk):
            assert reply.counters.size == 2 * ask.tree_of_leaf.size


def test_a_private_job_costs_as_many_rounds_as_it_has_levels():
    training, _ = trained(job(epsilon="100"), table())
    assert len(training.rounds) == 2 + 3 + 1 + 1
    assert training.quality == {}
    assert training.score is None


def test_values_outside_their_range_count_as_its_ends_and_only_the_party_is_told(caplog):
    whole = table(3)
    vectors: Any = [column.copy() for column in whole.columns.vectors]
    vectors[0][:7] = 1e6
    beyond = replace(whole, columns=VectorColumns(tuple(vectors)))
    ends = [column.copy() for column in vectors]
    ends[0][:7] = 100
    at_ends = replace(whole, columns=VectorColumns(tuple(ends)))
    settings = job(3, epsilon="100000000", tree_rows="all")
    with caplog.at_level(logging.WARNING, logger="spinney.party"):
        asked, _, _ = asked_of_one(settings, beyond)
    (record,) = caplog.records
    assert "Column 'age': 7 values lie outside the declared range" in record.getMessage()
    for _, reply in asked:
        assert b"outside" not in codec.encode(reply)
    same, _, _ = asked_of_one(settings, at_ends)
    for (_, one), (_, other) in zip(asked[2:5], same[2:5], strict=True):
        assert np.array_equal(one.counters, other.counters)


def test_the_party_is_told_also_where_its_data_set_has_a_name(caplog):
    whole = table()
    narrow = replace(whole.schema, columns=(Column("age", "number", (0, 10)), *COLUMNS[1:]))
    party = Party(replace(whole, schema=narrow), ledger=Ledger.in_memory("one"), data="wards")
    with caplog.at_level(logging.WARNING, logger="spinney.party"):
        horizontal_forest.train(InProcess({"one": party}), job(tree_rows="all"))
    assert len(caplog.records) == 1  # once, not at every question


def test_a_party_without_rows_adds_noise_like_any_other():
    whole = table()
    ledgers = {name: Ledger.in_memory(name) for name in ("full", "empty")}
    made = {
        "full": Party(whole, ledger=ledgers["full"]),
        "empty": Party(whole.select(np.zeros(0, np.intp)), ledger=ledgers["empty"]),
    }
    horizontal_forest.train(InProcess(made), job())
    assert [ledger.spent("q", RECORD) for ledger in ledgers.values()] == [1, 1]


def test_negative_counts_stay_negative_in_the_forest():
    settings = job(epsilon="1/10", changes={"n_estimators": 20})
    forest = trained(settings, table())[0].model.forest
    assert forest.moments.min() < 0
    assert np.all((forest.value >= 0) & (forest.value <= 1))
    assert np.allclose(forest.value.sum(axis=1), 1)
