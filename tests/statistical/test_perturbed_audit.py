"""Perturbed rows stand their audit, and a label left as it is does not."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from spinney.privacy.budget import Unit
from spinney.privacy.ledger import Ledger
from spinney.privacy.mechanisms import DiscreteLaplace, RandomisedResponse
from spinney.protocols.accounts.account import PartyAccount
from spinney.protocols.row_forest.perturbed_input import (
    InputPlan,
    _codes,
    perturb_table,
)
from spinney.protocols.settings import PrivacySettings
from spinney.tables.columns import VectorColumns
from spinney.tables.table import MemoryTable
from statistical.audit import audit  # type: ignore[import-not-found]
from statistical.tree_evidence import (  # type: ignore[import-not-found]
    SCHEMA,
)

pytestmark = pytest.mark.usefixtures("seeded")


RECORDS = ((3.0, 0.0, 0), (98.0, 1.0, 1))  # as unlike as two records can be


def copies(record: Any, n: int) -> MemoryTable:
    age, ward, ill = (np.full(n, value) for value in record)
    columns = VectorColumns((age.astype(np.float32), ward.astype(np.float32)))
    return MemoryTable(SCHEMA, columns, ill.astype(np.int32))


def perturbed_evidence(record: Any, epsilon: Fraction, n: int) -> Any:
    """Return for each of n perturbed copies of a record the ratio for one record or the other."""
    rows = copies(record, n)
    privacy = PrivacySettings(job="q", mechanism="perturbed_input", epsilon=str(epsilon))
    plan, ledger = InputPlan(SCHEMA, privacy, 1), Ledger.in_memory("one")
    account = PartyAccount(ledger, rows)
    account.join(plan)
    seen = _codes(perturb_table(rows, plan, account))
    assert ledger.spent("q", Unit.RECORD_REPLACE) == epsilon
    first, second = (_codes(copies(other, 1)) for other in RECORDS)
    ratio = np.zeros(n)
    for noise, codes, one, two in zip(plan.noises, seen, first, second, strict=True):
        ratio += _log_ratio(noise, codes, int(one[0]), int(two[0]))
    return np.round(ratio, 9)


def _log_ratio(noise: Any, codes: Any, one: int, two: int) -> Any:
    if isinstance(noise, RandomisedResponse):
        return float(noise.epsilon) * ((codes == one).astype(float) - (codes == two))
    assert isinstance(noise, DiscreteLaplace)
    decay, top = float(noise.decay), 4095
    alpha = np.exp(-decay)

    def log_chance(true: int) -> Any:  # the ends hold all that was cut off there
        low, high = -decay * true, -decay * (top - true)
        inner = np.log1p(-alpha) - decay * np.abs(codes - true)
        return np.where(codes == 0, low, np.where(codes == top, high, inner))

    return log_chance(one) - log_chance(two)


@pytest.mark.parametrize("epsilon", ["1", "3"])
def test_a_perturbed_record_keeps_its_claim(epsilon):
    share = Fraction(epsilon)
    found = audit(*(lambda n, r=r: perturbed_evidence(r, share, n) for r in RECORDS), 60_000)
    assert not found.refutes(float(share)), found
    assert found.epsilon > 0.5 * float(share), found


def test_a_label_left_as_it_is_would_be_caught(monkeypatch):
    """As in S1's own code, which perturbs features only."""
    right = RandomisedResponse._randomised
    monkeypatch.setattr(
        RandomisedResponse,
        "_randomised",
        lambda self, values: values if self.n_categories == 2 else right(self, values),
    )
    found = audit(*(lambda n, r=r: perturbed_evidence(r, Fraction(1), n) for r in RECORDS), 20_000)
    assert found.refutes(1.0), found
