"""A whole private tree stands its audit, and the same audit catches planted faults.

The real release path runs: a party with a ledger, a channel, the coordinator's loop. Trees on all
rows are independent runs of the same mechanism, so that one job of N trees is N runs, each with the
claim of one tree. The neighbours are a small table and the same table with one record more, which
stands alone in its bins. The statistic knows everything but the noise: the log-likelihood ratio of
all that was released about a tree.

What an audit can see depends on how often a run shows the worst. A tree of two levels and two slots
has its epsilon spread over five draws, of which all must fall the same way; with a thousand trees
that is seen from epsilon 2 on. A tree of one level and one slot has two draws: there the claim is
tight, and the audit comes near it from epsilon 1/5 on, with more trees (`shallow`).
"""

from dataclasses import replace
from fractions import Fraction
from math import log
from typing import Any

import numpy as np
import pytest
from scipy.signal import fftconvolve

from spinney.errors import BudgetError
from spinney.privacy import entropy, samplers
from spinney.privacy.budget import Unit
from spinney.privacy.ledger import Ledger
from spinney.privacy.mechanisms import DiscreteLaplace, RandomisedResponse
from spinney.privacy.release import _LEDGER_TOKEN, Charge
from spinney.protocols import horizontal_forest
from spinney.protocols.growing import PartyRows
from spinney.protocols.horizontal_forest import Party
from spinney.protocols.noisy_histograms import LeafAsk, NoisyLevelAsk, NoisyRows, noisy_job, plan_of
from spinney.protocols.paying import Purse
from spinney.protocols.perturbed_input import InputPlan, _codes, perturbed
from spinney.protocols.private_settings import PrivacySettings
from spinney.protocols.secure_sums import secured
from spinney.tables.columns import VectorColumns
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MemoryTable
from spinney.transport.in_process import InProcess
from spinney.trees.histogram import level_counts
from statistical.audit import audit  # type: ignore[import-not-found]

N = 1200  # trees
SCHEMA = Schema(
    (Column("age", "number", (0, 100)), Column("ward", "category", categories=("eye", "heart"))),
    Label("ill", "class", ("no", "yes")),
)


@pytest.fixture(autouse=True)
def seeded(request):
    """Fixed noise: an audit at 95 % may by right refute a tight claim in one run of twenty."""
    if request.node.get_closest_marker("slow"):
        yield
    else:
        with entropy.seeded_for_tests(sum(map(ord, request.node.name))):
            yield


def table(*, canary: bool, n: int = 12) -> MemoryTable:
    """Return a few rows; the canary is old, in a ward of its own, and ill."""
    age = np.r_[np.linspace(1, 40, n), [99.0] * canary].astype(np.float32)
    ward = np.r_[np.zeros(n), [1.0] * canary].astype(np.float32)
    ill = np.r_[np.arange(n) % 2, [1] * canary].astype(np.int32)
    return MemoryTable(SCHEMA, VectorColumns((age, ward)), ill)


def job(epsilon_of_tree: Fraction, n_trees: int = N, **privacy: Any) -> horizontal_forest.Settings:
    total = epsilon_of_tree * (1 if privacy.get("tree_rows") == "disjoint" else n_trees)
    return horizontal_forest.Settings(
        task="classification",
        n_estimators=n_trees,
        max_depth=2,
        max_features=2,
        max_bins=8,
        binning="ranges",
        bootstrap=False,
        seed=1,
        privacy=PrivacySettings(
            job="q", epsilon=str(total), **{"tree_rows": "all", "leaf_share": "1/3"} | privacy
        ),
    )


class Noting:
    """A party of which everything it releases is noted."""

    def __init__(self, party: Any) -> None:
        self.party, self.released = party, []  # type: ignore[var-annotated]

    def answer(self, ask: Any) -> Any:
        reply = self.party.answer(ask)
        if isinstance(ask, NoisyLevelAsk | LeafAsk):
            values = reply.counters.values if hasattr(reply.counters, "values") else reply.counters
            self.released.append((ask, np.array(values)))
        return reply


def released(settings: Any, rows: MemoryTable, party_type: type[Party] = Party) -> Any:
    """Grow the forest and return all that left the party."""
    party = Noting(party_type(rows, ledger=Ledger.in_memory("one")))
    horizontal_forest.train(InProcess({"one": party}), settings)
    return party.released


def laplace(decay: Any) -> Any:
    """Return the log-law of the noise as it is claimed, but for a constant."""
    return lambda noise: -decay * np.abs(noise)


def exact_counts(ask: Any, rows: MemoryTable) -> Any:
    """Return what the release would be without noise if every tree read all rows."""
    settings = ask.job.settings
    everything = replace(settings, privacy=replace(settings.privacy, tree_rows="all"))
    ask = replace(ask, job=replace(ask.job, settings=everything))
    if isinstance(ask, LeafAsk):
        return NoisyRows(rows, None, 1)._leaf_counts(ask).ravel()  # type: ignore[arg-type]
    own = PartyRows(rows, 1)
    counted = (own.binned(ask.job), ask.frontier.columns, own.standing(ask), ask.slots)
    counts = level_counts(*counted, (ask.first, ask.last), n_classes=2, n_threads=1)
    return counts.counters.ravel().astype(np.int64)


def evidence(transcript: Any, rate: float = 1.0, law: Any = laplace) -> Any:
    """Return each tree's log-likelihood ratio for the canary, of all that was released.

    `rate` is how many of the other rows a tree reads; at 1 nothing but the noise is unknown. `law`
    is the noise's, by its decay, as the curious know it.
    """
    others = table(canary=False)
    canary = table(canary=True).select(np.array([others.n_rows]))
    ratio: Any = 0.0
    exact: dict[int, Any] = {}  # a question may have been asked more than once
    for ask, values in transcript:
        plan = plan_of(ask.job)
        if id(ask) not in exact:
            exact[id(ask)] = rate * exact_counts(ask, others), exact_counts(ask, canary)
        if isinstance(ask, LeafAsk):
            tree = np.repeat(ask.tree_of_leaf, 2)
            noises = [plan.mechanisms(plan.leaf_epsilon(n), 1)[0] for n in ask.levels_of_tree]
            decay: Any = np.array([float(noise.decay) for noise in noises])[tree]
        else:
            here = ask.frontier.tree[ask.first : ask.last]
            tree = np.repeat(here, 2 * ask.slots.cells.sum(axis=1))
            decay = float(plan.mechanisms(plan.level_epsilon, plan.n_slots)[0].decay)
        without, more = exact[id(ask)]
        log_law = law(decay)
        away = log_law(values - without - more) - log_law(values - without)
        ratio = ratio + np.bincount(tree, away, ask.job.settings.n_estimators)
    return np.round(ratio, 9)  # equal ratios are one event


def audited(
    settings: Any,
    run: Any = released,
    rate: float = 1.0,
    law: Any = laplace,
    confidence: float = 0.95,
) -> Any:
    """Audit trees: run on both neighbours, gather evidence, bound epsilon from below."""

    def statistics(rows: MemoryTable) -> Any:
        return lambda _: evidence(run(settings, rows), rate, law)

    neighbours = (table(canary=canary) for canary in (False, True))
    return audit(*map(statistics, neighbours), settings.n_estimators, confidence=confidence)


# --- claims that hold ----------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", ["1/2", "2", "4"])
def test_a_whole_tree_keeps_its_claim(epsilon):
    found = audited(job(Fraction(epsilon)))
    claim = float(Fraction(epsilon))
    assert not found.refutes(claim), found
    if claim >= 2:  # with less noise the audit does see what is released
        assert found.epsilon > 0.4 * claim, found


def shallow(epsilon: Fraction, n_trees: int, **privacy: Any) -> horizontal_forest.Settings:
    """Return trees whose epsilon is in two draws."""
    return replace(job(epsilon, n_trees, **privacy), max_depth=1, max_features=1)


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
    channel = secured(parties, InProcess, horizontal_forest.SUMMED, job="q", min_survivors=3)
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


def test_missing_shares_are_caught(monkeypatch):
    """Noise drawn as if all three were honest (t=3), while one of them subtracts its share.

    What two know of NB(1/3) shares is short of the noise promised (PRIVACY A.3, item 9).
    """
    right = samplers.shares
    monkeypatch.setattr(samplers, "shares", lambda decay, _, n: right(decay, 3, n))
    found = audited(shallow(Fraction(1), 2000, in_shares=True), shared, law=two_of_three)
    assert found.refutes(1.0), found
    assert found.epsilon > 1.1, found


def test_where_no_share_is_missing_the_claim_is_kept_tightly():
    found = audited(shallow(Fraction(1), 2000, in_shares=True), shared)
    assert not found.refutes(1.0), found
    assert found.epsilon > 0.6, found


# --- planted faults ------------------------------------------------------------------------------


def test_equation_6_of_s1_is_caught(monkeypatch):
    """S1 takes epsilon for alpha, so that the smaller it is, the less noise there is."""
    right = samplers.shares

    def published(decay: Fraction, honest: int, n: int) -> Any:
        return right(Fraction(-log(decay)).limit_denominator(10**6), honest, n)

    monkeypatch.setattr(samplers, "shares", published)
    found = audited(job(Fraction(1, 2)))
    assert found.refutes(0.5), found
    assert found.epsilon > 2, found


def ask_again(transcript: Any, party: Any, times: int, changed: Any = None) -> Any:
    """Return the transcript with the first question asked again and again."""
    ask = transcript[0][0]
    question = changed(ask) if changed else ask
    return transcript + [
        (question, np.array(party.answer(question).counters)) for _ in range(times)
    ]


class FreshOnRetry(Party):
    """A party whose ledger forgets its replies: it draws again, and does not pay again."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        ledger: Any = named["ledger"]
        paid: dict[Any, Any] = {}

        def answer(question: Any, spends: Any, draw: Any, disclosures: Any = ()) -> bytes:
            if question not in paid:
                paid[question] = ledger.reserve(question, spends, disclosures)
            unspent = [_unspent(charge) for charge in paid[question]]
            reply: bytes = draw(tuple(unspent))
            return reply

        ledger.answer = answer


def _unspent(charge: Charge) -> Charge:
    facts = {"cost": charge.cost, "entry": charge.entry, "reason": charge.reason}
    return Charge._issued_by(_LEDGER_TOKEN, **facts)  # type: ignore[arg-type]


def asked_often(party_type: type[Party]) -> Any:
    def run(settings: Any, rows: MemoryTable) -> Any:
        party = Noting(party_type(rows, ledger=Ledger.in_memory("one")))
        horizontal_forest.train(InProcess({"one": party}), settings)
        return ask_again(party.released, party.party, 60)

    return run


def test_a_fresh_draw_on_retry_is_caught():
    found = audited(job(Fraction(1, 2)), asked_often(FreshOnRetry))
    assert found.refutes(0.5), found
    assert found.epsilon > 0.8, found


def test_the_stored_reply_to_a_repeated_question_gives_nothing_more_away():
    transcript = asked_often(Party)(job(Fraction(1, 2), 50), table(canary=True))
    first = transcript[0][1]
    assert len(transcript) > 60
    assert all(np.array_equal(values, first) for _, values in transcript[-60:])


class SkipsTheCharge(Party):
    """A party that draws for any question, whether its ledger would pay for it or not."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        ledger: Any = named["ledger"]

        def answer(question: Any, spends: Any, draw: Any, disclosures: Any = ()) -> bytes:
            charges = [
                Charge._issued_by(_LEDGER_TOKEN, cost=s.mechanism.cost(), entry="", reason=s.what)
                for s in spends
            ]
            reply: bytes = draw(tuple(charges))
            return reply

        ledger.answer = answer


def one_tree_less(ask: Any) -> Any:
    """Return a question like the first that was never asked before, and so must be paid for."""
    return replace(ask, last=ask.last - 1)


def test_a_skipped_charge_is_caught():
    def run(settings: Any, rows: MemoryTable) -> Any:
        party = Noting(SkipsTheCharge(rows, ledger=Ledger.in_memory("one")))
        horizontal_forest.train(InProcess({"one": party}), settings)
        return ask_again(party.released, party.party, 60, one_tree_less)

    found = audited(job(Fraction(1, 2)), run)
    assert found.refutes(0.5), found


def test_a_charge_cannot_be_skipped_on_the_real_path():
    party = Noting(Party(table(canary=True), ledger=Ledger.in_memory("one")))
    horizontal_forest.train(InProcess({"one": party}), job(Fraction(1, 2), 50))
    with pytest.raises(BudgetError, match="Nothing was released"):
        ask_again(party.released, party.party, 1, one_tree_less)


def test_half_the_slots_forgotten_in_the_sensitivity_is_caught(monkeypatch):
    """The noise of one count in place of the noise of all that a record is in."""
    right = samplers.shares
    monkeypatch.setattr(samplers, "shares", lambda decay, t, n: right(4 * decay, t, n))
    found = audited(job(Fraction(2)))
    assert found.refutes(2.0), found


# --- rows with noise -----------------------------------------------------------------------------

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
    purse = Purse(ledger, rows)
    purse.join(plan)
    seen = _codes(perturbed(rows, plan, purse))
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
