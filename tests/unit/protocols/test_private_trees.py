"""Private trees and forests: exact budgets, few rounds, complete questions, clean refusals."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from spinney.errors import BudgetError, PolicyError, ProtocolError, SchemaError, SettingError
from spinney.privacy.budget import Unit
from spinney.privacy.claims import claims
from spinney.privacy.ledger import Ledger
from spinney.privacy.scopes import Budget, View
from spinney.protocols import private_forest, private_tree
from spinney.protocols.private_settings import PrivacySettings
from spinney.protocols.secure_sums import secured
from spinney.protocols.tree_questions import (
    BoundsAsk,
    CellsAsk,
    ProposalsAsk,
    PublicTree,
    SidesAsk,
    TreeJoinAsk,
    TreeLeavesAsk,
    TreeSoFar,
    TrustedCellsAsk,
)
from spinney.protocols.tree_settings import chosen, useful_depth
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MatrixColumns, MemoryTable
from spinney.transport.in_process import InProcess
from spinney.trees.dtypes import CATEGORY_WORDS
from spinney.trees.level import Level
from spinney.trees.public_trees import Splits, frontiers, level_of, random_levels

METHODS = ("histograms", "save_budget", "propose", "noisy_max")
SCHEMA = Schema(
    (
        Column("age", "number", (0.0, 100.0)),
        Column("dose", "number", (0.0, 1.0)),
        Column("smokes", "boolean"),
        Column("ward", "category", categories=("a", "b", "c")),
    ),
    Label("outcome", "class", ("well", "ill", "gone")),
)
each_method = pytest.mark.parametrize("method", METHODS)


def rows(n=300, seed=0, schema=SCHEMA):
    random = np.random.RandomState(seed)
    X = np.stack(
        [
            random.uniform(0, 100, n),
            random.random_sample(n),
            random.randint(0, 2, n),
            random.randint(0, 3, n),
        ],
        axis=1,
    ).astype(np.float32)
    y = (X[:, 0] > 50).astype(np.int32) + (X[:, 3] == 2) * (X[:, 0] > 50)
    X[random.random_sample(X.shape) < 0.05] = np.nan
    return MemoryTable(schema, MatrixColumns(X), y.astype(np.int32))


def dealt(table, n_parties):
    party = np.arange(table.n_rows) % n_parties
    return {f"p{k}": table.select(np.flatnonzero(party == k)) for k in range(n_parties)}


def paid(epsilon="1", **more):
    return PrivacySettings(
        **({"job": "test", "epsilon": epsilon, "tree_rows": "all", "leaf_share": "1/2"} | more)
    )


def tree_job(method, epsilon="1", **more):
    privacy = paid(epsilon, **more.pop("privacy", {}))
    return private_tree.Settings(privacy=privacy, method=method, **({"max_depth": 3} | more))


class Run:
    """A job over parties with ledgers, masked if its noise is in shares."""

    def __init__(self, protocol, settings, n_parties=3, table=None):
        tables = dealt(rows() if table is None else table, n_parties)
        self.ledgers = {name: Ledger.in_memory(name) for name in tables}
        self.parties = {
            name: protocol.Party(held, ledger=self.ledgers[name]) for name, held in tables.items()
        }
        self.settings = settings
        self.channel: Any
        if settings.privacy.in_shares:
            how = {"job": "test", "honest": settings.privacy.honest}
            self.channel = secured(self.parties, InProcess, protocol.SUMMED, **how)
        else:
            self.channel = InProcess(self.parties, through_codec=True)
        self.protocol = protocol

    def train(self):
        return self.protocol.train(self.channel, self.settings)

    def spent(self):
        job = self.settings.privacy.job
        return {ledger.spent(job, Unit.RECORD_ADD_REMOVE) for ledger in self.ledgers.values()}


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
    thrifty, lavish = (plan.purses((level,), (np.array([step]),))[-1] for step in (1, plan.n_steps))
    assert lavish.has == (plan.level_epsilon,) * 2
    assert thrifty.has[0] > plan.level_epsilon
    assert thrifty.spent[0] < lavish.spent[0] == plan.level_epsilon


def one_level(settings, seed=0):
    """Return a level that splits the root at random, with open children."""
    columns = PublicTree.of(SCHEMA, settings, 1).binning.columns
    (level,) = random_levels(columns, 1, 1, np.random.default_rng(seed))
    return level.replaced(
        child_open=np.ones(2, np.bool_),
        child_bits=np.ones(2, np.uint8),
        child_derived=np.zeros(2, np.bool_),
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
    with pytest.raises(PolicyError, match="about another tree of 1 levels in this job"):
        party.answer(CellsAsk(stories[1], np.ones((2, 4), np.bool_)))
    stump = one_level(run.settings).replaced(
        feature=np.array([-1], np.int32),
        cut=np.zeros(1, np.uint8),
        missing_left=np.zeros(1, np.bool_),
        child_open=np.zeros(0, np.bool_),
        child_bits=np.zeros(0, np.uint8),
        child_derived=np.zeros(0, np.bool_),
    )
    with pytest.raises(PolicyError, match="another tree of 1 levels"):  # the root a leaf, too
        party.answer(TreeLeavesAsk(TreeSoFar(**(facts | {"levels": (stump,)}))))
    assert run.spent() == {next(iter(spent)) * 2}


def test_a_coordinator_that_invents_savings_is_refused():
    run, party, root = joined("save_budget", max_depth=2)
    party.answer(BoundsAsk(root))
    party.answer(CellsAsk(root, np.ones((1, 4), np.bool_)))  # all of the root's budget
    spent, facts = run.spent(), vars_of(root)
    some = np.array([[True, False, False, False]])
    with pytest.raises(PolicyError, match="another CellsAsk of level 0"):
        party.answer(CellsAsk(root, some))
    assert run.spent() == spent
    level = one_level(run.settings)
    honest, lie = (
        TreeSoFar(**(facts | {"levels": (level,), "asked": (np.array([step]),)})) for step in (4, 1)
    )
    party.answer(BoundsAsk(honest))
    with pytest.raises(PolicyError, match="another tree of 1 levels"):
        party.answer(BoundsAsk(lie))


def test_proposed_cuts_are_counted_once():
    run, party, root = joined("propose")
    party.answer(SidesAsk(root, np.array([[3]])))
    spent = run.spent()
    with pytest.raises(PolicyError, match="another SidesAsk of level 0"):
        party.answer(SidesAsk(root, np.array([[4]])))
    assert run.spent() == spent


def test_a_life_budget_that_is_too_small_ends_the_job_before_it_starts():
    run = Run(private_tree, tree_job("noisy_max"))
    party = run.parties["p1"]
    run.ledgers["p1"].allow_for_life(party._rows.purse(None).fingerprint, [Budget.pure(0.5)])
    with pytest.raises(BudgetError, match="more than is left for the life of the data set"):
        run.train()
    assert run.ledgers["p1"].spent("test", Unit.RECORD_ADD_REMOVE) == 0


# --- rounds --------------------------------------------------------------------------------------


@each_method
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


def test_a_forest_finds_it_too():
    table = rows(1500)
    settings = private_forest.Settings(privacy=paid("50"), n_estimators=60, max_depth=4)
    model = Run(private_forest, settings, table=table).train().model
    batch = next(iter(table.batches()))
    guess = np.concatenate(list(model.predict_batches(iter([batch.values])))).argmax(axis=1)
    assert np.mean(guess == table.target) > 0.75


# --- questions -----------------------------------------------------------------------------------


def joined(method, **more):
    run = Run(private_tree, tree_job(method, **more), n_parties=1)
    party = next(iter(run.parties.values()))
    party.answer(TreeJoinAsk(run.settings, SCHEMA.digest(), 1))
    return run, party, TreeSoFar(run.settings, SCHEMA.digest(), 1, (), ())


@pytest.mark.parametrize(
    ("method", "ask"),
    [
        ("histograms", lambda tree: CellsAsk(tree, np.ones((1, 4), np.bool_))),
        ("save_budget", BoundsAsk),
        ("propose", ProposalsAsk),
        ("propose", lambda tree: SidesAsk(tree, np.array([[3]]))),
        ("noisy_max", TrustedCellsAsk),
    ],
)
def test_a_question_that_comes_again_gets_the_same_numbers_and_costs_nothing(method, ask):
    run, party, tree = joined(method)
    first = party.answer(ask(tree))
    spent = run.spent()
    again = party.answer(ask(TreeSoFar(**vars_of(tree))))
    (name,) = vars(first)
    assert np.array_equal(getattr(first, name), getattr(again, name))
    assert run.spent() == spent


def vars_of(tree):
    names = ("settings", "schema_digest", "n_parties", "levels", "asked")
    return {name: getattr(tree, name) for name in names}


REFUSED = {
    "another method": ("noisy_max", lambda t: CellsAsk(t, np.ones((1, 4), np.bool_))),
    "another number of nodes": ("histograms", lambda t: CellsAsk(t, np.ones((2, 4), np.bool_))),
    "some columns": ("histograms", lambda t: CellsAsk(t, np.eye(1, 4, dtype=np.bool_))),
    "no columns": ("save_budget", lambda t: CellsAsk(t, np.zeros((1, 4), np.bool_))),
    "cuts that are none": ("propose", lambda t: SidesAsk(t, np.array([[999]]))),
    "more cuts than parties": ("propose", lambda t: SidesAsk(t, np.array([[1, 2]]))),
    "no cuts": ("propose", lambda t: SidesAsk(t, np.array([[-1]]))),
    "leaves of an open tree": ("histograms", TreeLeavesAsk),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_question_that_does_not_fit_is_refused_and_costs_nothing(what):
    method, ask = REFUSED[what]
    run, party, tree = joined(method)
    with pytest.raises(ProtocolError):
        party.answer(ask(tree))
    assert run.spent() == {0}


def test_a_tree_deeper_than_the_job_is_refused():
    run, party, tree = joined("histograms", max_depth=1)
    columns = PublicTree.of(SCHEMA, run.settings, 1).binning.columns
    (level,) = random_levels(columns, 1, 1, np.random.default_rng(0))
    open_again = level.replaced(
        child_open=np.ones(2, np.bool_),
        child_bits=np.ones(2, np.uint8),
        child_derived=np.zeros(2, np.bool_),
    )
    deeper = TreeSoFar(**(vars_of(tree) | {"levels": (open_again,)}))
    with pytest.raises(ProtocolError, match="of a tree of 1 levels"):
        party.answer(CellsAsk(deeper, np.ones((2, 4), np.bool_)))


def test_another_job_s_terms_and_another_schema_are_refused():
    run, party, _ = joined("histograms")
    other = replace(run.settings, privacy=replace(run.settings.privacy, epsilon="5"))
    ask = CellsAsk(TreeSoFar(other, SCHEMA.digest(), 1, (), ()), np.ones((1, 4), np.bool_))
    with pytest.raises(PolicyError, match="not on the terms"):
        party.answer(ask)
    with pytest.raises(SchemaError, match="another schema"):
        party.answer(CellsAsk(TreeSoFar(run.settings, "x", 1, (), ()), np.ones((1, 4), np.bool_)))
    assert run.spent() == {0}


@pytest.mark.parametrize("protocol", [private_tree, private_forest])
def test_a_party_without_a_ledger_answers_nothing_private(protocol):
    party = protocol.Party(rows())
    settings: Any = (
        tree_job("histograms")
        if protocol is private_tree
        else private_forest.Settings(privacy=paid())
    )
    join: Any = TreeJoinAsk if protocol is private_tree else private_forest.ForestJoinAsk
    with pytest.raises(PolicyError, match="has no ledger to pay from"):
        party.answer(join(settings, SCHEMA.digest(), 1))


@pytest.mark.parametrize("protocol", [private_tree, private_forest])
def test_a_question_of_another_protocol_is_refused(protocol):
    other = private_forest if protocol is private_tree else private_tree
    with pytest.raises(ProtocolError, match=f"A party in {protocol.NAME} does not answer"):
        protocol.Party(rows()).answer(other.ASKS[-1])


def test_a_forest_s_trees_must_be_whole():
    settings = private_forest.Settings(privacy=paid(), n_estimators=2, max_depth=2)
    run = Run(private_forest, settings, n_parties=1)
    party = next(iter(run.parties.values()))
    facts = (settings, SCHEMA.digest(), 1)
    party.answer(private_forest.ForestJoinAsk(*facts))
    columns = private_forest.bins_of(SCHEMA).columns
    shallow = random_levels(columns, 2, 1, np.random.default_rng(0))
    with pytest.raises(ProtocolError, match="not whole trees of depth 2"):
        party.answer(private_forest.RandomLeavesAsk(*facts, shallow))
    assert run.spent() == {0}


def test_replies_that_do_not_fit_end_the_job():
    class Short:
        def __init__(self, party):
            self._party = party

        def answer(self, ask):
            reply = self._party.answer(ask)
            names = set(vars(reply)) & {"counters", "cuts"}
            return replace(reply, **{n: getattr(reply, n)[:-1] for n in names}) if names else reply

    for method in METHODS:
        run = Run(private_tree, tree_job(method), n_parties=1)
        run.channel = InProcess({name: Short(party) for name, party in run.parties.items()})
        with pytest.raises(ProtocolError):
            run.train()
    settings = private_forest.Settings(privacy=paid(), n_estimators=2, max_depth=2)
    run = Run(private_forest, settings, n_parties=1)
    run.channel = InProcess({name: Short(party) for name, party in run.parties.items()})
    with pytest.raises(ProtocolError, match="do not have the leaves asked for"):
        run.train()


# --- settings and the choice ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"method": "best"}, "method must be 'auto' or 'histograms'"),
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


def test_more_candidates_than_a_message_may_hold_are_refused():
    with pytest.raises(SettingError, match=r"the message limit allows 8,192\. Lower max_depth"):
        PublicTree.of(SCHEMA, tree_job("noisy_max", max_depth=9, message_limit=1 << 16), 3)
    settings = private_forest.Settings(
        privacy=paid(), n_estimators=1000, max_depth=10, message_limit=1 << 16
    )
    with pytest.raises(SettingError, match="1000 trees of depth 10 over 3 classes would take"):
        private_forest.plan_of(SCHEMA, settings, 3)


def test_a_column_without_a_range_and_a_label_without_classes_are_refused():
    bare = Schema((Column("age", "number"),), SCHEMA.label)
    with pytest.raises(SettingError, match="Column 'age' has no declared range"):
        PublicTree.of(bare, tree_job("histograms"), 3)
    with pytest.raises(SettingError, match="Column 'age' has no declared range"):
        private_forest.bins_of(bare)
    amount = Schema(SCHEMA.columns, Label("amount", "number", range=(0.0, 1.0)))
    with pytest.raises(SettingError, match="'amount' declares no classes"):
        PublicTree.of(amount, tree_job("histograms"), 3)


def test_auto_chooses_by_public_sizes_alone_and_says_why():
    def method(n_rows, n_columns=10, n_parties=5, epsilon="1"):
        job = tree_job("auto", epsilon, n_rows=n_rows, max_depth=5)
        found = chosen(job, n_columns, n_parties)
        assert f"{n_rows} rows, {n_columns} columns, {n_parties} parties" in found.why
        return found.settings.method

    assert method(1000) == "noisy_max"
    assert method(10_000_000) == "histograms"
    assert method(10_000_000, n_columns=2000) == "propose"
    assert method(1000, epsilon="10000") == "histograms"
    assert "trusted with exact sums" in chosen(tree_job("auto", n_rows=1000), 10, 5).why
    with pytest.raises(SettingError, match="method='auto' chooses by the number of rows"):
        chosen(tree_job("auto"), 10, 5)


def test_a_tree_is_no_deeper_than_its_rows_are_good_for():
    assert useful_depth(250, 10) == 5
    assert useful_depth(1000, 10) == 7
    assert useful_depth(3, 10) == 1
    job = tree_job("noisy_max", max_depth=10, n_rows=250)
    assert chosen(job, 10, 5).settings.max_depth == 5
    assert chosen(replace(job, method="histograms"), 10, 5).settings.max_depth == 10
    assert chosen(replace(job, n_rows=None), 10, 5).settings.max_depth == 10


# --- a coordinator that asks in its own way -------------------------------------------------------


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
    with pytest.raises(PolicyError, match="not on the terms on which this party joined"):
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
            with pytest.raises(PolicyError, match="another tree of 1 levels"):
                party.answer(ask)
        else:
            party.answer(ask)
            answered += 1


def test_what_was_asked_cannot_be_denied_later():
    settings, _, party = party_of("save_budget", 5)
    public, digest = PublicTree.of(SCHEMA, settings, 3), SCHEMA.digest()
    root = TreeSoFar(settings, digest, 3, (), ())
    party.answer(BoundsAsk(root))
    party.answer(CellsAsk(root, np.ones((1, public.plan.n_columns), np.bool_)))
    level = halved(public, (), splits=True, opens=True)
    lie = TreeSoFar(settings, digest, 3, (level,), (np.ones(1, np.int64),))
    with pytest.raises(PolicyError, match="another choice of columns at level 0"):
        party.answer(BoundsAsk(lie))
