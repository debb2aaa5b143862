"""One flipped label: what leaves a party tells it no better than the ledger says."""

from typing import Any

import numpy as np
import pytest

from spinney.privacy.labels import bloom_filters
from spinney.privacy.ledger import Ledger
from spinney.protocols import extra_trees
from spinney.protocols.drawn_cuts import CutsAsk
from spinney.protocols.private_settings import PrivacySettings
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MatrixColumns, MemoryTable
from spinney.transport.in_process import InProcess
from statistical.audit import audit  # type: ignore[import-not-found]

pytestmark = pytest.mark.slow
SCHEMA = Schema((Column("x", "number", range=(0.0, 8.0)),), Label("y", "class", (0, 1)))
VALUES = np.arange(8.0)[:, None]


def counted(label, scheme, n_runs) -> Any:
    """Train on 8 rows, of which the last stands alone; return what is told of its side.

    The statistic is the likelihood's: reported class of the lone row, or its bits' agreement.
    """
    epsilon = None if scheme == "bloom" else "2"
    found = []
    for _ in range(n_runs):
        target = np.zeros(8, np.int32)
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
        total = told[0][:2].sum(axis=0)
        found.append(total[1] if scheme == "randomised_response" else agreement(total))
    return np.array(found)


def agreement(total):
    filters = bloom_filters(2)
    return int(total[1:] @ (filters[1] - filters[0]))


@pytest.mark.parametrize(("scheme", "claim"), [("randomised_response", 2.0), ("bloom", 8.788898)])
def test_one_flipped_label_stays_below_the_claim(scheme, claim):
    found = audit(
        lambda n: counted(0, scheme, n), lambda n: counted(1, scheme, n), 400, confidence=0.99
    )
    assert not found.refutes(claim)


def test_the_audit_would_notice_labels_that_are_not_randomised():
    found = audit(np.zeros, np.ones, 400)
    assert found.refutes(2.0)
