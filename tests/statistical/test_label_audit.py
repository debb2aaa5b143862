"""One flipped label: what leaves a party tells it no better than the ledger says."""

from typing import Any

import numpy as np
import pytest

from spinney.privacy.labels import bloom_filters
from spinney.privacy.ledger import Ledger
from spinney.protocols import extra_trees
from spinney.protocols.extra_trees.messages import CutsAsk
from spinney.protocols.settings import PrivacySettings
from spinney.tables.columns import MatrixColumns
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MemoryTable
from spinney.transport.in_process import InProcess
from statistical.audit import audit  # type: ignore[import-not-found]

pytestmark = pytest.mark.slow
SCHEMA = Schema((Column("x", "number", range=(0.0, 8.0)),), Label("y", "class", (0, 1)))
VALUES = np.r_[np.zeros(39), 8.0][:, None]  # whatever the cut, the last row stands alone


def counted(label, scheme, n_runs) -> Any:
    """Train on rows of which the last has this label; return what is told of its side.

    The statistic is the likelihood's: the lone row's reported class, or its bits' agreement.
    """
    epsilon = None if scheme == "bloom" else "2"
    found = []
    for _ in range(n_runs):
        target = (np.arange(40) % 2).astype(np.int32)
        target[-1] = label
        told: list[Any] = []

        class Overheard(extra_trees.Party):
            def answer(self, ask, told=told):
                reply = super().answer(ask)
                if isinstance(ask, CutsAsk):
                    told.append(reply.counts.counters)
                return reply

        privacy = PrivacySettings(
            job="q", mechanism="randomised_labels", label_scheme=scheme, epsilon=epsilon
        )
        settings = extra_trees.Settings(
            task="classification",
            n_estimators=1,
            max_depth=1,
            bootstrap=False,
            binning="ranges",
            thresholds="public",
            privacy=privacy,
            seed=1,
        )
        table = MemoryTable(SCHEMA, MatrixColumns(VALUES), target)
        party = Overheard(table, ledger=Ledger.in_memory("n"))
        extra_trees.train(InProcess({"n": party}), settings)
        alone = told[0][1]  # the right side of the first cut
        found.append(alone[1] if scheme == "randomised_response" else agreement(alone, scheme))
    return np.array(found)


def agreement(alone, scheme):
    filters = bloom_filters(2) if scheme == "bloom" else np.eye(2)
    return int(alone[1:] @ (filters[1] - filters[0]))


@pytest.mark.parametrize(
    ("scheme", "claim"), [("randomised_response", 2.0), ("unary", 2.0), ("bloom", 8.788898)]
)
def test_one_flipped_label_stays_below_the_claim(scheme, claim):
    found = audit(
        lambda n: counted(0, scheme, n), lambda n: counted(1, scheme, n), 1500, confidence=0.99
    )
    assert not found.refutes(claim)
    assert found.refutes(claim / 8)  # the audit sees what there is to see


def test_the_audit_would_notice_labels_that_are_not_randomised():
    found = audit(np.zeros, np.ones, 400)
    assert found.refutes(2.0)
