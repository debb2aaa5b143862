"""Private trees and forests: exact budgets, few rounds, and what they find."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from spinney.errors import BudgetError
from spinney.privacy.accounting import JobTerms
from spinney.privacy.budget import Unit
from spinney.privacy.ledger import Ledger
from spinney.privacy.ledger_store import Charged
from spinney.privacy.mechanisms import DiscreteLaplace
from spinney.privacy.scopes import Budget
from spinney.protocols import private_forest, private_tree
from spinney.protocols.noisy_boosting.messages import DistilledLeavesAsk
from spinney.protocols.private_tree.budget import TreePlan
from spinney.protocols.private_tree.groups import Group
from spinney.protocols.private_tree.messages import (
    CellsAsk,
    PublicTree,
    SidesAsk,
    TreeLeavesAsk,
)
from spinney.tables.columns import MatrixColumns
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MemoryTable
from spinney.transport.in_process import InProcess
from spinney.trees.public_trees import random_levels
from unit.protocols.private_tree.private_trees import (  # type: ignore[import-not-found]
    SCHEMA,
    Run,
    each_by_levels,
    each_method,
    paid,
    rows,
    tree_job,
)

# --- the budget is spent, all of it, and no more -------------------------------------------------


@each_method
@pytest.mark.parametrize("epsilon", ["1", "1/3", "7"])
@pytest.mark.parametrize("in_shares", [False, True])
def test_a_tree_costs_its_epsilon_exactly(method, epsilon, in_shares):
    run = Run(private_tree, tree_job(method, epsilon, privacy={"in_shares": in_shares}))
    training = run.train()
    assert run.spent() == {Fraction(epsilon)}
    for ledger in run.ledgers.values():
        assert ledger.left("test", Unit.RECORD_ADD_REMOVE) == 0
        ledger.verify()
    views = {c.view: c for c in training.claims if c.unit == Unit.RECORD_ADD_REMOVE}
    trusting = method == "noisy_max"
    for view in ("reader", "party"):
        assert (views[view].verdict, views[view].epsilon) == ("EPSILON", epsilon)
    for view in ("coordinator", "coalition"):
        assert views[view].verdict == ("UNPROTECTED" if trusting else "EPSILON")
        assert ("trusted to choose the splits" in views[view].text) == trusting


@pytest.mark.parametrize("in_shares", [False, True])
def test_a_forest_costs_its_epsilon_exactly_in_one_sum(in_shares):
    settings = private_forest.Settings(privacy=paid("2/7", in_shares=in_shares), n_estimators=7)
    run = Run(private_forest, settings, n_parties=5)
    training = run.train()
    assert run.spent() == {Fraction(2, 7)}
    assert [r.question for r in run.channel.rounds if r.verb == "sum"] == ["RandomLeaves"]
    assert training.model.forest.n_trees == 7
    assert {c.epsilon for c in training.claims if c.verdict == "EPSILON"} == {"2/7"}


@each_method
@pytest.mark.parametrize("table", ["one class", "no rows at a party", "nothing to split"])
def test_the_budget_is_exact_also_where_trees_stop_early(method, table):
    held = rows(40)
    if table == "one class":
        held.target[:] = 0
    if table == "nothing to split":
        held = MemoryTable(SCHEMA, MatrixColumns(np.full((40, 4), np.nan, np.float32)), held.target)
    if table == "no rows at a party":
        held = rows(2)
    run = Run(private_tree, tree_job(method, "50", min_samples_leaf=5), table=held)
    model = run.train().model
    assert run.spent() == {Fraction(50)}
    assert np.isfinite(model.forest.value).all()


def test_savings_go_down_the_tree_and_end_in_its_leaves():
    plan = PublicTree.of(SCHEMA, tree_job("save_budget"), 3).plan
    generator = np.random.default_rng(0)
    columns = PublicTree.of(SCHEMA, tree_job("save_budget"), 3).binning.columns
    (level,) = random_levels(columns, 1, 1, generator)
    level = level.replaced(
        child_open=np.ones(2, np.bool_),
        child_bits=np.ones(2, np.uint8),
        child_derived=np.zeros(2, np.bool_),
    )
    thrifty, lavish = (
        plan.node_budgets((level,), (np.array([step]),))[-1] for step in (1, plan.n_steps)
    )
    assert lavish.has == (plan.level_epsilon,) * 2
    assert thrifty.has[0] > plan.level_epsilon
    assert thrifty.spent[0] < lavish.spent[0] == plan.level_epsilon


def test_a_life_budget_that_is_too_small_ends_the_job_before_it_starts():
    run = Run(private_tree, tree_job("noisy_max"))
    party = run.parties["p1"]
    run.ledgers["p1"].allow_for_life(party._rows.account(None).fingerprint, [Budget.pure(0.5)])
    with pytest.raises(BudgetError, match="more than is left for the life of the data set"):
        run.train()
    assert run.ledgers["p1"].spent("test", Unit.RECORD_ADD_REMOVE) == 0


@pytest.mark.parametrize("name", ["private_tree", "private_forest"])
def test_a_table_in_a_named_data_set_is_paid_from_one_account(name):
    protocol, settings = {
        "private_tree": (private_tree, tree_job("histograms")),
        "private_forest": (private_forest, private_forest.Settings(privacy=paid())),
    }[name]
    ledger = Ledger.in_memory("one")
    ledger.allow_for_life("wards", [Budget.pure(Fraction(3, 2))])
    party = protocol.Party(rows(), ledger=ledger, data="wards")
    protocol.train(InProcess({"one": party}), settings)
    again = replace(settings, privacy=paid(job="again"))
    with pytest.raises(BudgetError, match="more than is left for the life of the data set"):
        protocol.train(InProcess({"one": party}), again)
    assert ledger.left_for_life("wards", Unit.RECORD_ADD_REMOVE) == Fraction(1, 2)


@pytest.mark.parametrize(("p", "true_epsilon"), [(10, "2.125"), (25, "4"), (50, "7.125")])
def test_published_algorithm_6_is_refused_at_the_budget_it_claims(monkeypatch, p, true_epsilon):
    """Every bound with all of the bounds' budget, though one record moves them all."""

    def published(self, node_budgets):
        each = node_budgets.has[0] * self._bounds_share
        noise = DiscreteLaplace(each * self.n_columns, Fraction(self.n_columns))
        return [Group(noise, node_budgets.scopes, np.arange(1))]

    schema = Schema(tuple(Column(f"x{j}", "number", (0.0, 1.0)) for j in range(p)), SCHEMA.label)
    values = np.random.RandomState(0).random_sample((60, p)).astype(np.float32)
    table = MemoryTable(schema, MatrixColumns(values), rows(60).target)
    monkeypatch.setattr(TreePlan, "bounds_groups", published)
    refused = Run(private_tree, tree_job("save_budget", max_depth=1), 1, table)
    with pytest.raises(BudgetError, match=r"Charge refused for .* Nothing was released"):
        refused.train()
    assert refused.spent() <= {0, Fraction(1, 2)}

    def generous(self, data):
        return JobTerms(self.privacy.job, data, 1, 1, (Budget.pure(100),))

    monkeypatch.setattr(TreePlan, "terms", generous)
    counted = Run(private_tree, tree_job("save_budget", max_depth=1), 1, table)
    counted.train()
    assert counted.spent() == {Fraction(true_epsilon)}


@each_by_levels
@pytest.mark.parametrize("leaf_share", ["1/10", "9/10"])
def test_levels_and_leaves_have_the_shares_that_they_are_given(method, leaf_share):
    run = Run(private_tree, tree_job(method, "40", privacy={"leaf_share": leaf_share}), 1)
    run.train()
    charged = [e.body for e in run.ledgers["p0"].entries() if isinstance(e.body, Charged)]
    of_level = 40 * (1 - Fraction(leaf_share)) / 3
    first = sum(c.cost.amount for c in charged if c.what.endswith("level 0"))
    leaves = [c.cost.amount for c in charged if "leaves" in c.what]
    if method == "save_budget":
        assert of_level / 4 <= first <= of_level  # bounds, and as much as was not saved
        assert min(leaves) >= 40 * Fraction(leaf_share)
    else:
        assert first == of_level
        assert min(leaves) == 40 * Fraction(leaf_share)


# --- rounds --------------------------------------------------------------------------------------


@each_by_levels
def test_a_tree_takes_at_most_two_rounds_a_level(method):
    run = Run(private_tree, tree_job(method, "100", max_depth=4))
    run.train()
    asked = [r.question for r in run.channel.rounds]
    assert asked[:2] == ["Schema", "TreeJoin"]
    levels = [name for name in asked if name not in {"Schema", "TreeJoin", "TreeLeaves", "Claims"}]
    per_level = 2 if method in {"save_budget", "propose"} else 1
    assert len(levels) <= per_level * 4
    assert asked.count("TreeLeaves") == 1


# --- the tree itself -----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["histograms", "noisy_max"])
def test_with_next_to_no_noise_parties_grow_the_tree_of_one_table(method):
    """Counts are exact, so that only noise tells one party from five."""
    models = []
    for n_parties in (1, 5):
        settings = tree_job(method, "1000000", privacy={"in_shares": n_parties > 1}, shrinkage=0.0)
        models.append(Run(private_tree, settings, n_parties).train().model)
    one, five = (model.forest for model in models)
    assert np.array_equal(one.feature, five.feature)
    assert np.array_equal(one.threshold, five.threshold)
    assert np.array_equal(one.moments, five.moments)
    assert one.moments[0].tolist() == np.bincount(rows().target).tolist()


@each_method
def test_a_rich_budget_finds_what_there_is_to_find(method):
    table = rows(1500)
    model = Run(private_tree, tree_job(method, "200", max_depth=3), table=table).train().model
    batch = next(iter(table.batches()))
    guess = np.concatenate(list(model.predict_batches(iter([batch.values])))).argmax(axis=1)
    assert np.mean(guess == table.target) > 0.9
    assert {0, 3} <= set(model.forest.feature.tolist())  # age, and one ward against the rest


def test_one_noisy_maximum_finds_columns_that_tell_something_only_together():
    random = np.random.RandomState(0)
    values = random.random_sample((600, 3)).astype(np.float32)
    odd = ((values[:, 1] > 0.5) ^ (values[:, 2] > 0.5)).astype(np.int32)
    columns = tuple(Column(f"x{j}", "number", (0.0, 1.0)) for j in range(3))
    schema = Schema(columns, Label("odd", "class", (0, 1)))
    table = MemoryTable(schema, MatrixColumns(values), odd)
    for _ in range(5):
        model = Run(private_tree, tree_job("noisy_max", "20", max_depth=2), 3, table).train().model
        assert set(model.forest.feature.tolist()) == {1, 2, -1}
        assert np.mean(model.predict(table.columns).argmax(axis=1) == odd) > 0.95


def test_only_a_root_that_fits_in_a_message_looks_ahead():
    def looks_ahead(**more):
        return PublicTree.of(SCHEMA, tree_job("noisy_max", **more), 3).looks_ahead

    assert looks_ahead()
    assert not looks_ahead(max_depth=1)
    assert not looks_ahead(n_bins=50, message_limit=1 << 16)
    assert not PublicTree.of(SCHEMA, tree_job("histograms"), 3).looks_ahead
    many = Schema(tuple(Column(f"x{j}", "number", (0.0, 1.0)) for j in range(200)), SCHEMA.label)
    assert not PublicTree.of(many, tree_job("noisy_max"), 3).looks_ahead


@each_method
def test_nodes_stop_by_what_noise_says_of_their_rows_alone(method):
    class Unlucky:
        """A party whose noise takes away more rows than there are."""

        def __init__(self, party):
            self._party = party

        def answer(self, ask):
            reply = self._party.answer(ask)
            if isinstance(ask, CellsAsk | SidesAsk | TreeLeavesAsk | DistilledLeavesAsk):
                reply = replace(reply, counters=reply.counters - 1000)
            return reply

    run = Run(private_tree, tree_job(method, "200"), 1)
    run.channel = InProcess({name: Unlucky(party) for name, party in run.parties.items()})
    assert run.train().model.forest.n_nodes == 1
    assert Run(private_tree, tree_job(method, "200"), 1).train().model.forest.n_nodes > 1


def test_a_forest_finds_it_too():
    table = rows(1500)
    settings = private_forest.Settings(privacy=paid("50"), n_estimators=60, max_depth=4)
    model = Run(private_forest, settings, table=table).train().model
    batch = next(iter(table.batches()))
    guess = np.concatenate(list(model.predict_batches(iter([batch.values])))).argmax(axis=1)
    assert np.mean(guess == table.target) > 0.75
