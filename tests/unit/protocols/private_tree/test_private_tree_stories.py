"""A coordinator of a private tree is held to one tree, however it asks."""

from dataclasses import replace

import numpy as np
import pytest

from spinney.errors import PolicyError, TableError
from spinney.privacy.budget import Unit
from spinney.privacy.claims import claims
from spinney.privacy.ledger import Ledger
from spinney.privacy.scopes import PARTY_TOTALS, View
from spinney.protocols import private_tree
from spinney.protocols.private_tree.messages import (
    BoundsAsk,
    CellsAsk,
    PublicTree,
    SidesAsk,
    TreeJoinAsk,
    TreeLeavesAsk,
    TreeSoFar,
    TrustedCellsAsk,
)
from spinney.trees.dtypes import CATEGORY_WORDS
from spinney.trees.level import Level
from spinney.trees.public_trees import Splits, frontiers, level_of
from unit.protocols.private_tree.private_trees import (  # type: ignore[import-not-found]
    SCHEMA,
    Run,
    joined,
    one_level,
    rows,
    tree_job,
    vars_of,
)


def test_a_party_holds_the_coordinator_to_one_tree():
    """Two stories of which rows stand where would make rows disjoint that are not."""
    run, party, root = joined("histograms")
    party.answer(CellsAsk(root, np.ones((1, 4), np.bool_)))
    spent = run.spent()
    facts = vars_of(root)
    stories = [TreeSoFar(**(facts | {"levels": (one_level(run.settings, s),)})) for s in (0, 1)]
    party.answer(CellsAsk(stories[0], np.ones((2, 4), np.bool_)))
    assert run.spent() == {next(iter(spent)) * 2}
    with pytest.raises(
        PolicyError, match="already asked about a different tree of 1 levels in this job"
    ):
        party.answer(CellsAsk(stories[1], np.ones((2, 4), np.bool_)))
    stump = one_level(run.settings).replaced(
        feature=np.array([-1], np.int32),
        cut=np.zeros(1, np.uint8),
        missing_left=np.zeros(1, np.bool_),
        child_open=np.zeros(0, np.bool_),
        child_bits=np.zeros(0, np.uint8),
        child_derived=np.zeros(0, np.bool_),
        child_lines=np.zeros(0, np.uint16),
    )
    with pytest.raises(PolicyError, match="a different tree of 1 levels"):  # the root a leaf, too
        party.answer(TreeLeavesAsk(TreeSoFar(**(facts | {"levels": (stump,)}))))
    assert run.spent() == {next(iter(spent)) * 2}


def test_a_coordinator_that_invents_savings_is_refused():
    run, party, root = joined("save_budget", max_depth=2)
    party.answer(BoundsAsk(root))
    party.answer(CellsAsk(root, np.ones((1, 4), np.bool_)))  # all of the root's budget
    spent, facts = run.spent(), vars_of(root)
    some = np.array([[True, False, False, False]])
    with pytest.raises(PolicyError, match="a different CellsAsk of level 0"):
        party.answer(CellsAsk(root, some))
    assert run.spent() == spent
    level = one_level(run.settings)
    honest, lie = (
        TreeSoFar(**(facts | {"levels": (level,), "asked": (np.array([step]),)})) for step in (4, 1)
    )
    party.answer(BoundsAsk(honest))
    with pytest.raises(PolicyError, match="a different tree of 1 levels"):
        party.answer(BoundsAsk(lie))


def test_proposed_cuts_are_counted_once():
    run, party, root = joined("propose")
    party.answer(SidesAsk(root, np.array([[3]])))
    spent = run.spent()
    with pytest.raises(PolicyError, match="a different SidesAsk of level 0"):
        party.answer(SidesAsk(root, np.array([[4]])))
    assert run.spent() == spent


def halved(public, levels, *, splits, opens):
    """Return a level that halves the first column's range in every open node, or ends them all."""
    frontier = frontiers(public.binning.columns, 1, levels)[-1]
    n = frontier.n_open
    cut = (frontier.low[:, 0].astype(int) + frontier.high[:, 0].astype(int)) // 2
    feature = np.full(n, 0 if splits else -1, np.int32)
    bins, missing = np.zeros((n, CATEGORY_WORDS), np.uint64), np.zeros(n, np.bool_)
    return level_of(public.binning.columns, Splits(feature, cut, bins, missing), opens=opens)


def party_of(method, depth):
    settings = tree_job(method, max_depth=depth)
    ledger = Ledger.in_memory("p")
    party = private_tree.Party(rows(), ledger=ledger)
    party.answer(TreeJoinAsk(settings, SCHEMA.digest(), 3))
    return settings, ledger, party


def test_a_job_joined_for_one_method_answers_no_other():
    settings, ledger, party = party_of("propose", 3)
    other = replace(settings, method="noisy_max")
    public = PublicTree.of(SCHEMA, other, 3)
    tree = TreeSoFar(other, SCHEMA.digest(), 3, (halved(public, (), splits=True, opens=True),), ())
    with pytest.raises(PolicyError, match="does not match the terms on which this party joined"):
        party.answer(TrustedCellsAsk(tree))
    assert ledger.spent("test", Unit.RECORD_ADD_REMOVE) == 0


def test_exact_counts_are_disclosed_at_whatever_level_they_are_first_asked():
    settings, ledger, party = party_of("noisy_max", 3)
    public = PublicTree.of(SCHEMA, settings, 3)
    level = halved(public, (), splits=True, opens=True)
    party.answer(TrustedCellsAsk(TreeSoFar(settings, SCHEMA.digest(), 3, (level,), ())))
    open_views = {
        claim.view
        for claim in claims(ledger, "test")
        if claim.unit is Unit.RECORD_ADD_REMOVE and claim.epsilon is None
    }
    assert {View.COORDINATOR, View.COALITION} <= open_views


def test_leaves_are_bought_once_whatever_trees_are_told_of():
    settings, _, party = party_of("histograms", 5)
    public = PublicTree.of(SCHEMA, settings, 3)
    answered = 0
    for depth in (1, 3, 5):
        levels: tuple[Level, ...] = ()
        for _ in range(depth - 1):
            levels += (halved(public, levels, splits=True, opens=True),)
        levels += (halved(public, levels, splits=False, opens=False),)
        ask = TreeLeavesAsk(TreeSoFar(settings, SCHEMA.digest(), 3, levels, ()))
        if answered:
            with pytest.raises(PolicyError, match="a different tree of 1 levels"):
                party.answer(ask)
        else:
            party.answer(ask)
            answered += 1


def test_a_table_that_changes_while_the_job_runs_is_refused():
    """A row that moves from a deep node to a shallow leaf would be told of once too often."""
    settings, ledger = tree_job("histograms"), Ledger.in_memory("p")
    party = private_tree.Party(rows(), ledger=ledger, data="wards")
    party.answer(TreeJoinAsk(settings, SCHEMA.digest(), 3))
    root = TreeSoFar(settings, SCHEMA.digest(), 3, (), ())
    first = party.answer(CellsAsk(root, np.ones((1, 4), np.bool_)))
    spent = ledger.spent("test", Unit.RECORD_ADD_REMOVE)
    level = halved(PublicTree.of(SCHEMA, settings, 3), (), splits=True, opens=True)
    deeper = TreeSoFar(settings, SCHEMA.digest(), 3, (level,), ())
    ask = CellsAsk(deeper, np.ones((2, 4), np.bool_))
    other = private_tree.Party(rows(299), ledger=ledger, data="wards")
    with pytest.raises(TableError, match="The table changed while the job was running"):
        other.answer(ask)
    assert ledger.spent("test", Unit.RECORD_ADD_REMOVE) == spent
    again = private_tree.Party(rows(), ledger=ledger, data="wards")
    assert again.answer(ask).counters.size == 2 * first.counters.size


def test_a_party_s_own_choice_is_not_claimed_to_be_hidden():
    run = Run(private_tree, tree_job("propose", privacy={"in_shares": True}))
    totals = {c.view: c for c in run.train().claims if c.unit == PARTY_TOTALS}
    assert totals["coordinator"].verdict == "UNPROTECTED"
    assert "own choice of cuts" in totals["coordinator"].text
    summed = Run(private_tree, tree_job("histograms", privacy={"in_shares": True}))
    totals = {c.view: c for c in summed.train().claims if c.unit == PARTY_TOTALS}
    assert totals["coordinator"].verdict == "HIDDEN"


def test_what_was_asked_cannot_be_denied_later():
    settings, _, party = party_of("save_budget", 5)
    public, digest = PublicTree.of(SCHEMA, settings, 3), SCHEMA.digest()
    root = TreeSoFar(settings, digest, 3, (), ())
    party.answer(BoundsAsk(root))
    party.answer(CellsAsk(root, np.ones((1, public.plan.n_columns), np.bool_)))
    level = halved(public, (), splits=True, opens=True)
    lie = TreeSoFar(settings, digest, 3, (level,), (np.ones(1, np.int64),))
    with pytest.raises(PolicyError, match="a different choice of columns at level 0"):
        party.answer(BoundsAsk(lie))
