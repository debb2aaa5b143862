"""Private trees and forests: questions and replies that fit, and those that are refused."""

import logging
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from spinney.errors import PolicyError, ProtocolError, SchemaError
from spinney.protocols import private_forest, private_tree
from spinney.protocols.private_forest.budget import bins_of
from spinney.protocols.private_forest.messages import ForestJoinAsk, RandomLeavesAsk
from spinney.protocols.private_tree.messages import (
    BoundsAsk,
    CellsAsk,
    ProposalsAsk,
    SidesAsk,
    TreeJoinAsk,
    TreeLeavesAsk,
    TreeSoFar,
    TrustedCellsAsk,
)
from spinney.tables.columns import MatrixColumns
from spinney.tables.table import MemoryTable
from spinney.transport.in_process import InProcess
from spinney.trees.public_trees import random_levels
from unit.protocols.private_tree.private_trees import (  # type: ignore[import-not-found]
    METHODS,
    SCHEMA,
    Run,
    joined,
    one_level,
    paid,
    rows,
    tree_job,
    vars_of,
)


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
    (field,) = fields(first)
    name = field.name
    assert np.array_equal(getattr(first, name), getattr(again, name))
    assert run.spent() == spent


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
    deeper = TreeSoFar(**(vars_of(tree) | {"levels": (one_level(run.settings),)}))
    with pytest.raises(ProtocolError, match="the tree has 1 levels"):
        party.answer(CellsAsk(deeper, np.ones((2, 4), np.bool_)))


def test_another_job_s_terms_and_another_schema_are_refused():
    run, party, _ = joined("histograms")
    other = replace(run.settings, privacy=replace(run.settings.privacy, epsilon="5"))
    ask = CellsAsk(TreeSoFar(other, SCHEMA.digest(), 1, (), ()), np.ones((1, 4), np.bool_))
    with pytest.raises(PolicyError, match="does not match the terms"):
        party.answer(ask)
    with pytest.raises(SchemaError, match="schema differs"):
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
    join: Any = TreeJoinAsk if protocol is private_tree else ForestJoinAsk
    with pytest.raises(PolicyError, match="has no ledger to pay from"):
        party.answer(join(settings, SCHEMA.digest(), 1))


@pytest.mark.parametrize("protocol", [private_tree, private_forest])
def test_values_outside_their_range_count_as_its_ends_and_only_the_party_is_told(caplog, protocol):
    settings: Any = (
        tree_job("histograms", "1000000")
        if protocol is private_tree
        else private_forest.Settings(privacy=paid("1000000"), seed=1)
    )
    table, models = rows(), []
    for beyond in (1e6, 100.0):
        values = table.columns.values(slice(None)).T.copy()
        values[:7, 0] = beyond
        held = MemoryTable(SCHEMA, MatrixColumns(values), table.target)
        with caplog.at_level(logging.WARNING, "spinney.party"):
            models.append(Run(protocol, settings, 1, held).train().model)
    (record,) = caplog.records
    assert "Column 'age': 7 values lie outside the declared range" in record.getMessage()
    assert models[0].to_bytes() == models[1].to_bytes()


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
    party.answer(ForestJoinAsk(*facts))
    columns = bins_of(SCHEMA).columns
    shallow = random_levels(columns, 2, 1, np.random.default_rng(0))
    with pytest.raises(ProtocolError, match="not complete trees of depth 2"):
        party.answer(RandomLeavesAsk(*facts, shallow))
    assert run.spent() == {0}


def test_replies_that_do_not_fit_end_the_job():
    class Short:
        def __init__(self, party):
            self._party = party

        def answer(self, ask):
            reply = self._party.answer(ask)
            names = {field.name for field in fields(reply)} & {"counters", "cuts"}
            return replace(reply, **{n: getattr(reply, n)[:-1] for n in names}) if names else reply

    for method in METHODS:
        run = Run(private_tree, tree_job(method), n_parties=1)
        run.channel = InProcess({name: Short(party) for name, party in run.parties.items()})
        with pytest.raises(ProtocolError):
            run.train()
    settings = private_forest.Settings(privacy=paid(), n_estimators=2, max_depth=2)
    run = Run(private_forest, settings, n_parties=1)
    run.channel = InProcess({name: Short(party) for name, party in run.parties.items()})
    with pytest.raises(ProtocolError, match="do not match the leaves asked about"):
        run.train()
