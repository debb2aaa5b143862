"""A party and the coordinator together: lies about the party's own counts steer every split.

No check of sums finds them. `min_own_rows` is what an honest party has against them, within a tree.
"""

from typing import Any

import numpy as np
import pytest

from deployed.handmade import ASKER, agreed_job  # type: ignore[import-not-found]
from hostile.cheats import Run, tables_for  # type: ignore[import-not-found]
from hostile.steering import steer  # type: ignore[import-not-found]
from spinney import HorizontalForestClassifier
from spinney.deployment.party.policy import Policy, check_policy
from spinney.errors import PolicyError, ProtocolError, SettingError
from spinney.protocols import extra_trees, horizontal_forest
from spinney.protocols.horizontal_forest.messages import LevelAsk
from spinney.protocols.verified.tags import TAG_WORDS
from spinney.report.report import Report
from spinney.trees.linear_hash import PRIMES

SMALL: dict[str, Any] = {"n_estimators": 8, "max_depth": 10}


def test_a_liar_singles_out_rows_whatever_min_samples_leaf_says():
    """It invents rows enough for any `min_samples_leaf`, which is about all parties' rows."""
    loot, _ = steer(0, min_samples_leaf=200, **SMALL)
    alone, _, cells = loot.shares
    assert alone > 0.8
    assert cells > 0.8


@pytest.mark.parametrize("least", [0, 5])
def test_under_masks_a_liar_that_invents_more_rows_than_a_node_has_is_noticed(least):
    """Masked words have room for the rows that a node holds: others are not read as a histogram."""
    with pytest.raises(ProtocolError, match="do not add up to histograms of the rows"):
        steer(least, is_masked=True, **SMALL)


@pytest.mark.parametrize("least", [2, 5, 20])
def test_a_party_that_counts_itself_out_is_never_alone_in_a_tree(least):
    loot, training = steer(least, **SMALL)
    assert loot.shares == (0.0, 0.0, 0.0)
    assert training.shape.depth == SMALL["max_depth"]  # the liar goes on with nobody but itself


def test_all_columns_in_every_node_change_nothing():
    """Then siblings would be derived, and parents and children have all columns in common."""
    loot, _ = steer(5, max_features=None, **SMALL)
    assert loot.shares == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("is_masked", [False, True])
def test_a_curious_party_learns_no_more_from_tags_than_from_sums(rows, is_masked):
    """How often tags wrap around told which of two others holds a row, in 6 of 6 jobs."""
    told: list[Any] = []

    def listening(_, ask):
        told.extend(opened.tags for opened in ask.before if opened.tags.shape == (TAG_WORDS,))
        return ask

    job = horizontal_forest.Settings(task="classification", n_estimators=1, max_depth=2, seed=1)
    tables = tables_for(HorizontalForestClassifier(), *rows)
    Run("horizontal_forest", tables, job, change=listening, is_masked=is_masked).trained()
    assert len(told) > 3
    # Three tags without secret multiples exceed their prime twice at most.
    assert all((tags // np.array(PRIMES, np.uint64) > 1000).all() for tags in told)


@pytest.fixture(scope="module")
def rows():
    random = np.random.default_rng(5)
    X = random.normal(size=(600, 5))
    y = (X[:, 0] + X[:, 1] * random.normal(size=600) > 0).astype(int)
    return X, y


def forest(tables, least, *, is_masked=False, **changes):
    facts = {"n_estimators": 6, "max_depth": 6, "min_samples_leaf": 5, "seed": 1} | changes
    job = horizontal_forest.Settings(task="classification", criterion="gini", **facts)
    sides = {
        name: horizontal_forest.Party(table, is_masked=is_masked, min_own_rows=least)
        for name, table in tables.items()
    }
    return Run("horizontal_forest", tables, job, sides=sides, is_masked=is_masked)


class Counting:
    """A side that notes in which nodes of a level its party is counted."""

    def __init__(self, side):
        self.side, self.nodes = side, []

    def answer(self, ask):
        reply = self.side.answer(ask)
        if isinstance(ask, LevelAsk):
            begins = ask.slots.offset[:, 0]
            ends = np.append(begins[1:], len(reply.counts.counters))
            pairs = zip(begins, ends, strict=True)
            self.nodes += [bool(reply.counts.counters[a:b].any()) for a, b in pairs]
        return reply


@pytest.mark.parametrize(("least", "are_some_alone"), [(0, False), (5, True)])
def test_what_remains_a_party_may_be_the_only_one_that_is_counted(rows, least, are_some_alone):
    """Masks hide nothing of a sum to which all others add zeros; nobody knows it beforehand."""
    tables = tables_for(HorizontalForestClassifier(), *rows)
    run = forest(tables, least)
    sides = {name: Counting(party._party) for name, party in run.parties.items()}
    for name, party in run.parties.items():
        party._party = sides[name]
    run.trained()
    counted = np.array([side.nodes for side in sides.values()]).sum(axis=0)
    assert (counted > 1).any()
    assert (counted == 1).any() == are_some_alone


@pytest.mark.parametrize("max_features", [2, None])
@pytest.mark.parametrize("is_masked", [False, True])
def test_all_derive_the_same_model_and_the_report_says_that_it_is_not_the_pooled_one(
    rows, max_features, is_masked
):
    tables = tables_for(HorizontalForestClassifier(), *rows)
    pooled = forest(tables, 0, max_features=max_features).trained()
    assert pooled.adds_up
    assert "pooled" not in str(Report.of(pooled))
    run = forest(tables, 5, is_masked=is_masked, max_features=max_features)
    training = run._train(run.channel)
    model = training.model.to_bytes()
    assert set(run.models().values()) == {model}
    run.close()
    assert model != pooled.model.to_bytes()
    assert not training.adds_up
    told = " ".join(str(Report.of(training)).split())
    assert "not pooled The model is not that of the pooled rows: some nodes counted fewer" in told
    assert "(min_own_rows); or a party counts wrongly." in told


def test_a_party_with_enough_rows_everywhere_leaves_the_pooled_model(rows):
    tables = tables_for(HorizontalForestClassifier(), *rows)
    coarse = {"max_depth": 1, "min_samples_leaf": 150}
    pooled = forest(tables, 0, **coarse).trained()
    careful = forest(tables, 5, **coarse).trained()
    assert careful.model.to_bytes() == pooled.model.to_bytes()
    assert careful.adds_up


@pytest.mark.parametrize("thresholds", ["public", "exchanged"])
def test_extra_trees_count_parties_out_too(rows, thresholds):
    tables = tables_for(HorizontalForestClassifier(), *rows)
    facts: dict[str, Any] = {"n_estimators": 4, "max_depth": 5, "seed": 1, "bootstrap": True}
    how: dict[str, Any] = {"binning": "ranges", "thresholds": thresholds}
    job = extra_trees.Settings(task="classification", criterion="gini", **facts, **how)
    sides = {name: extra_trees.Party(t, min_own_rows=10) for name, t in tables.items()}
    training = Run("extra_trees", tables, job, sides=sides).trained()
    assert not training.adds_up
    assert training.model.to_bytes() != Run("extra_trees", tables, job).trained().model.to_bytes()


def test_a_party_with_hardly_any_rows_says_so(rows):
    X, y = rows
    tables = tables_for(HorizontalForestClassifier(), X[:60], y[:60])
    words = "fewer than 40 rows, or fewer of a class, .*hardly any tree would count it. Leave it"
    with pytest.raises(PolicyError, match=words):
        forest(tables, 20).trained()


REFUSED: dict[str, Any] = {
    "evolved trees": (
        'protocol = "genetic_tree"',
        {"n_estimators": None, "max_depth": "3"},
        (
            r"asks for genetic_tree, which counts a party's rows however few they are; the policy "
            r"of 'north' lets it be counted only where it has 20 rows of a class "
            r"\(rule 'min_own_rows'\)"
        ),
    ),
    "boosted trees": (
        'protocol = "horizontal_boosting"',
        {"n_estimators": None, "max_depth": "3"},
        (
            r"asks for horizontal_boosting, which sums gradients of the same rows in every tree: "
            r"nodes left out of one tree follow from others, so that the rule would hide nothing; "
            r"the policy of 'north' lets it be counted only where it has 20 rows of a class"
        ),
    ),
    "trees over the same rows": (
        "",
        {"bootstrap": "false"},
        (
            r"counts the same rows in every tree, so that trees can be subtracted; the policy of "
            r"'north' requires bootstrap = true, or one tree \(rule 'min_own_rows'\)"
        ),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_jobs_in_which_a_party_cannot_count_itself_out_are_refused(tmp_path, case):
    job, settings, words = REFUSED[case]
    asked = agreed_job(tmp_path, job, **settings)
    with pytest.raises(PolicyError, match=words):
        check_policy("north", Policy(min_own_rows=20), asked, ASKER)
    check_policy("north", Policy(), asked, ASKER)


def test_other_jobs_are_as_they_were(tmp_path):
    careful = Policy(min_own_rows=20)
    for asked in (
        agreed_job(tmp_path),
        agreed_job(tmp_path, bootstrap="false", n_estimators=1),
        agreed_job(tmp_path, epsilon=2.0),  # it has noise
    ):
        check_policy("north", careful, asked, ASKER)
    with pytest.raises(SettingError, match="min_own_rows must be at least 0; got -1"):
        Policy(min_own_rows=-1)
