"""How a budget is divided: exactly, in fractions; and which settings a private job refuses."""

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spinney.errors import InternalError, SettingError
from spinney.privacy.accounting import Account, Line
from spinney.privacy.budget import Cost, Measure, Unit, subsampled_cost
from spinney.privacy.release import Shares
from spinney.protocols.row_forest.budget import (
    ForestPlan,
    before_sampling,
    trees_by_levels,
)
from spinney.protocols.row_forest.dealing import deal_rows_to_trees
from spinney.protocols.row_forest.perturbed_input import InputPlan
from spinney.protocols.rows.facts import public_binning
from spinney.protocols.settings import (
    ForestSettings,
    PrivacySettings,
    as_text,
    fraction_of,
)
from spinney.tables.schema import Column, Label, Schema

RECORD = Unit.RECORD_ADD_REMOVE


def noisy(changes: Any = None, **privacy: Any) -> ForestSettings:
    """Return sound settings of a private job, and what is to be changed about them."""
    facts: dict[str, Any] = {
        "task": "classification",
        "n_estimators": 7,
        "max_depth": 3,
        "max_features": 4,
        "binning": "ranges",
        "bootstrap": False,
    }
    if "epsilon_per_count" not in privacy:
        privacy = {"epsilon": "1"} | privacy
    return ForestSettings(**facts | (changes or {}), privacy=PrivacySettings(job="q", **privacy))


def plan(changes: Any = None, n_classes: int = 2, n_parties: int = 5, **privacy: Any) -> ForestPlan:
    return ForestPlan(noisy(changes, **privacy), 10, n_classes, n_parties)


def spent(spends: Any) -> Fraction:
    account = Account(Measure.PURE)
    account.add(
        [Line(scope, s.mechanism.cost(), s.n_releases) for s in spends for scope in s.scopes]
    )
    return account.spent(RECORD)


# --- what adds up --------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 0], ids=["classes", "amounts"])
@pytest.mark.parametrize("tree_rows", ["disjoint", "all"])
@pytest.mark.parametrize("epsilon", ["1", "1/10", "1/1000000000", "1000000", "22/7"])
def test_all_that_is_planned_costs_exactly_epsilon(n_classes, tree_rows, epsilon):
    made = plan(
        {
            "task": "classification" if n_classes else "regression",
            "criterion": ("gini" if n_classes else "squared_error"),
        },
        n_classes,
        epsilon=epsilon,
        tree_rows=tree_rows,
    )
    assert spent(made.planned()) == Fraction(epsilon)


@pytest.mark.parametrize("n_levels", [1, 2, 3])
def test_a_tree_that_stops_early_spends_the_rest_on_its_leaves(n_levels):
    made = plan()
    levels = [s for depth in range(n_levels) for s in made.level_spends(depth, [4])]
    assert spent([*levels, *made.leaf_spends(n_levels, [4])]) == 1


@pytest.mark.parametrize("epsilon", ["1", "1/1000000000", "1000000"])
@pytest.mark.parametrize("rate", ["1/2", "1/10", "1", "632/1000"])
def test_trees_on_samples_cost_epsilon_but_for_rounding(epsilon, rate):
    total = spent(plan(epsilon=epsilon, tree_rows="sampled", sample_rate=rate).planned())
    assert Fraction(epsilon) * (1 - Fraction(1, 2**40)) < total <= Fraction(epsilon)


def test_a_count_s_epsilon_adds_up_over_slots_levels_and_trees():
    shown = Fraction(1, 10)
    made = plan(epsilon_per_count="1/10", tree_rows="all")
    assert not made.counts_leaves
    assert made.mechanisms(made.level_epsilon, made.n_slots)[0].decay == shown
    assert spent(made.planned()) == 7 * 3 * 4 * shown  # T d m e0: PRIVACY A.1, item 4
    assert spent(plan(epsilon_per_count="1/10", tree_rows="disjoint").planned()) == 3 * 4 * shown
    twelvefold = spent(plan(epsilon_per_count="1/10", tree_rows="bootstrap").planned())
    assert twelvefold == 12 * 7 * 3 * 4 * shown


def test_the_paper_s_own_numbers_add_up_to_nine_hundred():
    """18 features, depth 10, 50 trees, 0.1 a count."""
    facts = {"n_estimators": 50, "max_depth": 10, "max_features": None}
    made = ForestPlan(noisy(facts, epsilon_per_count="1/10", tree_rows="all"), 18, 2, 2)
    assert spent(made.planned()) == 900


def test_one_record_moves_a_level_by_its_slots_and_leaves_by_one():
    made = plan()
    level: Any = made.level_spends(0, [0])[0].mechanism
    leaf: Any = made.leaf_spends(3, [0])[0].mechanism
    assert (level.sensitivity, leaf.sensitivity) == (4, 1)
    assert (level.epsilon, leaf.epsilon) == (Fraction(3, 4) / 3, Fraction(1, 4))


def test_sums_of_targets_move_by_half_the_range():
    made = plan({"task": "regression", "criterion": "squared_error"}, 0, epsilon="1")
    counts, sums = made.mechanisms(Fraction(1), 4)
    assert counts.sensitivity == 4
    assert sums.sensitivity == 4 * 2 ** (made.target_bits - 1)
    assert counts.epsilon == sums.epsilon == Fraction(1, 2)


def test_targets_are_coarser_where_noise_drowns_them_anyway():
    regression = {"task": "regression", "criterion": "squared_error"}
    fine = plan(regression, 0, epsilon="1000000", tree_rows="disjoint").target_bits
    coarse = plan(regression, 0, epsilon="1/1000000000", tree_rows="all").target_bits
    assert fine == 24
    assert 4 <= coarse < 12


@settings(max_examples=40, deadline=None)
@given(
    epsilon=st.fractions(Fraction(1, 10**6), 50, max_denominator=10**6),
    rate=st.fractions(Fraction(1, 100), 1, max_denominator=100),
)
def test_what_is_spent_on_a_sample_is_the_most_that_may_be(epsilon, rate):
    spent_below = before_sampling(epsilon, rate)
    assert epsilon <= spent_below + Fraction(1, 2**70)
    for more, fits in ((Fraction(0), True), (Fraction(1, 2**60), False)):
        cost = Cost(Measure.PURE, spent_below + more, RECORD)
        assert (subsampled_cost(cost, rate).amount <= epsilon) is fits


def test_the_noise_is_in_shares_only_under_secure_sums():
    assert plan().mechanisms(Fraction(1), 4)[0].shares is None
    shared = plan(in_shares=True).mechanisms(Fraction(1), 4)[0].shares
    assert shared == Shares(5, 3)
    assert plan(in_shares=True).terms("data").t_honest == 3
    assert plan().terms("data").t_honest == 1


def test_trees_are_told_apart_by_the_levels_they_have_paid_for():
    groups = trees_by_levels(np.array([2, 3, 2]))
    assert {n: trees.tolist() for n, trees in groups.items()} == {2: [0, 2], 3: [1]}


# --- which rows a tree reads ---------------------------------------------------------------------


def dealt(n_rows=5000, n_trees=4, key=bytes(32), **privacy):
    return deal_rows_to_trees(
        PrivacySettings(job="q", epsilon="1", **privacy), n_trees, n_rows, key
    )


def test_disjoint_parts_share_no_row_and_leave_none_out():
    parts = dealt(tree_rows="disjoint")
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(5000))
    assert all(1100 < part.size < 1400 for part in parts)
    assert all(np.all(np.diff(part) > 0) for part in parts)


def test_a_sample_holds_each_row_once_by_its_own_coin():
    samples = dealt(tree_rows="sampled", sample_rate="1/5")
    assert all(800 < sample.size < 1200 for sample in samples)
    assert all(np.all(np.diff(sample) > 0) for sample in samples)
    both = np.intersect1d(samples[0], samples[1]).size
    assert 120 < both < 290  # 5000 / 25


def test_the_same_secret_deals_the_same_rows_and_another_one_others():
    for rows in ("disjoint", "sampled"):
        one, again = dealt(tree_rows=rows), dealt(tree_rows=rows)
        other = dealt(tree_rows=rows, key=bytes([1] * 32))
        assert all(np.array_equal(a, b) for a, b in zip(one, again, strict=True))
        assert not any(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_record_less_changes_no_other_record_s_trees():
    whole, less = dealt(n_rows=5000, tree_rows="disjoint"), dealt(n_rows=4999, tree_rows="disjoint")
    assert all(np.array_equal(a[a < 4999], b) for a, b in zip(whole, less, strict=True))


@pytest.mark.parametrize(("rows", "rate"), [("all", "1/2"), ("sampled", "1")])
def test_all_rows_are_all_rows(rows, rate):
    parts = dealt(tree_rows=rows, sample_rate=rate)
    assert all(np.array_equal(part, np.arange(5000)) for part in parts)


def test_a_bootstrap_repeats_rows_up_to_twelve_times():
    (rows,) = dealt(n_trees=1, tree_rows="all")
    privacy = PrivacySettings(job="q", epsilon_per_count="1", tree_rows="bootstrap")
    first, second = deal_rows_to_trees(privacy, 2, rows.size, bytes(32))
    times = np.bincount(first, minlength=rows.size)
    assert abs(first.size - rows.size) < 300
    assert abs((times == 0).mean() - 0.368) < 0.03
    assert times.max() <= 12
    assert np.all(np.diff(first) >= 0)
    assert not np.array_equal(first, second)


def test_nobody_s_rows_are_dealt_too():
    assert [part.size for part in dealt(n_rows=0, tree_rows="disjoint")] == [0] * 4


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [-1, 0, float("nan"), float("inf"), "1", None, True, [1]])
def test_an_epsilon_that_is_none(bad):
    with pytest.raises(SettingError, match="epsilon must be a positive finite number"):
        as_text(bad, "epsilon")


@pytest.mark.parametrize("bad", ["", "-1", "1e9", "1/0", "one", "1" * 99, "1/2/3", " 1", 1])
def test_a_message_s_epsilon_that_is_none(bad):
    with pytest.raises(SettingError, match="must be a fraction"):
        fraction_of(bad, "epsilon")
    with pytest.raises(SettingError):
        PrivacySettings(job="q", epsilon=bad)


def test_zero_in_a_message():
    with pytest.raises(SettingError, match="positive"):
        PrivacySettings(job="q", epsilon="0")


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({}, "either epsilon"),
        ({"epsilon": "1", "epsilon_per_count": "1"}, "either epsilon"),
        ({"epsilon": "1", "mechanism": "magic"}, "mechanism must be 'noisy_histograms' or"),
        ({"epsilon": "1", "tree_rows": "some"}, "tree_rows must be 'disjoint' or"),
        ({"epsilon": "1", "sample_rate": "0"}, "sample_rate must be above 0"),
        ({"epsilon": "1", "sample_rate": "3/2"}, "sample_rate must be above 0"),
        ({"epsilon": "1", "leaf_share": "1"}, "leaf_share must be above 0 and below 1"),
        ({"epsilon": "1", "leaf_share": "0"}, "leaf_share must be above 0 and below 1"),
        ({"epsilon": "1", "tree_rows": "bootstrap"}, "cannot keep to an epsilon"),
        (
            {"epsilon": "1", "in_shares": True, "mechanism": "perturbed_input"},
            "cannot share its noise",
        ),
    ],
)
def test_privacy_that_cannot_be(changes, match):
    with pytest.raises(SettingError, match=match):
        PrivacySettings(job="q", **changes)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"max_depth": None}, "max_depth=None cannot be used with noise. Every level costs"),
        ({"binning": "quantiles"}, "binning='quantiles' cannot be used with noise"),
        ({"binning": "adaptive"}, "bin means need exact values"),
        ({"class_weight": "balanced"}, "class_weight='balanced' cannot .* exact class counts"),
        ({"bootstrap": True}, "bootstrap=True cannot .* costs k times as much"),
        ({"bootstrap": True, "oob_score": True}, "oob_score=True cannot"),
        ({"min_samples_leaf": 0.1}, "min_samples_leaf=0.1 cannot .* exact number of rows"),
        ({"min_samples_split": 0.1}, "min_samples_split=0.1 cannot"),
    ],
)
def test_settings_that_need_exact_counts(changes, match):
    with pytest.raises(SettingError, match=match):
        plan(changes)


def test_an_epsilon_too_small_for_any_noise():
    with pytest.raises(SettingError, match="would not fit in 64-bit sums"):
        plan(epsilon="1/1000000000000000000")
    with pytest.raises(SettingError, match=r"would not fit|too small"):
        plan(epsilon="1/1000000000000000000000000000", tree_rows="sampled")


def test_two_parties_that_must_both_be_honest():
    with pytest.raises(SettingError, match="For two parties, honest must be 1"):
        plan(n_parties=2, in_shares=True, honest=2)
    assert plan(n_parties=2, in_shares=True).privacy.shares(2) == Shares(2, 1)


# --- perturbed rows ------------------------------------------------------------------------------

SCHEMA = Schema(
    (
        Column("age", "number", (0, 100)),
        Column("ward", "category", categories=("eye", "heart")),
        Column("smokes", "boolean"),
    ),
    Label("ill", "class", ("no", "yes", "unknown")),
)


def test_a_record_s_columns_and_label_share_epsilon_evenly():
    made = InputPlan(SCHEMA, PrivacySettings(job="q", mechanism="perturbed_input", epsilon="1"), 3)
    assert [noise.epsilon for noise in made.noises] == [Fraction(1, 4)] * 4
    assert [getattr(noise, "n_categories", None) for noise in made.noises] == [None, 3, 3, 3]
    account = Account(Measure.PURE)
    account.add([Line(scope, s.mechanism.cost()) for s in made.planned() for scope in s.scopes])
    assert account.spent(Unit.RECORD_REPLACE) == 1
    assert account.spent(RECORD) == 0  # how many rows there are is not hidden at all


def test_each_column_may_have_an_epsilon_of_its_own():
    privacy = PrivacySettings(job="q", mechanism="perturbed_input", epsilon_per_count="1/2")
    made = InputPlan(SCHEMA, privacy, 3)
    assert [noise.epsilon for noise in made.noises] == [Fraction(1, 2)] * 4
    assert made.terms("data").budgets == ()


@pytest.mark.parametrize(
    ("column", "match"),
    [
        (Column("age", "number"), "'age' has no declared range"),
        (Column("age", "number", (-1.7e308, 1.7e308)), "'age' has no declared range"),
        (Column("age", "category"), "'age' has no declared categories"),
    ],
)
def test_a_column_without_the_facts_that_noise_needs(column, match):
    privacy = PrivacySettings(job="q", mechanism="perturbed_input", epsilon="1")
    with pytest.raises(SettingError, match=match):
        InputPlan(replace(SCHEMA, columns=(column,)), privacy, 3)


# --- what cannot happen, or only at the end of numbers --------------------------------------------


def test_a_share_of_nothing():
    with pytest.raises(SettingError, match="too small to be divided over the trees"):
        before_sampling(Fraction(1, 2**120), Fraction(1, 2))


def test_a_plan_without_privacy_or_depth_is_our_own_mistake():
    settings = replace(noisy(), privacy=None)
    with pytest.raises(InternalError, match="settings of a private job"):
        ForestPlan(settings, 10, 2, 5)
    with pytest.raises(InternalError, match="needs a maximum depth"):
        _ = ForestPlan.n_levels.fget(  # type: ignore[attr-defined]
            SimpleNamespace(settings=replace(noisy(), max_depth=None))
        )


def test_bins_need_categories_and_ranges_and_few_classes():
    made = noisy()
    label = Label("ill", "class", ("no", "yes"))
    with pytest.raises(SettingError, match="'ward' has no declared categories"):
        public_binning(Schema((Column("ward", "category"),), label), made.max_bins)
    with pytest.raises(SettingError, match="'age' has no declared range"):
        public_binning(Schema((Column("age", "number"),), label), made.max_bins)
    many = Label("ill", "class", tuple(range(5000)))
    with pytest.raises(SettingError, match="has 5000 classes"):
        public_binning(Schema(SCHEMA.columns, many), made.max_bins)


def test_public_bins_follow_from_the_schema_alone():
    many = tuple(f"ward {n}" for n in range(40))
    schema = Schema((*SCHEMA.columns, Column("many", "category", categories=many)), SCHEMA.label)
    binning = public_binning(schema, 8)
    assert binning.edges[0].tolist() == [12.5, 25, 37.5, 50, 62.5, 75, 87.5]
    assert binning.bin_of_category[1].tolist() == [0, 1]
    assert binning.bin_of_category[3].tolist() == [*range(7), *[7] * 33]  # no count decides
    assert binning.has_missing.all()
