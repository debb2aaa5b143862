"""Tables, jobs and parties of private trees and forests, for tests."""

from typing import Any

import numpy as np
import pytest

from spinney.privacy.budget import Unit
from spinney.privacy.ledger import Ledger
from spinney.protocols import private_tree
from spinney.protocols.private_tree.messages import (
    PublicTree,
    TreeJoinAsk,
    TreeSoFar,
)
from spinney.protocols.secure_sums.simulated import secure_parties
from spinney.protocols.settings import PrivacySettings
from spinney.tables.columns import MatrixColumns
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MemoryTable
from spinney.transport.in_process import InProcess
from spinney.trees.public_trees import random_levels

METHODS = ("distilled", "histograms", "save_budget", "propose", "noisy_max")
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
each_by_levels = pytest.mark.parametrize("method", METHODS[1:])  # they grow level by level


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
            self.channel = secure_parties(self.parties, InProcess, protocol.SUMMED, **how)
        else:
            self.channel = InProcess(self.parties, through_codec=True)
        self.protocol = protocol

    def train(self):
        return self.protocol.train(self.channel, self.settings)

    def spent(self):
        job = self.settings.privacy.job
        return {ledger.spent(job, Unit.RECORD_ADD_REMOVE) for ledger in self.ledgers.values()}


def one_level(settings, seed=0):
    """Return a level that splits the root at random, with open children."""
    columns = PublicTree.of(SCHEMA, settings, 1).binning.columns
    (level,) = random_levels(columns, 1, 1, np.random.default_rng(seed))
    return level.replaced(
        child_open=np.ones(2, np.bool_),
        child_bits=np.ones(2, np.uint8),
        child_derived=np.zeros(2, np.bool_),
        child_lines=np.ones(2, np.uint16),
    )


def joined(method, **more):
    run = Run(private_tree, tree_job(method, **more), n_parties=1)
    party = next(iter(run.parties.values()))
    party.answer(TreeJoinAsk(run.settings, SCHEMA.digest(), 1))
    return run, party, TreeSoFar(run.settings, SCHEMA.digest(), 1, (), ())


def vars_of(tree):
    names = ("settings", "schema_digest", "n_parties", "levels", "asked")
    return {name: getattr(tree, name) for name in names}
