"""A forest with noise on its histograms: what is paid, what is released, what is refused."""

import logging
import warnings
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from spinney.errors import (
    BudgetError,
    InternalError,
    LedgerError,
    PartyLostError,
    PolicyError,
    ProtocolError,
    SettingError,
    TableError,
)
from spinney.privacy import entropy
from spinney.privacy.budget import Unit
from spinney.privacy.claims import Verdict, claims
from spinney.privacy.ledger import Ledger
from spinney.privacy.ledger_store import Charged, Disclosed
from spinney.privacy.release import Noised
from spinney.privacy.scopes import PARTY_TOTALS, Budget
from spinney.protocols import horizontal_forest
from spinney.protocols.horizontal_forest import LevelAsk, Party
from spinney.protocols.noisy_histograms import (
    LeafAsk,
    NoisyLevelAsk,
    NoisyRows,
    noisy_job,
    plan_of,
)
from spinney.protocols.paying import ExactJob, JoinAsk, Purse
from spinney.protocols.private_settings import PrivacySettings
from spinney.protocols.secure_sums import MaskedAsk, RevealAsk, secured
from spinney.protocols.setup import FactsAsk, SchemaAsk
from spinney.protocols.shares import OnlyMasked, shares_in
from spinney.tables.columns import VectorColumns
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MemoryTable
from spinney.transport import codec
from spinney.transport.in_process import InProcess

RECORD = Unit.RECORD_ADD_REMOVE
N = 900
COLUMNS = (
    Column("age", "number", (0, 100)),
    Column("income", "number", (-3, 3)),
    Column("ward", "category", categories=("eye", "heart", "lung")),
    Column("smokes", "boolean"),
)
LABELS = {
    2: Label("ill", "class", ("no", "yes")),
    3: Label("ill", "class", ("no", "maybe", "yes")),
    0: Label("days", "number", range=(0.0, 50.0)),
}


def table(n_classes=2, n=N, seed=0):
    """Return rows of every kind of column, all with gaps, and labels that follow from them."""
    random = np.random.RandomState(seed)
    age = random.uniform(0, 100, n)
    income = random.standard_normal(n).clip(-3, 3)
    ward, smokes = random.randint(0, 3, n), random.randint(0, 2, n)
    score = age / 50 + (ward == 1) + smokes + 0.2 * random.standard_normal(n)
    target: Any = np.digitize(
        score, np.quantile(score, [1 / n_classes, 0.66][: n_classes - 1] if n_classes else [])
    )
    if n_classes == 0:
        target = (score * 10).clip(0, 50)
    vectors = [column.astype(np.float32) for column in (age, income, ward, smokes)]
    for vector in vectors:
        vector[random.random_sample(n) < 0.05] = np.nan
    target = target.astype(np.int32 if n_classes else np.float64)
    return MemoryTable(Schema(COLUMNS, LABELS[n_classes]), VectorColumns(tuple(vectors)), target)


def job(n_classes=2, changes: Any = None, **privacy: Any) -> horizontal_forest.Settings:
    facts: dict[str, Any] = {
        "task": "classification" if n_classes else "regression",
        "criterion": "gini" if n_classes else "squared_error",
        "n_estimators": 3,
        "max_depth": 3,
        "max_features": 2,
        "max_bins": 16,
        "binning": "ranges",
        "bootstrap": False,
        "seed": 1,
    }
    if "epsilon_per_count" not in privacy:
        privacy = {"epsilon": "1"} | privacy
    return horizontal_forest.Settings(
        **facts | (changes or {}), privacy=PrivacySettings(job="q", **privacy)
    )


def dealt(whole, n_parties=2):
    return {str(k): whole.select(np.arange(k, N, n_parties)) for k in range(n_parties)}


def parties_of(whole, n_parties=2, ledgers=None):
    ledgers = ledgers or {name: Ledger.in_memory(name) for name in dealt(whole, n_parties)}
    made: dict[str, Any] = {
        name: Party(part, ledger=ledgers[name]) for name, part in dealt(whole, n_parties).items()
    }
    return made, ledgers


def trained(settings, whole, n_parties=2, **channel):
    made, ledgers = parties_of(whole, n_parties)
    return horizontal_forest.train(InProcess(made, **channel), settings), ledgers


def exact_model(settings, whole):
    """Return the forest that one table without noise would grow."""
    channel = InProcess({"all": Party(whole)})
    return horizontal_forest.train(channel, replace(settings, privacy=None)).model


def masked(made):
    """Return a channel that shows sums only, and only over all parties."""
    return secured(made, InProcess, horizontal_forest.SUMMED, job="q", min_survivors=len(made))


class Noting:
    """A party that notes what it is asked and what it answers."""

    def __init__(self, party, asked=None):
        self.party, self.asked = party, [] if asked is None else asked

    def answer(self, ask):
        reply = self.party.answer(ask)
        self.asked.append((ask, reply))
        return reply


def asked_of_one(settings, whole=None):
    """Train with one party; return what it was asked, with its ledger and its table."""
    whole = whole or table()
    ledger = Ledger.in_memory("one")
    party = Noting(Party(whole, ledger=ledger))
    horizontal_forest.train(InProcess({"one": party}), settings)
    return party.asked, ledger, whole


@contextmanager
def no_randomness(monkeypatch):
    """Fail if any randomness is drawn within."""
    with monkeypatch.context() as patch:
        for name in ("words", "secret_bytes"):
            patch.setattr(entropy, name, lambda _: pytest.fail("randomness was drawn"))
        yield


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
    assert private.to_bytes() == exact_model(settings, whole).to_bytes()


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


# --- noise in shares -----------------------------------------------------------------------------


@pytest.mark.parametrize("n_parties", [2, 3, 5])
def test_shares_under_masks_cost_exactly_epsilon(n_parties):
    made, ledgers = parties_of(table(), n_parties)
    channel = masked(made)
    training = horizontal_forest.train(channel, job(in_shares=True))
    for ledger in ledgers.values():
        assert ledger.spent("q", RECORD) == 1
        charged = [e.body for e in ledger.entries() if isinstance(e.body, Charged)]
        assert {c.t_honest for c in charged} == {(n_parties + 1) // 2}
        assert {c.parameters["parties"] for c in charged} == {str(n_parties)}
    totals = [c for c in training.claims if c.unit == "a party's own totals"]
    assert {claim.verdict for claim in totals} == {"HIDDEN"}


def test_a_share_never_leaves_without_a_mask():
    for through_codec in (False, True):
        made, _ = parties_of(table())
        channel = InProcess(made, through_codec=through_codec)
        with pytest.raises(ProtocolError, match="leaves under a mask only"):
            horizontal_forest.train(channel, job(in_shares=True))


def test_own_noise_under_masks_is_fine_too():
    made, ledgers = parties_of(table())
    channel = secured(made, InProcess, horizontal_forest.SUMMED, job="q")
    horizontal_forest.train(channel, job())
    assert [ledger.spent("q", RECORD) for ledger in ledgers.values()] == [1, 1]


class Leaves:
    """A party in a secure sum that stops answering at a level."""

    def __init__(self, party, level):
        self.party, self.level, self.gone = party, level, False

    def answer(self, ask):
        if isinstance(ask, MaskedAsk) and isinstance(ask.in_hand, NoisyLevelAsk):
            self.gone |= len(ask.in_hand.levels) == self.level
        if self.gone:
            raise PartyLostError("It does not answer.")
        return self.party.answer(ask)


@pytest.mark.parametrize("level", [0, 1])
def test_a_sum_with_a_share_missing_is_opened_by_no_party(level):
    """Whatever the sums' own settings allow: here two of three would be enough for them."""
    made, ledgers = parties_of(table(), 3)
    asked: dict[str, Any] = {}

    def connect(wrapped):
        noting = {name: Noting(party) for name, party in wrapped.items()}
        asked.update({name: party.asked for name, party in noting.items()})
        return InProcess({**noting, "2": Leaves(noting["2"], level)})

    channel = secured(made, connect, horizontal_forest.SUMMED, job="q")
    with pytest.raises(ProtocolError, match="2 of the 3 parties that share the noise") as told:
        horizontal_forest.train(channel, job(in_shares=True, epsilon="400"))
    assert "Nothing was revealed" in told.value.public
    for name in "01":  # none of them revealed a share of that round; the charge stands
        opened = [ask for ask, _ in asked[name] if isinstance(ask, RevealAsk)]
        assert len(opened) == level
        assert ledgers[name].spent("q", RECORD) == 100 * (level + 1)


def test_without_shares_a_party_may_leave_and_the_rest_goes_on():
    made, ledgers = parties_of(table(), 3)

    def connect(wrapped):
        return InProcess({**wrapped, "2": Leaves(wrapped["2"], 1)})

    channel = secured(made, connect, horizontal_forest.SUMMED, job="q")
    training = horizontal_forest.train(channel, job(epsilon="400"))
    assert {claim.party for claim in training.claims} == {"0", "1"}
    assert [ledgers[name].spent("q", RECORD) for name in "012"] == [400, 400, 100]


def test_masks_that_rest_on_more_honest_parties_than_the_noise_are_refused():
    """The claim is against as many curious as the noise allows; masks must hold out as long."""
    made, _ = parties_of(table(), 5)
    channel = secured(made, InProcess, horizontal_forest.SUMMED, job="q", honest=4)
    with pytest.raises(ProtocolError, match="of which 3 must be honest; the masks are for 5 and"):
        horizontal_forest.train(channel, job(in_shares=True))


def test_masks_of_fewer_parties_than_share_the_noise_are_refused():
    made, _ = parties_of(table(), 3)
    asked: list[Any] = []
    made["0"] = Noting(made["0"], asked)
    horizontal_forest.train(masked(made), job(in_shares=True))
    join = next(ask for ask, _ in asked if isinstance(ask, JoinAsk))
    level: Any = next(ask for ask, _ in asked if isinstance(ask, NoisyLevelAsk))
    pair, _ = parties_of(table(), 2)
    for party in pair.values():
        party.answer(join)
    with pytest.raises(ProtocolError, match="The noise is shared by 3 parties"):
        secured(pair, InProcess, horizontal_forest.SUMMED, job="q").sum(level)


def test_noise_of_a_partys_own_needs_no_mask():
    with pytest.raises(InternalError, match="need no mask"):
        OnlyMasked(Noised(np.zeros(3, np.int64)))
    assert shares_in("no reply") is None


# --- what is refused -----------------------------------------------------------------------------


def test_a_budget_smaller_than_the_job_refuses_before_anything_is_drawn(monkeypatch):
    whole = table()
    ledger = Ledger.in_memory("one")
    ledger.allow_for_life("wards", [Budget.pure(Fraction(99, 100))])
    party = Party(whole, ledger=ledger, data="wards")
    with (
        no_randomness(monkeypatch),
        pytest.raises(BudgetError, match="Nothing was released") as caught,
    ):
        horizontal_forest.train(InProcess({"one": party}), job())
    assert caught.value.party == "one"
    assert ledger.left_for_life("wards", RECORD) == Fraction(99, 100)
    assert "99" not in caught.value.public  # what is left is nobody else's business


def test_a_budget_for_life_is_shared_by_all_jobs_on_a_data_set():
    ledger = Ledger.in_memory("one")
    ledger.allow_for_life("wards", [Budget.pure(2)])
    party = Party(table(), ledger=ledger, data="wards")
    for name in ("a", "b"):
        horizontal_forest.train(InProcess({"one": party}), renamed(job(), name))
    with pytest.raises(BudgetError):
        horizontal_forest.train(InProcess({"one": party}), renamed(job(), "c"))
    assert ledger.left_for_life("wards", RECORD) == 0


def renamed(settings, name):
    return replace(settings, privacy=replace(settings.privacy, job=name))


def test_a_question_beyond_the_budget_is_refused_before_anything_is_drawn(monkeypatch):
    asked, ledger, whole = asked_of_one(job(tree_rows="all"))
    party = Party(whole, ledger=ledger)
    level = next(ask for ask, _ in asked if isinstance(ask, NoisyLevelAsk))
    other = replace(level, last=level.last - 1)  # not asked before, so it would have to be paid
    before = ledger.entries()
    with no_randomness(monkeypatch), pytest.raises(BudgetError, match="left epsilon=0"):
        party.answer(other)
    assert ledger.entries() == before


def changed_ask(ask, **privacy):
    settings = ask.job.settings
    changed = replace(settings, privacy=replace(settings.privacy, **privacy))
    return replace(ask, job=replace(ask.job, settings=changed))


@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": "2"},
        {"in_shares": True, "honest": 1},
        {"epsilon": None, "epsilon_per_count": "1"},
    ],
    ids=["more", "in shares", "the paper's way"],
)
def test_a_question_on_other_terms_than_the_party_joined_on(monkeypatch, changes):
    asked, ledger, whole = asked_of_one(job())
    before = ledger.entries()
    for ask, _ in asked:
        if isinstance(ask, NoisyLevelAsk):
            with no_randomness(monkeypatch), pytest.raises((PolicyError, SettingError)):
                Party(whole, ledger=ledger).answer(
                    replace(
                        changed_ask(ask, **changes),
                        job=replace(changed_ask(ask, **changes).job, n_parties=3),
                    )
                )
    assert ledger.entries() == before


@pytest.mark.parametrize(
    ("settings", "privacy"),
    [({"n_estimators": 2}, {}), ({}, {"tree_rows": "sampled"}), ({}, {"tree_rows": "all"})],
    ids=str,
)
def test_trees_of_another_deal_are_other_terms(monkeypatch, settings, privacy):
    """Tree 1 of two shares rows with tree 2 of three; one name would hide that they add up."""
    asked, ledger, whole = asked_of_one(job())
    level = next(ask for ask, _ in asked if isinstance(ask, NoisyLevelAsk))
    other = job(changes=settings, **privacy)
    channel, theirs = InProcess({"one": Party(whole, ledger=ledger)}), level.job.settings
    assert other != theirs
    with no_randomness(monkeypatch), pytest.raises(PolicyError, match="not on the terms"):
        horizontal_forest.train(channel, other)
    n_trees = other.n_estimators
    question = replace(
        level, job=replace(level.job, settings=other), first=0, last=min(level.last, n_trees)
    )
    with no_randomness(monkeypatch), pytest.raises(PolicyError, match="not on the terms"):
        Party(whole, ledger=ledger).answer(question)


def test_a_deal_is_named_by_its_number_of_trees():
    scopes = [
        plan_of(noisy_job(table().schema, s, 1)).scope(0)
        for s in (job(), job(changes={"n_estimators": 2}))
    ]
    assert scopes[0].path[0].group != scopes[1].path[0].group


def test_labels_outside_their_range_are_told_to_the_party_too(caplog):
    whole = table(0)
    far = MemoryTable(whole.schema, whole.columns, np.where(whole.target > 40, 99.0, whole.target))
    with caplog.at_level(logging.WARNING, "spinney.party"):
        trained(job(0), far)
    assert "Column 'days'" in caplog.text
    assert "outside the declared range (0.0, 50.0)" in caplog.text


def test_a_job_cannot_be_joined_again_on_other_terms():
    whole, ledger = table(), Ledger.in_memory("one")
    party = Party(whole, ledger=ledger)
    digest = whole.schema.digest()
    party.answer(JoinAsk(job(), digest, 1))
    assert party.answer(JoinAsk(job(), digest, 1)).party == "one"
    with pytest.raises(LedgerError, match="opened on other terms"):
        party.answer(JoinAsk(job(epsilon="2"), digest, 1))
    with pytest.raises(LedgerError, match="opened on other terms"):
        party.answer(JoinAsk(job(), digest, 4))


def test_a_question_of_a_job_that_was_never_joined(monkeypatch):
    asked, _, whole = asked_of_one(job())
    stranger = Party(whole, ledger=Ledger.in_memory("other"))
    for ask, _ in asked:
        if isinstance(ask, NoisyLevelAsk | LeafAsk):
            with no_randomness(monkeypatch), pytest.raises(LedgerError, match="knows no job"):
                stranger.answer(ask)


def test_a_party_with_a_ledger_answers_no_exact_question():
    whole = table()
    asked: list[Any] = []
    exact = replace(job(), privacy=None)
    horizontal_forest.train(InProcess({"one": Noting(Party(whole), asked)}), exact)
    party = Party(whole, ledger=Ledger.in_memory("one"))
    for ask, _ in asked[1:]:
        with pytest.raises(PolicyError, match="answers with noise only"):
            party.answer(ask)
    with pytest.raises(PolicyError, match="answers with noise only"):  # nor under another name
        party.answer(FactsAsk(whole.schema.digest(), with_leading=False, terms=None))
    noisy = next(ask for ask, _ in asked_of_one(job())[0] if isinstance(ask, NoisyLevelAsk))
    with pytest.raises(PolicyError, match="answers with noise only"):
        party.answer(LevelAsk(noisy.job, (), 0, 1))


@pytest.mark.parametrize("honest", [None, 2])
def test_an_exact_job_stands_in_the_ledger_as_unprotected(honest):
    """The job is let on the ledger by name; before a reply leaves, the ledger says that it does."""
    whole = table()
    ledgers = {name: Ledger.in_memory(name) for name in dealt(whole, 3)}
    made: dict[str, Any] = {
        name: Party(part, ledger=ledgers[name], exact=ExactJob("open", 3, honest))
        for name, part in dealt(whole, 3).items()
    }
    settings = replace(job(), privacy=None)
    channel = secured(made, InProcess, horizontal_forest.SUMMED, job="q") if honest else None
    model = horizontal_forest.train(channel or InProcess(made), settings).model
    assert model.to_bytes() == exact_model(settings, whole).to_bytes()
    for ledger in ledgers.values():
        found = {(claim.unit, claim.view.value): claim for claim in claims(ledger, "open")}
        record = found[RECORD, "reader"]
        assert (record.verdict, record.epsilon) == (Verdict.UNPROTECTED, None)
        assert "counts of rows, classes, missing values" in record.text
        assert "exact: the job adds no noise" in record.text
        assert "epsilon=" not in " ".join(claim.text for claim in found.values())
        totals = found[PARTY_TOTALS, "coordinator"]
        assert totals.verdict is (Verdict.HIDDEN if honest else Verdict.UNPROTECTED)
        told = [e.body.disclosure.what for e in ledger.entries() if isinstance(e.body, Disclosed)]
        assert sum("histograms of tree nodes" in what for what in told) == 2 * 3
        ledger.verify()


def test_an_exact_job_s_question_asked_again_is_written_down_once():
    whole = table()
    ledger = Ledger.in_memory("one")
    party = Party(whole, ledger=ledger, exact=ExactJob("open", 1))
    ask = FactsAsk(whole.schema.digest(), with_leading=False)
    for _ in range(3):
        party.answer(ask)
    assert len([e for e in ledger.entries() if isinstance(e.body, Disclosed)]) == 2


def test_a_party_without_a_ledger_answers_no_private_question():
    asked, _, whole = asked_of_one(job())
    for ask, _ in asked[1:]:
        with pytest.raises(PolicyError, match="no ledger to pay from"):
            Party(whole).answer(ask)


def test_bins_that_are_not_those_of_the_declared_ranges():
    asked, ledger, whole = asked_of_one(job())
    ask = next(ask for ask, _ in asked if isinstance(ask, NoisyLevelAsk))
    edges = tuple(e + 1 for e in ask.job.binning.edges)
    for binning in (
        replace(ask.job.binning, edges=edges),
        replace(ask.job.binning, has_missing=np.zeros(4, bool)),
    ):
        with pytest.raises(ProtocolError, match="not those of the declared ranges"):
            Party(whole, ledger=ledger).answer(replace(ask, job=replace(ask.job, binning=binning)))


def test_forests_that_do_not_fit_their_own_nodes(monkeypatch):
    asked, ledger, whole = asked_of_one(job(epsilon="100"))
    ask = [ask for ask, _ in asked if isinstance(ask, NoisyLevelAsk)][1]
    leaf = next(ask for ask, _ in asked if isinstance(ask, LeafAsk))
    (level,) = ask.levels
    bad = [
        {"feature": level.feature + 99},
        {"feature": level.feature[:1]},
        {"child_open": np.ones(98, bool)},
        {"child_bits": np.ones(98, np.uint8)},
        {"cut": level.cut[:1]},
        {"subset": level.subset + 1},
    ]
    before = ledger.entries()
    with no_randomness(monkeypatch):
        for changes in bad:
            broken = level.replaced(**changes)
            for question in (replace(ask, levels=(broken,)), replace(leaf, levels=(broken,))):
                with pytest.raises(ProtocolError, match="does not fit the nodes it is for"):
                    Party(whole, ledger=ledger).answer(question)
        for first, last in ((-1, 1), (0, 0), (0, 10**6), (2, 1)):
            with pytest.raises(ProtocolError, match="is none of them"):
                Party(whole, ledger=ledger).answer(replace(ask, first=first, last=last))
    assert ledger.entries() == before


def test_a_level_beyond_the_last_and_leaves_that_nobody_paid_for():
    asked, ledger, whole = asked_of_one(job(epsilon_per_count="10"))
    levels = [ask for ask, _ in asked if isinstance(ask, NoisyLevelAsk)]
    deepest = levels[-1]
    shallow = replace(deepest.job.settings, max_depth=2)
    beyond = replace(deepest, job=replace(deepest.job, settings=shallow))
    with pytest.raises(ProtocolError, match="The job has 2 levels"):
        Party(whole, ledger=ledger).answer(beyond)
    with pytest.raises(ProtocolError, match="pays for no second count"):
        Party(whole, ledger=ledger).answer(LeafAsk(deepest.job, deepest.levels))


def test_a_table_that_changes_while_the_job_runs():
    whole = table()
    ledger = Ledger.in_memory("one")
    asked: list[Any] = []
    party = Party(whole, ledger=ledger, data="wards")
    horizontal_forest.train(InProcess({"one": Noting(party, asked)}), job())
    fewer = Party(whole.select(np.arange(N - 1)), ledger=ledger, data="wards")
    level = next(ask for ask, _ in asked if isinstance(ask, NoisyLevelAsk))
    assert codec.encode(fewer.answer(level))  # answered before, so nothing is read
    horizontal_forest.train(
        InProcess({"one": party}), renamed(job(epsilon_per_count="1", tree_rows="sampled"), "r")
    )
    changed = replace(
        level,
        job=replace(
            level.job, settings=renamed(job(epsilon_per_count="1", tree_rows="sampled"), "r")
        ),
        last=1,
    )
    with pytest.raises(TableError, match="The table changed while the job was running"):
        fewer.answer(changed)


def test_a_question_that_is_not_private_and_not_exact():
    class Odd(horizontal_forest.QualityAsk.__mro__[1]):  # type: ignore[misc,name-defined]
        reveals = "nothing"

    with pytest.raises(ProtocolError, match="does not answer Odd"):
        Party(table(), ledger=Ledger.in_memory("one")).answer(Odd())


def test_rows_with_noise_are_not_asked_for_anything_else():
    with pytest.raises(InternalError, match="is not answered with noise"):
        NoisyRows(table(), Purse(Ledger.in_memory("one"), table()), 1).answer(SchemaAsk())


def test_joining_without_privacy_settings():
    whole = table()
    with pytest.raises(ProtocolError, match="nothing to join"):
        Party(whole, ledger=Ledger.in_memory("one")).answer(
            JoinAsk(replace(job(), privacy=None), whole.schema.digest(), 1)
        )


def test_a_reply_of_another_size_than_was_asked_for():
    class Short:
        def __init__(self, party):
            self.party = party

        def answer(self, ask):
            reply = self.party.answer(ask)
            return (
                replace(reply, counters=reply.counters[:-1])
                if isinstance(ask, NoisyLevelAsk)
                else reply
            )

    made, _ = parties_of(table(), 1)
    with pytest.raises(ProtocolError, match="do not have the cells asked for"):
        horizontal_forest.train(InProcess({"0": Short(made["0"])}), job())


def test_seeded_noise_is_reported_as_not_private():
    with entropy.seeded_for_tests(1), warnings.catch_warnings():
        training, _ = trained(job(), table())
    assert {claim.verdict for claim in training.claims if claim.unit == RECORD.value} == {
        "UNPROTECTED"
    }
