"""Whole trees with noise on their histograms stand their audit."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.signal import fftconvolve

from spinney.privacy import samplers
from spinney.privacy.ledger import Ledger
from spinney.protocols import horizontal_forest
from spinney.protocols.horizontal_forest.party import Party
from spinney.protocols.row_forest.messages import noisy_job, plan_of
from spinney.protocols.secure_sums.simulated import secure_parties
from spinney.tables.table import MemoryTable
from spinney.transport.in_process import InProcess
from statistical.audit import audit  # type: ignore[import-not-found]
from statistical.tree_evidence import (  # type: ignore[import-not-found]
    SCHEMA,
    Noting,
    audited,
    evidence,
    job,
    released,
    shallow,
    table,
)

pytestmark = pytest.mark.usefixtures("seeded")


@pytest.mark.parametrize("epsilon", ["1/2", "2", "4"])
def test_a_whole_tree_keeps_its_claim(epsilon):
    found = audited(job(Fraction(epsilon)))
    claim = float(Fraction(epsilon))
    assert not found.refutes(claim), found
    if claim >= 2:  # with less noise the audit does see what is released
        assert found.epsilon > 0.4 * claim, found


@pytest.mark.slow  # many thousand draws: six seconds
def test_a_tree_of_few_draws_keeps_its_claim_tightly():
    found = audited(shallow(Fraction(1, 2), 6000))
    assert not found.refutes(0.5), found
    assert found.epsilon > 0.25, found


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "seen"), [("1/5", 0.02), ("1/2", 0.25)])
def test_many_unseeded_trees_of_few_draws_keep_their_claim_tightly(epsilon, seen):
    found = audited(shallow(Fraction(epsilon), 20_000), confidence=0.9999)
    assert not found.refutes(float(Fraction(epsilon))), found
    assert found.epsilon > seen, found


def test_amplified_trees_keep_their_smaller_claim():
    """A tree on half the rows may spend more; against all rows it must still keep to its part."""
    settings = job(Fraction(2), 600, tree_rows="sampled", sample_rate="1/2")
    assert plan_of(noisy_job(SCHEMA, settings, 1)).tree_epsilon > Fraction(5, 2)
    found = audited(settings, rate=0.5)
    assert not found.refutes(2.0), found


def disjoint_runs(n: int) -> tuple[Any, Any]:
    """Return runs of two trees on disjoint rows: the better evidence of the two."""
    settings = job(Fraction(2), 2, tree_rows="disjoint")

    def trials(rows: MemoryTable) -> Any:
        return lambda _: np.array(
            [evidence(released(settings, rows), rate=0.5).max() for _ in range(n)]
        )

    return trials(table(canary=False)), trials(table(canary=True))


def test_trees_on_disjoint_rows_keep_the_claim_together():
    found = audit(*disjoint_runs(60), 60)
    assert not found.refutes(2.0), found


@pytest.mark.slow
def test_trees_on_disjoint_rows_keep_the_claim_in_many_runs():
    found = audit(*disjoint_runs(3000), 3000, confidence=0.999)
    assert not found.refutes(2.0), found


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", ["1", "3"])
def test_many_unseeded_trees_do_not_refute_the_claim(epsilon):
    found = audited(job(Fraction(epsilon), 20_000))
    claim = float(Fraction(epsilon))
    assert not found.refutes(claim), found
    assert found.epsilon > 0.3 * claim, found


# --- noise in shares, against the coordinator and a curious party ---------------------------------


def shared(settings: Any, rows: MemoryTable) -> Any:
    """Return what the coordinator and the third party know: the sum, less the third's own."""
    others = table(canary=False, n=6)
    empty = others.select(np.zeros(0, np.intp))
    tables = {"a": rows, "b": empty, "c": empty}
    parties: dict[str, Any] = {
        name: Noting(Party(own, ledger=Ledger.in_memory(name))) for name, own in tables.items()
    }
    channel = secure_parties(parties, InProcess, horizontal_forest.SUMMED, job="q", min_survivors=3)
    horizontal_forest.train(channel, settings)
    pairs = zip(parties["a"].released, parties["b"].released, strict=True)
    return [(ask, one + two) for (ask, one), (_, two) in pairs]


def test_shares_keep_the_claim_against_the_coordinator_and_one_party():
    found = audited(job(Fraction(2), 600, in_shares=True), shared)
    assert not found.refutes(2.0), found
    assert found.epsilon > 0.5, found


def two_of_three(decay: Any) -> Any:
    """Return the log-law of two shares of a noise that takes three: NB(2/3) - NB(2/3)."""
    decays = np.unique(decay)
    top = int(60 / decays[0])
    k = np.arange(1, top)
    logs = []
    for one in decays:
        steps = np.exp(-one) * (k - 1 + 2 / 3) / k
        one_sided = (1 - np.exp(-one)) ** (2 / 3) * np.r_[1.0, np.cumprod(steps)]
        logs.append(np.log(fftconvolve(one_sided, one_sided[::-1]).clip(1e-300)))
    which = np.searchsorted(decays, decay)
    return lambda noise: np.array(logs)[which, np.round(noise).astype(int) + top - 1]


@pytest.mark.slow  # many thousand draws: six seconds
def test_missing_shares_are_caught(monkeypatch):
    """Noise drawn as if all three were honest (t=3), while one of them subtracts its share.

    What two know of NB(1/3) shares is short of the noise promised (PRIVACY A.3, item 9).
    """
    right = samplers.shares
    monkeypatch.setattr(samplers, "shares", lambda decay, _, n: right(decay, 3, n))
    found = audited(shallow(Fraction(1), 8000, in_shares=True), shared, law=two_of_three)
    assert found.refutes(1.0), found
    assert found.epsilon > 1.1, found


@pytest.mark.slow  # many thousand draws: six seconds
def test_where_no_share_is_missing_the_claim_is_kept_tightly():
    found = audited(shallow(Fraction(1), 2000, in_shares=True), shared)
    assert not found.refutes(1.0), found
    assert found.epsilon > 0.6, found
