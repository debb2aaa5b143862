"""Private boosting: what it costs, what it answers once, what it refuses, what it chooses."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import sqrt

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant

from spinney.errors import PolicyError, ProtocolError, SettingError, TableError
from spinney.privacy.budget import Unit
from spinney.privacy.ledger import Ledger
from spinney.privacy.mechanisms import SmoothGaussian
from spinney.protocols import private_boosting
from spinney.protocols.accounts.budget import budget_of
from spinney.protocols.accounts.replies import NoisyReply
from spinney.protocols.noisy_boosting.budget import plan_of
from spinney.protocols.noisy_boosting.messages import BoostedSoFar, FirstFactsAsk, LeafSumsAsk
from spinney.protocols.private_boosting.messages import BoostingJoinAsk
from spinney.protocols.settings import PrivacySettings
from spinney.tables.columns import MatrixColumns
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MemoryTable
from spinney.transport.in_process import InProcess

SCHEMA = Schema(
    (
        Column("age", "number", (0.0, 100.0)),
        Column("ward", "category", categories=("eye", "ear", "ent")),
    ),
    Label("ill", "class", ("no", "yes")),
)
COST = replace(SCHEMA, label=Label("cost", "number", range=(0.0, 10.0)))


def privacy(**changes):
    return PrivacySettings(**{"job": "job", "epsilon": "2", "tree_rows": "all"} | changes)


def settings(**changes):
    given = {"task": "classification", "privacy": privacy(), "n_passes": 2, "max_depth": 2}
    return private_boosting.Settings(**given | changes)


def table(schema=SCHEMA, n=60):
    random = np.random.RandomState(0)
    X = np.stack([random.uniform(0, 100, n), random.randint(0, 3, n)], axis=1).astype(np.float32)
    y = (X[:, 0] > 50).astype(np.int32) if schema is SCHEMA else X[:, 0] / 10
    return MemoryTable(schema, MatrixColumns(X), y)


def party(held=None):
    return private_boosting.Party(held or table(), n_jobs=1, ledger=Ledger.in_memory("north"))


GAUSSIAN = {"privacy": privacy(delta="1/1000000")}


@pytest.mark.parametrize("changes", [{}, GAUSSIAN, {"edges": "public"}, {"batch_trees": 3}])
@pytest.mark.parametrize("schema", [SCHEMA, COST], ids=["classes", "numbers"])
@pytest.mark.parametrize("n_parties", [1, 5])
def test_all_releases_together_cost_the_budget_and_no_more(changes, schema, n_parties):
    task = "classification" if schema is SCHEMA else "regression"
    asked = settings(task=task, **changes)
    if n_parties > 1:
        asked = replace(asked, privacy=replace(asked.privacy, in_shares=True, honest=3))
    plan = plan_of(schema, asked, n_parties)
    costs = [spend.mechanism.cost(spend.n_values) for spend in plan.planned()]
    assert sum(cost.amount for cost in costs) == budget_of(asked.privacy).amount
    assert sum(cost.delta for cost in costs) < Fraction(1, 10**29)


@pytest.mark.parametrize("schema", [SCHEMA, COST], ids=["classes", "numbers"])
def test_an_accountant_of_others_finds_the_budget_in_all_releases_together(schema):
    task = "classification" if schema is SCHEMA else "regression"
    asked = settings(task=task, n_rows=20_000, **GAUSSIAN)
    together = PLDAccountant()
    for spend in plan_of(schema, asked, 1).planned():
        noise = spend.mechanism  # it acts as real noise with 4 less of variance
        assert isinstance(noise, SmoothGaussian)
        deviation = sqrt((noise.share_variance - 4) / noise.squared_sensitivity)
        together.compose(dp_accounting.GaussianDpEvent(deviation))
    assert together.get_epsilon(1e-6) == pytest.approx(2, abs=2e-3)


def asked_once(held, asked):
    """Return a party that has joined, its first facts, and the question about its first trees."""
    digest = held._rows.schema.digest()
    held.answer(BoostingJoinAsk(asked, digest, 1))
    facts = held.answer(FirstFactsAsk(asked, digest, 1)).counters
    return LeafSumsAsk(BoostedSoFar(asked, digest, 1, facts, ()))


def test_a_question_asked_twice_is_answered_once():
    north = party()
    question = asked_once(north, settings())
    first, again = (north.answer(question).counters for _ in range(2))
    assert np.array_equal(first, again)
    ledger = north._rows.account(question).ledger
    spent = ledger.spent("job", Unit.RECORD_ADD_REMOVE)
    north.answer(question)
    assert ledger.spent("job", Unit.RECORD_ADD_REMOVE) == spent


def test_another_model_so_far_is_refused_and_nothing_is_drawn():
    north = party()
    question = asked_once(north, settings())
    north.answer(question)
    ledger = north._rows.account(question).ledger
    spent = ledger.spent("job", Unit.RECORD_ADD_REMOVE)
    other = replace(question.so_far, facts=question.so_far.facts + 1)
    with pytest.raises(PolicyError, match="already asked about a different model of 0 batches"):
        north.answer(LeafSumsAsk(other))
    assert ledger.spent("job", Unit.RECORD_ADD_REMOVE) == spent


@pytest.mark.parametrize("schema", [SCHEMA, COST], ids=["classes", "numbers"])
def test_a_table_that_changes_while_a_job_runs_is_refused_and_the_old_one_goes_on(schema):
    """A party that restarts in mid-run has its ledger; its account is that of a named data set."""
    held, ledger = table(schema), Ledger.in_memory("north")

    def started(rows):
        return private_boosting.Party(rows, n_jobs=1, ledger=ledger, data="visits")

    task = "classification" if schema is SCHEMA else "regression"
    question = asked_once(started(held), settings(task=task, **GAUSSIAN))
    told = started(held).answer(question).counters
    less = MemoryTable(schema, MatrixColumns(held.columns.values(slice(1, 60)).T), held.target[1:])
    for asked in (question, FirstFactsAsk(question.so_far.settings, schema.digest(), 1)):
        with pytest.raises(TableError, match="The table changed while the job was running"):
            started(less).answer(asked)
    assert np.array_equal(started(held).answer(question).counters, told)


def test_a_job_is_not_answered_with_the_trees_of_another_whatever_facts_it_is_told():
    """A party may hold several jobs; each pays for its own trees alone."""
    north, facts = party(), None
    for size in (4, 1):
        asked = settings(privacy=privacy(job=f"{size} trees at once"), batch_trees=size)
        question = asked_once(north, asked)
        facts = question.so_far.facts if facts is None else facts
        first, second, *_ = plan_of(SCHEMA, asked, 1).choice.batches
        after = (np.zeros((1, first.n_leaves), np.int64),)
        question = LeafSumsAsk(replace(question.so_far, facts=facts, values=after))
        n_sums = 2 * second.n_leaves
        assert north.answer(question).counters.size == n_sums


def test_values_that_do_not_fit_the_job_are_refused():
    north = party()
    question = asked_once(north, settings())
    for values in ((np.zeros((1, 3), np.int64),), (np.full((1, 4), 1 << 50),)):
        with pytest.raises(ProtocolError, match=r"do not fit the job\. Nothing was released"):
            north.answer(LeafSumsAsk(replace(question.so_far, values=values)))


def test_a_job_on_other_terms_is_refused():
    north = party()
    question = asked_once(north, settings())
    dearer = replace(question.so_far, settings=settings(n_passes=3))
    with pytest.raises(PolicyError, match="does not match the terms"):
        north.answer(LeafSumsAsk(dearer))


@pytest.mark.parametrize("changes", [{}, GAUSSIAN, {"method": "pairs"}])
def test_a_model_predicts_what_its_trees_add_up_to(changes):
    asked = replace(
        settings(**changes), privacy=replace(settings(**changes).privacy, epsilon="500")
    )
    trained = private_boosting.train(InProcess({"north": party(table(n=400))}), asked)
    share = trained.model.predict(table(n=400).columns)[:, 1]
    target = table(n=400).target
    assert share[target == 1].mean() > share[target == 0].mean() + 0.3
    assert trained.model.noise is not None
    assert trained.model.forest.n_trees == 4


def test_a_number_is_predicted_within_its_range():
    asked = settings(task="regression", privacy=privacy(epsilon="500"), n_passes=6)
    held = table(COST, 400)
    trained = private_boosting.train(InProcess({"north": party(held)}), asked)
    found = trained.model.predict(held.columns)[:, 0]
    assert np.corrcoef(found, held.target)[0, 1] > 0.9
    assert abs(found.mean() - held.target.mean()) < 0.5


def curved(epsilon="500", n=400, **changes):
    """Return a table of numbers and what is trained on it, with curves beside the trees."""
    given = privacy(epsilon=epsilon, delta="1/1000000")
    asked = settings(task="regression", privacy=given, n_passes=4, assumed_rows=n, **changes)
    held = table(COST, n)
    return held, private_boosting.train(InProcess({"north": party(held)}), asked)


def test_curves_are_in_the_model_as_one_tree_for_each_column():
    held, trained = curved()
    forest, noise = trained.model.forest, trained.model.noise
    assert forest.n_trees == 8 + 2
    last = forest.feature[forest.tree_start[-2] : forest.tree_start[-1]]
    assert set(last[last >= 0]) == {1}
    found = trained.model.predict(held.columns)[:, 0]
    # of 25 models each, with and without choices, it was 0.05 to 0.09; once 0.11
    assert np.sqrt(np.mean((found - held.target) ** 2)) < 0.2 * held.target.std()
    assert noise is not None
    assert noise.counts.max() > 0


def test_a_missing_value_is_predicted_as_scores_have_it():
    """A column's curve says nothing of it; what trees and the first scores say is left."""
    held = table(COST, 400)
    values = np.array([[np.nan, 1.0], [50.0, 1.0]], np.float32)
    _, trained = curved()
    found = trained.model.predict(MatrixColumns(values))[:, 0]
    assert abs(found[0] - held.target.mean()) < held.target.std()


def test_the_clip_falls_as_residuals_do(monkeypatch):
    told = []
    answer = private_boosting.Party.answer

    def watched(self, ask):
        if isinstance(ask, LeafSumsAsk):
            told.append(ask.so_far.clip)
        return answer(self, ask)

    monkeypatch.setattr(private_boosting.Party, "answer", watched)
    curved()
    assert told[0] == 0
    assert all(after <= before for before, after in pairwise(told[1:]))
    assert told[-1] < told[1] / 5


def test_curves_and_clips_that_do_not_fit_the_job_are_refused():
    north = party(table(COST))
    asked = settings(task="regression", **GAUSSIAN)
    question = asked_once(north, asked)
    n_terms = plan_of(COST, asked, 1).n_terms
    after = {"values": (np.zeros((1, 0), np.int64),)}
    for wrong in (
        {"curves": (np.zeros(n_terms, np.int64),)},
        {"clip": -1},
        after,
        after | {"curves": (np.zeros(n_terms + 1, np.int64),)},
        after | {"curves": (np.full(n_terms, 1 << 50),)},
    ):
        with pytest.raises(ProtocolError, match=r"do not fit the job\. Nothing was released"):
            north.answer(LeafSumsAsk(replace(question.so_far, **wrong)))


def test_another_clip_or_curve_is_another_model():
    north = party(table(COST))
    question = asked_once(north, settings(task="regression", **GAUSSIAN))
    north.answer(question)
    with pytest.raises(PolicyError, match="already asked about a different model of 0 batches"):
        north.answer(LeafSumsAsk(replace(question.so_far, clip=1)))


def test_scores_made_anew_lead_to_the_same_sums():
    """A party that restarts has no scores; a question holds all that they follow from."""
    held = table(COST)
    north = party(held)
    asked = settings(task="regression", **GAUSSIAN)
    so_far = asked_once(north, asked).so_far
    public = north._boosted.known(asked, so_far.schema_digest, 1)
    sums = []
    for number in range(6):
        batch, random = public.batches[number], np.random.RandomState(number)
        sums.append(north._boosted._scored(public, so_far).sums(so_far))
        so_far = replace(
            so_far,
            values=(*so_far.values, random.randint(-(2**20), 2**20, (1, batch.n_leaves))),
            curves=(*so_far.curves, random.randint(-(2**20), 2**20, public.plan.n_terms)),
            clip=1 << 20,
        )
    again = party(held)._boosted
    again.known(asked, so_far.schema_digest, 1)
    whole = north._boosted._scored(public, so_far).sums(so_far)
    assert np.array_equal(again._scored(public, so_far).sums(so_far), whole)
    assert not np.array_equal(sums[0], sums[4][: sums[0].size])


def test_curves_are_fitted_where_rows_and_budget_carry_them():
    asked = private_boosting.Settings(task="regression", n_rows=10_000, **GAUSSIAN)
    assert plan_of(COST, asked, 5).choice.degree == 3
    assert "; a curve of degree 3 for each column, fitted together" in (
        plan_of(COST, asked, 5).choice.why
    )
    columns = tuple(Column(f"c{i}", "number", (0.0, 1.0)) for i in range(60))
    assert plan_of(replace(COST, columns=columns), asked, 5).choice.degree == 0
    pure = replace(asked, privacy=privacy())
    assert plan_of(COST, pure, 5).choice.degree == 0
    classes = private_boosting.Settings(task="classification", n_rows=10_000, **GAUSSIAN)
    assert plan_of(SCHEMA, classes, 5).choice.degree == 0


@pytest.mark.parametrize("delta", [{}, {"delta": "1/1000000"}])
def test_a_range_a_hundred_times_as_wide_as_most_targets_hardly_matters(delta):
    asked = settings(task="regression", privacy=privacy(epsilon="50", **delta), n_passes=6)
    wide, found = replace(COST, label=Label("cost", "number", range=(0.0, 1000.0))), []
    for schema in (COST, wide):
        held = table(schema, 2000)
        trained = private_boosting.train(InProcess({"north": party(held)}), asked)
        away = trained.model.predict(held.columns)[:, 0] - held.target
        found.append(np.sqrt(np.mean(away**2)))
    assert max(found) < 0.3 * held.target.std()


MANY = replace(COST, columns=tuple(Column(f"c{i}", "number", (0.0, 1.0)) for i in range(6)))


def of_two_columns(**changes):
    """Return settings, and rows of six columns of which two matter."""
    given = privacy(epsilon="20", delta="1/1000000")
    asked = settings(task="regression", privacy=given, n_passes=10, **changes)
    X = np.random.RandomState(0).uniform(0, 1, (2000, 6)).astype(np.float32)
    return asked, MemoryTable(MANY, MatrixColumns(X), 8.0 * ((X[:, 1] > 0.5) ^ (X[:, 4] > 0.3)))


def test_later_trees_take_the_columns_that_have_mattered():
    asked, held = of_two_columns(assumed_rows=2000, max_depth=4)
    forest = private_boosting.train(InProcess({"north": party(held)}), asked).model.forest
    first, cut = forest.tree_start[12], forest.tree_start[60]
    early, late = (
        np.bincount(part[part >= 0], minlength=6) / (part >= 0).sum()
        for part in (forest.feature[:first], forest.feature[first:cut])
    )
    assert early[[1, 4]].sum() < 0.5
    assert late[[1, 4]].sum() > 0.6
    assert min(late) > 0
    why = plan_of(MANY, asked, 1).choice.why
    assert "later trees take the columns that have mattered" in why


class Replayed(InProcess):
    """A channel that adds up what was released before, and never asks a party again."""

    def __init__(self, parties, released):
        super().__init__(parties)
        self.released, self.asked = released, []

    def sum(self, ask, **given):
        self.asked.append(ask)
        if len(self.asked) <= len(self.released):
            return NoisyReply(self.released[len(self.asked) - 1])
        reply = super().sum(ask, **given)
        self.released.append(reply.counters)
        return reply


def test_columns_follow_from_released_sums_alone():
    """The same sums lead to the same questions, whatever the rows behind them."""
    asked, held = of_two_columns(assumed_rows=2000)
    first = Replayed({"north": party(held)}, [])
    private_boosting.train(first, asked)
    assert first.asked[-1].so_far.columns
    rows = MatrixColumns(np.zeros((50, 6), np.float32))
    again = Replayed({"north": party(MemoryTable(MANY, rows, np.ones(50)))}, first.released)
    private_boosting.train(again, asked)
    for one, other in zip(first.asked[1:], again.asked[1:], strict=True):
        assert one.so_far.digest() == other.so_far.digest()


def test_chosen_columns_that_are_copies_of_each_other_do_not_overshoot():
    """All columns say the same: whatever is chosen, each round goes less than twice as far."""
    asked, _ = of_two_columns(assumed_rows=2000, batch_trees=10)
    X = np.repeat(np.random.RandomState(0).uniform(0, 1, (2000, 1)), 6, axis=1).astype(np.float32)
    held = MemoryTable(MANY, MatrixColumns(X), 4.0 + 4.0 * np.sin(40.0 * X[:, 0]))
    asked = replace(asked, privacy=replace(asked.privacy, epsilon="500"), n_passes=40)
    trained = private_boosting.train(InProcess({"north": party(held)}), asked)
    away = trained.model.predict(held.columns)[:, 0] - held.target
    assert np.sqrt(np.mean(away**2)) < 0.5 * held.target.std()


def test_only_numbers_with_delta_and_pairs_choose_columns():
    for changes in ({"method": "cyclic"}, {"privacy": privacy()}, {"n_passes": 2}):
        choice = plan_of(MANY, replace(of_two_columns()[0], **changes), 1).choice
        assert choice.first_scored == len(choice.batches)
    wide = replace(MANY, columns=tuple(Column(f"c{i}", "number", (0.0, 1.0)) for i in range(60)))
    asked = private_boosting.Settings(task="regression", n_rows=10**6, **GAUSSIAN)
    assert not plan_of(wide, asked, 5).choice.scores_columns
    assert plan_of(MANY, asked, 5).choice.scores_columns
    assert not plan_of(SCHEMA, settings(**GAUSSIAN), 1).choice.scores_columns


def test_columns_that_do_not_fit_the_job_are_refused():
    asked, held = of_two_columns()
    north = party(held)
    so_far = asked_once(north, asked).so_far
    public = north._boosted.known(asked, so_far.schema_digest, 1)
    first = public.choice.first_scored
    batches = public.batches[:first]
    so_far = replace(
        so_far,
        values=tuple(np.zeros((1, batch.n_leaves), np.int64) for batch in batches),
        curves=(np.zeros(public.plan.n_terms, np.int64),) * (first if public.choice.degree else 0),
    )
    fits = np.tile([0, 5], (len(public.batches[first].trees), 1))
    north._boosted._scored(public, replace(so_far, columns=(fits,)))
    for columns in ((), (fits, fits), (fits + 1,), (fits - 1,), (0 * fits,), (fits[:, :1],)):
        with pytest.raises(ProtocolError, match=r"do not fit the job\. Nothing was released"):
            north.answer(LeafSumsAsk(replace(so_far, columns=columns)))


def test_scores_of_other_columns_are_not_taken_for_these():
    """Scores are a cache: columns that differ lead to others, as a question has them."""
    asked, held = of_two_columns()
    north = party(held)
    so_far = asked_once(north, asked).so_far
    public = north._boosted.known(asked, so_far.schema_digest, 1)
    n, random = public.choice.first_scored + 1, np.random.RandomState(0)
    size, found = len(public.batches[n].trees), []
    so_far = replace(
        so_far,
        values=tuple(random.randint(0, 2**22, (1, batch.n_leaves)) for batch in public.batches[:n]),
        curves=(np.zeros(public.plan.n_terms, np.int64),) * (n if public.choice.degree else 0),
    )
    for pair in ([0, 5], [2, 3]):
        columns = (np.tile(pair, (size, 1)), np.tile([0, 5], (size, 1)))
        asked_so = replace(so_far, columns=columns)
        found.append(north._boosted._scored(public, asked_so).sums(asked_so))
        anew = party(held)._boosted
        anew.known(asked, so_far.schema_digest, 1)
        assert np.array_equal(anew._scored(public, asked_so).sums(asked_so), found[-1])
    assert not np.array_equal(*found)


# --- what is chosen ------------------------------------------------------------------------------


def test_auto_lets_columns_act_together_where_numbers_are_predicted():
    asked = private_boosting.Settings(task="regression", privacy=privacy(), n_rows=10_000)
    choice = plan_of(COST, asked, 5).choice
    assert (choice.method, choice.n_trees) == ("pairs", 20)
    assert choice.why.startswith("method='pairs' lets two columns act together; 10 trees of")
    few = plan_of(COST, replace(asked, n_rows=1000), 5).choice
    assert few.n_trees == 12


def test_auto_chooses_by_public_facts_alone_and_says_why():
    asked = private_boosting.Settings(task="classification", privacy=privacy(), n_rows=10_000)
    choice = plan_of(SCHEMA, asked, 5).choice
    assert (choice.method, choice.n_trees, choice.n_counted) == ("cyclic", 8, 2)
    assert "for about 10,000 rows, epsilon 2: a strength of 1e+04" in choice.why
    assumed = plan_of(SCHEMA, replace(asked, n_rows=None), 5).choice
    assert "4,000 rows (assumed, because n_rows is not given)" in assumed.why


def test_rounds_stay_below_forty_however_many_columns_there_are():
    wide = replace(SCHEMA, columns=tuple(Column(f"c{i}", "number", (0.0, 1.0)) for i in range(90)))
    asked = private_boosting.Settings(task="classification", privacy=privacy(), n_rows=10**6)
    choice = plan_of(wide, asked, 5).choice
    assert len(choice.batches) <= 36
    assert sum(len(batch.trees) for batch in choice.batches) == choice.n_trees


def test_trees_of_a_round_do_not_go_too_far_together():
    """Columns may say the same: many full steps at once would overshoot."""
    for n_columns, rate in ((10, 0.3), (90, 3 / 57)):
        columns = tuple(Column(f"c{i}", "number", (0.0, 1.0)) for i in range(n_columns))
        asked = private_boosting.Settings(task="regression", n_rows=10**6, **GAUSSIAN)
        choice = plan_of(replace(COST, columns=columns), asked, 5).choice
        assert choice.rate == pytest.approx(rate)
        assert choice.rate * len(choice.batches[0].trees) <= 3.0


@pytest.mark.parametrize(("n_rows", "n_trees"), [(200, 2), (1000, 6), (100_000, 8)])
def test_with_pure_epsilon_the_first_tree_of_a_column_counts_classes(n_rows, n_trees):
    asked = private_boosting.Settings(task="classification", privacy=privacy(), n_rows=n_rows)
    choice = plan_of(SCHEMA, asked, 5).choice
    assert choice.n_trees == n_trees
    assert [batch.counts_classes for batch in choice.batches] == [True] + [False] * (n_trees - 2)
    assert "1 tree of depth 5 that counts classes" in choice.why
    assert not plan_of(SCHEMA, replace(asked, **GAUSSIAN), 5).choice.n_counted


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epsilon": "0"}, "epsilon must be a positive finite number"),
        ({"delta": "0"}, "delta must be a number between 0 and 1"),
        ({"delta": "1/2"}, r"delta must be at most 0\.001: it is the chance that epsilon does not"),
        ({"delta": "1/1000000", "epsilon": None, "epsilon_per_count": "1"}, "delta goes with eps"),
    ],
)
def test_a_budget_out_of_range_is_refused(changes, words):
    with pytest.raises(SettingError, match=words):
        settings(privacy=privacy(**changes))


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (
            replace(SCHEMA, columns=(Column("age", "number"),)),
            "'age' has no declared range, and a private job may not read it",
        ),
        (replace(SCHEMA, label=Label("ill", "class")), "declares no classes"),
        (
            replace(SCHEMA, columns=(Column("ward", "category"),)),
            "'ward' has no declared categories",
        ),
    ],
)
def test_public_facts_that_are_missing_are_refused(schema, words):
    with pytest.raises(SettingError, match=words):
        plan_of(schema, settings(), 1)


def test_a_table_too_small_for_the_budget_is_refused_with_what_would_work():
    asked = settings(privacy=privacy(epsilon="1/10"), n_rows=50)
    with pytest.raises(SettingError) as refused:
        plan_of(SCHEMA, asked, 5)
    text = str(refused.value)
    assert "n_rows=50 is too small a table for epsilon=0.1" in text
    assert "expect an AUC of about 0.5" in text
    assert "would begin to work" in text
    needed = int(text.split("About ")[1].split(" rows", maxsplit=1)[0].replace(",", ""))
    plan_of(SCHEMA, replace(asked, n_rows=needed + 1), 5)


def test_a_table_of_numbers_too_small_for_the_budget_is_refused_without_a_word_of_auc():
    asked = settings(privacy=privacy(epsilon="1/10"), task="regression", n_rows=50)
    with pytest.raises(SettingError, match="better than the same number for every row"):
        plan_of(COST, asked, 5)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"method": "best"}, "method must be 'auto' or 'cyclic' or 'pairs'; got 'best'"),
        ({"learning_rate": 1.5}, "learning_rate must be above 0 and at most 1"),
        ({"max_depth": 9}, "max_depth must be a whole number between 1 and 8"),
        ({"edges": "exact"}, "edges must be 'private' or 'public'"),
        ({"edge_share": "1"}, "edge_share must be above 0 and below 1"),
    ],
)
def test_settings_out_of_range_are_refused(changes, words):
    with pytest.raises(SettingError, match=words):
        settings(**changes)
