"""A tree that is distilled from private boosting: its price, its leaves, what it refuses."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from spinney.errors import PolicyError, ProtocolError, SettingError
from spinney.privacy.budget import Unit
from spinney.protocols import private_tree
from spinney.protocols.accounts.budget import budget_of
from spinney.protocols.noisy_boosting.coordinator import boost
from spinney.protocols.noisy_boosting.distilling import imitate
from spinney.protocols.noisy_boosting.messages import DistilledLeavesAsk, PublicBoosting
from spinney.protocols.private_tree.messages import CellsAsk, TreeJoinAsk, TreeSoFar, plan_of
from spinney.protocols.private_tree.settings import boosting_of
from spinney.protocols.spec import JobSize
from spinney.protocols.training import Phases
from spinney.typing import silent
from unit.protocols.private_tree.private_trees import (  # type: ignore[import-not-found]
    SCHEMA,
    Run,
    rows,
    tree_job,
)

MILLIONTH = "1/1000000"


def cost_of(asked, n_parties):
    costs = [
        spend.mechanism.cost(spend.n_values)
        for spend in plan_of(SCHEMA, asked, n_parties).planned()
    ]
    return sum(cost.amount for cost in costs)


@pytest.mark.parametrize("leaf_share", ["1/2", "1/10"])
@pytest.mark.parametrize("delta", [None, MILLIONTH])
@pytest.mark.parametrize("n_parties", [1, 5])
def test_all_releases_together_cost_the_budget_and_no_more(leaf_share, delta, n_parties):
    privacy = {"leaf_share": leaf_share} | ({"delta": delta} if delta else {})
    if n_parties > 1:
        privacy |= {"in_shares": True, "honest": 3}
    asked = tree_job("distilled", privacy=privacy)
    assert cost_of(asked, n_parties) == budget_of(asked.privacy).amount
    leaves = plan_of(SCHEMA, asked, n_parties).planned()[-1]
    share = min(Fraction(leaf_share), Fraction(1, 5))
    assert leaves.mechanism.cost(1).amount == budget_of(asked.privacy).amount * share


def test_a_tree_is_spent_as_planned_and_its_rounds_are_few():
    run = Run(private_tree, tree_job("distilled", n_rows=300), 3)
    trained = run.train()
    assert run.ledgers["p0"].spent("test", Unit.RECORD_ADD_REMOVE) == 1
    bound = private_tree.SPEC.bound(run.settings, JobSize(3, 3, (0, 0, 0, 3)))
    assert bound.rounds is not None
    assert len(trained.rounds) <= bound.rounds <= 41


@pytest.mark.parametrize("privacy", [{}, {"delta": MILLIONTH}])
def test_with_little_noise_a_tree_finds_what_its_rows_say(privacy):
    held = rows(3000)
    asked = tree_job("distilled", "40", privacy=privacy, n_rows=3000)
    model = Run(private_tree, asked, 3, held).train().model
    shares = model.predict(held.columns)
    assert roc_auc_score(held.target, shares, multi_class="ovr") > 0.93
    assert model.boosted is None
    assert model.forest.n_trees == 1
    assert model.noise is not None


def test_leaves_say_what_the_rows_in_them_say():
    held = rows(3000)
    model = Run(private_tree, tree_job("distilled", "300", n_rows=3000), 2, held).train().model
    shares, leaf = (
        model.predict(held.columns),
        model.forest.leaves(model.rows(held.columns.values(slice(0, held.n_rows))), 0),
    )
    for at in np.unique(leaf):
        mine = leaf == at
        if mine.sum() > 100:
            said = shares[mine][0]
            told = np.bincount(held.target[mine], minlength=3) / mine.sum()
            assert np.abs(said - told).max() < 0.06


def boosted(run):
    """Return a finished boosting, and the tree that follows from it."""
    settings = boosting_of(run.settings)
    digest, parties = SCHEMA.digest(), len(run.parties)
    run.channel.ask(TreeJoinAsk(run.settings, digest, parties))
    public = PublicBoosting.of(SCHEMA, settings, parties)
    found = boost(run.channel, public, settings, Phases(), silent)
    assert settings.tree is not None
    return found, imitate(found, settings.tree)


def test_the_tree_follows_from_opened_sums_alone_and_another_one_is_refused():
    run = Run(private_tree, tree_job("distilled", n_rows=300), 1)
    found, levels = boosted(run)
    settings = boosting_of(run.settings)
    assert settings.tree is not None
    assert imitate(found, settings.tree) == levels  # nothing else is drawn
    north, ledger = run.parties["p0"], run.ledgers["p0"]
    ask = DistilledLeavesAsk(found.so_far, levels)
    first, again = (north.answer(ask).counters for _ in range(2))
    assert np.array_equal(first, again)
    spent = ledger.spent("test", Unit.RECORD_ADD_REMOVE)
    other = (levels[0].replaced(cut=levels[0].cut ^ 1), *levels[1:])
    with pytest.raises(PolicyError, match="already asked about a different distilled tree"):
        north.answer(DistilledLeavesAsk(found.so_far, other))
    assert ledger.spent("test", Unit.RECORD_ADD_REMOVE) == spent == 1


def test_a_tree_that_does_not_fit_its_job_is_refused():
    run = Run(private_tree, tree_job("distilled", n_rows=300), 1)
    found, levels = boosted(run)
    north = run.parties["p0"]
    with pytest.raises(ProtocolError, match=r"tree is not finished\. Nothing was released"):
        north.answer(DistilledLeavesAsk(found.so_far, levels[:1]))
    with pytest.raises(ProtocolError, match=r"asks about no such tree\. Nothing was released"):
        north.answer(DistilledLeavesAsk(found.so_far, (*levels, levels[-1])))
    early = replace(found.so_far, values=found.so_far.values[:-1])
    with pytest.raises(ProtocolError, match=r"do not fit the job\. Nothing was released"):
        north.answer(DistilledLeavesAsk(early, levels))
    settings = replace(found.so_far.settings, tree=None)
    with pytest.raises(ProtocolError, match=r"asks about no such tree\. Nothing was released"):
        north.answer(DistilledLeavesAsk(replace(found.so_far, settings=settings), levels))


def test_a_distilled_job_answers_nothing_about_nodes():
    run = Run(private_tree, tree_job("distilled", n_rows=300), 1)
    boosted(run)
    tree = TreeSoFar(run.settings, SCHEMA.digest(), 1, (), ())
    with pytest.raises(ProtocolError, match="'distilled' does not ask about nodes"):
        run.parties["p0"].answer(CellsAsk(tree, np.ones((1, 4), np.bool_)))


def test_a_budget_that_drowns_every_leaf_is_refused():
    words = "leaves too little budget for each tree: its leaves would carry noise of about"
    with pytest.raises(SettingError, match=words):
        plan_of(SCHEMA, tree_job("distilled", "1/100000000"), 1)
