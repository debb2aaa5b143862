"""Settings of private trees and forests, and the choice of a method."""

from dataclasses import replace

import pytest

from spinney.errors import SettingError
from spinney.protocols import private_forest
from spinney.protocols.private_forest.budget import bins_of
from spinney.protocols.private_forest.budget import plan_of as forest_plan_of
from spinney.protocols.private_tree.budget import TreePlan
from spinney.protocols.private_tree.messages import PublicTree
from spinney.protocols.private_tree.settings import choose_method, useful_depth
from spinney.protocols.private_tree.spec import SPEC
from spinney.tables.schema import Column, Label, Schema
from unit.protocols.private_tree.private_trees import (  # type: ignore[import-not-found]
    SCHEMA,
    paid,
    tree_job,
)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"method": "best"}, "method must be 'auto' or 'distilled' or 'histograms'"),
        ({"max_depth": 0}, "max_depth must be a whole number between 1 and 24; got 0"),
        ({"n_bins": 1}, "n_bins must be a whole number between 2 and 255; got 1"),
        ({"min_samples_leaf": 0}, "min_samples_leaf must be a whole number at least 1; got 0"),
        ({"shrinkage": -1.0}, "shrinkage must be a finite number of at least 0"),
        ({"bounds_share": "1"}, "bounds_share must be above 0 and below 1; got 1"),
        ({"n_rows": 0}, "n_rows must be a whole number at least 1 or None; got 0"),
    ],
)
def test_settings_that_cannot_work_are_refused(changes, words):
    with pytest.raises(SettingError, match=words):
        replace(tree_job("histograms"), **changes)


def test_a_depth_that_leaves_no_budget_says_what_each_release_would_get():
    with pytest.raises(SettingError, match=r"max_depth=12 leaves too little budget.*epsilon=") as e:
        PublicTree.of(SCHEMA, tree_job("histograms", "1/100000", max_depth=12), 3)
    assert "rows. max_depth=" in str(e.value)
    assert "would work" in str(e.value)
    with pytest.raises(SettingError, match="Raise epsilon"):
        PublicTree.of(SCHEMA, tree_job("propose", "1/100000000", max_depth=1), 3)
    words = str(e.value).split("max_depth=")[-1].split()[0]
    PublicTree.of(SCHEMA, tree_job("histograms", "1/100000", max_depth=int(words)), 3)


def test_a_forest_whose_trees_have_no_budget_says_what_each_would_get_and_how_many_would_work():
    def forest(epsilon, n_trees):
        job = private_forest.Settings(privacy=paid(epsilon), n_estimators=n_trees, max_depth=1)
        return forest_plan_of(SCHEMA, job, 3)

    words = r"n_estimators=200 leaves too little budget for each tree: epsilon=5e-07.*2e\+06 rows"
    with pytest.raises(SettingError, match=words) as e:
        forest("1/10000", 200)
    assert str(e.value).endswith("n_estimators=104 would work.")
    assert forest("1/10000", 104).noise.epsilon
    with pytest.raises(SettingError, match=r"Raise epsilon\.$"):
        forest("1/100000000", 1)


def test_more_candidates_than_a_message_may_hold_are_refused():
    with pytest.raises(SettingError, match=r"the message limit allows 8,192\. Lower max_depth"):
        PublicTree.of(SCHEMA, tree_job("noisy_max", max_depth=9, message_limit=1 << 16), 3)
    settings = private_forest.Settings(
        privacy=paid(), n_estimators=1000, max_depth=10, message_limit=1 << 16
    )
    with pytest.raises(SettingError, match="1000 trees of depth 10 over 3 classes would take"):
        forest_plan_of(SCHEMA, settings, 3)


def test_a_column_without_a_range_and_a_label_without_classes_are_refused():
    bare = Schema((Column("age", "number"),), SCHEMA.label)
    with pytest.raises(SettingError, match="Column 'age' has no declared range"):
        PublicTree.of(bare, tree_job("histograms"), 3)
    with pytest.raises(SettingError, match="Column 'age' has no declared range"):
        bins_of(bare)
    amount = Schema(SCHEMA.columns, Label("amount", "number", range=(0.0, 1.0)))
    with pytest.raises(SettingError, match="'amount' declares no classes"):
        PublicTree.of(amount, tree_job("histograms"), 3)


def test_auto_chooses_by_public_sizes_alone_and_says_why():
    def method(n_rows, n_columns=10, n_parties=5, epsilon="1"):
        job = tree_job("auto", epsilon, n_rows=n_rows, max_depth=5)
        found = choose_method(job, n_columns, n_parties)
        assert f"{n_rows} rows, {n_columns} columns, {n_parties} parties" in found.why
        return found.settings.method

    assert method(1000) == "distilled"
    assert method(100) == "propose"  # too few rows for boosted trees
    assert method(10_000_000) == "histograms"
    assert method(10_000_000, n_columns=2000) == "distilled"
    assert method(1000, epsilon="10000") == "histograms"
    why = choose_method(tree_job("auto", n_rows=1000), 40, 5).why
    assert "method='noisy_max' would trust the coordinator with exact sums" in why
    with pytest.raises(SettingError, match="method='auto' chooses by the number of rows"):
        choose_method(tree_job("auto"), 10, 5)


def test_auto_never_trusts_the_coordinator():
    """Whatever the public facts are; the method that does is for those who name it."""
    for n_rows in (30, 1000, 100_000):
        for n_columns in (1, 12, 300):
            for epsilon in ("1/10", "1", "20"):
                job = tree_job("auto", epsilon, n_rows=n_rows)
                found = choose_method(job, n_columns, 5)
                assert found.settings.method in ("distilled", "histograms", "propose")
                assert not SPEC.shows(found.settings)
    assert not SPEC.shows(tree_job("auto"))
    assert SPEC.shows(tree_job("noisy_max")) == (
        "shows the coordinator exact counts (method='noisy_max')"
    )


def test_with_delta_auto_takes_gaussian_noise_and_pure_choices_are_refused():
    job = tree_job("auto", n_rows=1000)
    job = replace(job, privacy=replace(job.privacy, delta="1/1000000"))
    for n_rows, method in ((100, "distilled"), (1000, "distilled"), (1_000_000, "histograms")):
        assert choose_method(replace(job, n_rows=n_rows), 10, 5).settings.method == method
    for method in ("propose", "noisy_max"):
        with pytest.raises(SettingError, match="cannot be added to a budget with delta"):
            TreePlan(replace(job, method=method), 10, 2, 5)


def test_a_tree_is_no_deeper_than_its_rows_are_good_for():
    assert useful_depth(250, 10) == 5
    assert useful_depth(1000, 10) == 7
    assert useful_depth(3, 10) == 1
    job = tree_job("noisy_max", max_depth=10, n_rows=250)
    assert choose_method(job, 10, 5).settings.max_depth == 5
    assert choose_method(replace(job, method="histograms"), 10, 5).settings.max_depth == 10
    assert choose_method(replace(job, n_rows=None), 10, 5).settings.max_depth == 10
