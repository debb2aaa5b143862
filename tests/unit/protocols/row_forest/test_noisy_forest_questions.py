"""A forest with noise on its histograms: which questions a party answers, and which not."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spinney.errors import (
    InternalError,
    PolicyError,
    ProtocolError,
    TableError,
)
from spinney.privacy import entropy
from spinney.privacy.claims import Verdict, claims
from spinney.privacy.ledger import Ledger
from spinney.privacy.ledger_store import Disclosed
from spinney.privacy.scopes import PARTY_TOTALS
from spinney.protocols import horizontal_forest
from spinney.protocols.accounts.account import (
    ExactJob,
    JoinAsk,
    PartyAccount,
)
from spinney.protocols.horizontal_forest.messages import LevelAsk
from spinney.protocols.horizontal_forest.party import Party
from spinney.protocols.row_forest.messages import LeafAsk, NoisyLevelAsk
from spinney.protocols.row_forest.noisy_rows import NoisyRows
from spinney.protocols.rows.quality import QualityAsk
from spinney.protocols.rows.setup import FactsAsk, SchemaAsk
from spinney.protocols.secure_sums.simulated import secure_parties
from spinney.transport import codec
from spinney.transport.in_process import InProcess
from unit.protocols.row_forest.noisy_forests import (  # type: ignore[import-not-found]
    RECORD,
    N,
    Noting,
    asked_of_one,
    dealt,
    exact_model,
    job,
    no_randomness,
    parties_of,
    renamed,
    table,
    trained,
)


def test_a_party_with_a_ledger_answers_no_exact_question():
    whole = table()
    asked: list[Any] = []
    exact = replace(job(), privacy=None)
    horizontal_forest.train(InProcess({"one": Noting(Party(whole), asked)}), exact)
    party = Party(whole, ledger=Ledger.in_memory("one"))
    for ask, _ in asked[1:]:
        with pytest.raises(PolicyError, match="answers only with noise"):
            party.answer(ask)
    with pytest.raises(PolicyError, match="answers only with noise"):  # nor under another name
        party.answer(FactsAsk(whole.schema.digest(), with_leading=False, terms=None))
    noisy = next(ask for ask, _ in asked_of_one(job())[0] if isinstance(ask, NoisyLevelAsk))
    with pytest.raises(PolicyError, match="answers only with noise"):
        party.answer(LevelAsk(noisy.job, (), 0, 1))


@pytest.mark.parametrize("honest", [None, 2])
def test_an_exact_job_stands_in_the_ledger_as_unprotected(honest):
    """The job is let on the ledger by name; before a reply leaves, the ledger says that it does."""
    whole = table()
    ledgers = {name: Ledger.in_memory(name) for name in dealt(whole, 3)}
    made: dict[str, Any] = {
        name: Party(part, ledger=ledgers[name], exact=ExactJob("open", 3, honest))
        for name, part in dealt(whole, 3).items()
    }
    settings = replace(job(), privacy=None)
    channel = secure_parties(made, InProcess, horizontal_forest.SUMMED, job="q") if honest else None
    model = horizontal_forest.train(channel or InProcess(made), settings).model
    assert model.to_bytes() == exact_model(settings, whole).to_bytes()
    for ledger in ledgers.values():
        found = {(claim.unit, claim.view.value): claim for claim in claims(ledger, "open")}
        record = found[RECORD, "reader"]
        assert (record.verdict, record.epsilon) == (Verdict.UNPROTECTED, None)
        assert "counts of rows, classes, missing values" in record.text
        assert "exact: the job adds no noise" in record.text
        assert "epsilon=" not in " ".join(claim.text for claim in found.values())
        totals = found[PARTY_TOTALS, "coordinator"]
        assert totals.verdict is (Verdict.HIDDEN if honest else Verdict.UNPROTECTED)
        told = [e.body.disclosure.what for e in ledger.entries() if isinstance(e.body, Disclosed)]
        assert sum("histograms of tree nodes" in what for what in told) == 2 * 3
        ledger.verify()


def test_an_exact_job_s_question_asked_again_is_written_down_once():
    whole = table()
    ledger = Ledger.in_memory("one")
    party = Party(whole, ledger=ledger, exact=ExactJob("open", 1))
    ask = FactsAsk(whole.schema.digest(), with_leading=False)
    for _ in range(3):
        party.answer(ask)
    assert len([e for e in ledger.entries() if isinstance(e.body, Disclosed)]) == 2


def test_a_party_without_a_ledger_answers_no_private_question():
    asked, _, whole = asked_of_one(job())
    for ask, _ in asked[1:]:
        with pytest.raises(PolicyError, match="no ledger to pay from"):
            Party(whole).answer(ask)


def test_bins_that_are_not_those_of_the_declared_ranges():
    asked, ledger, whole = asked_of_one(job())
    ask = next(ask for ask, _ in asked if isinstance(ask, NoisyLevelAsk))
    edges = tuple(e + 1 for e in ask.job.binning.edges)
    for binning in (
        replace(ask.job.binning, edges=edges),
        replace(ask.job.binning, has_missing=np.zeros(4, bool)),
    ):
        with pytest.raises(ProtocolError, match="do not follow from the declared ranges"):
            Party(whole, ledger=ledger).answer(replace(ask, job=replace(ask.job, binning=binning)))


def test_forests_that_do_not_fit_their_own_nodes(monkeypatch):
    asked, ledger, whole = asked_of_one(job(epsilon="100"))
    ask = [ask for ask, _ in asked if isinstance(ask, NoisyLevelAsk)][1]
    leaf = next(ask for ask, _ in asked if isinstance(ask, LeafAsk))
    (level,) = ask.levels
    bad = [
        {"feature": level.feature + 99},
        {"feature": level.feature[:1]},
        {"child_open": np.ones(98, bool)},
        {"child_bits": np.ones(98, np.uint8)},
        {"cut": level.cut[:1]},
        {"subset": level.subset + 1},
    ]
    before = ledger.entries()
    with no_randomness(monkeypatch):
        for changes in bad:
            broken = level.replaced(**changes)
            for question in (replace(ask, levels=(broken,)), replace(leaf, levels=(broken,))):
                with pytest.raises(ProtocolError, match="does not fit its open nodes"):
                    Party(whole, ledger=ledger).answer(question)
        for first, last in ((-1, 1), (0, 0), (0, 10**6), (2, 1)):
            with pytest.raises(ProtocolError, match=r"The question is about nodes .* the job has"):
                Party(whole, ledger=ledger).answer(replace(ask, first=first, last=last))
    assert ledger.entries() == before


def test_a_level_beyond_the_last_and_leaves_that_nobody_paid_for():
    asked, ledger, whole = asked_of_one(job(epsilon_per_count="10"))
    levels = [ask for ask, _ in asked if isinstance(ask, NoisyLevelAsk)]
    deepest = levels[-1]
    shallow = replace(deepest.job.settings, max_depth=2)
    beyond = replace(deepest, job=replace(deepest.job, settings=shallow))
    with pytest.raises(ProtocolError, match="level 2; the job has 2 levels"):
        Party(whole, ledger=ledger).answer(beyond)
    with pytest.raises(ProtocolError, match="does not pay for a second count"):
        Party(whole, ledger=ledger).answer(LeafAsk(deepest.job, deepest.levels))


def test_a_table_that_changes_while_the_job_runs():
    whole = table()
    ledger = Ledger.in_memory("one")
    asked: list[Any] = []
    party = Party(whole, ledger=ledger, data="wards")
    horizontal_forest.train(InProcess({"one": Noting(party, asked)}), job())
    fewer = Party(whole.select(np.arange(N - 1)), ledger=ledger, data="wards")
    level = next(ask for ask, _ in asked if isinstance(ask, NoisyLevelAsk))
    assert codec.encode(fewer.answer(level))  # answered before, so nothing is read
    horizontal_forest.train(
        InProcess({"one": party}), renamed(job(epsilon_per_count="1", tree_rows="sampled"), "r")
    )
    changed = replace(
        level,
        job=replace(
            level.job, settings=renamed(job(epsilon_per_count="1", tree_rows="sampled"), "r")
        ),
        last=1,
    )
    with pytest.raises(TableError, match="The table changed while the job was running"):
        fewer.answer(changed)


def test_a_question_that_is_not_private_and_not_exact():
    class Odd(QualityAsk.__mro__[1]):  # type: ignore[misc,name-defined]
        reveals = "nothing"

    with pytest.raises(ProtocolError, match="does not answer Odd"):
        Party(table(), ledger=Ledger.in_memory("one")).answer(Odd())


def test_rows_with_noise_are_not_asked_for_anything_else():
    with pytest.raises(InternalError, match="is not answered with noise"):
        NoisyRows(table(), PartyAccount(Ledger.in_memory("one"), table()), 1).answer(SchemaAsk())


def test_joining_without_privacy_settings():
    whole = table()
    with pytest.raises(ProtocolError, match="nothing to join"):
        Party(whole, ledger=Ledger.in_memory("one")).answer(
            JoinAsk(replace(job(), privacy=None), whole.schema.digest(), 1)
        )


def test_a_reply_of_another_size_than_was_asked_for():
    class Short:
        def __init__(self, party):
            self.party = party

        def answer(self, ask):
            reply = self.party.answer(ask)
            return (
                replace(reply, counters=reply.counters[:-1])
                if isinstance(ask, NoisyLevelAsk)
                else reply
            )

    made, _ = parties_of(table(), 1)
    with pytest.raises(ProtocolError, match="do not have the cells asked for"):
        horizontal_forest.train(InProcess({"0": Short(made["0"])}), job())


def test_seeded_noise_is_reported_as_not_private():
    with entropy.seeded_for_tests(1), warnings.catch_warnings():
        training, _ = trained(job(), table())
    assert {claim.verdict for claim in training.claims if claim.unit == RECORD.value} == {
        "UNPROTECTED"
    }
