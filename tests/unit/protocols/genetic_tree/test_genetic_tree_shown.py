"""Evolved trees: what parties show, to whom, and what they refuse to show."""

from fractions import Fraction

import pytest

from spinney.errors import PolicyError, ProtocolError, SettingError
from spinney.privacy.budget import Unit
from spinney.privacy.ledger import Ledger
from spinney.protocols import genetic_tree
from spinney.protocols.accounts.account import claims_in
from spinney.protocols.genetic_tree.messages import (
    DepthAsk,
    EvolvingJob,
    ScoresAsk,
    VotesAsk,
)
from spinney.report.report import Report
from spinney.transport.in_process import InProcess
from unit.protocols.genetic_tree.evolved_parties import (  # type: ignore[import-not-found]
    masked,
    model_of,
    parties_of,
    settings,
)

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")


def test_only_structures_are_shown_party_by_party(tables, label):
    report = Report.of(model_of(tables, label))
    shown = [d.question for d in report.disclosures if "party by party" in d.seen_by]
    assert shown == ["Schema", "Structure"]
    votes = ["Votes"] if label == "amount" else []
    assert [d.question for d in report.disclosures] == [
        "Schema", "Depth", "Structure", *votes, "Scores", "Choice",
    ]  # fmt: skip
    words = "Not differentially private: no noise was added."
    assert any(line.split(maxsplit=1) == ["privacy", words] for line in str(report).splitlines())


def test_under_masks_a_party_answers_no_score_that_is_not_masked(tables, label):
    channel = masked(parties_of(tables, is_masked=True))
    evolved = genetic_tree.train(channel, settings(label))
    ask = ScoresAsk(evolved.job, evolved.depth, 0, channel.parties, False, evolved.genes)
    with pytest.raises(ProtocolError, match="only with masks"):
        channel.ask(ask)
    protection = {r.question: r.protection for r in channel.rounds}
    for summed in ("Depth", "Scores", "Choice"):
        assert protection[summed].startswith("masked")


def test_masks_over_one_active_party_hide_nothing_and_are_refused(tables, label):
    with pytest.raises(SettingError, match="asks 1 of the 4 parties at a time, but a secure sum"):
        genetic_tree.train(masked(parties_of(tables)), settings(label, participation=0.25))
    open_to_all = genetic_tree.train(
        InProcess(parties_of(tables)), settings(label, participation=0.25)
    )
    assert open_to_all.depth


def test_a_party_refuses_to_be_the_only_one_in_a_masked_sum(tables, label):
    channel = masked(parties_of(tables, is_masked=True))
    job = EvolvingJob(settings(label), tables["0"].schema.digest(), len(tables), None)
    genes = genetic_tree.train(InProcess(parties_of(tables)), settings(label)).genes
    depth = (genes.shape[1] + 1).bit_length() - 1
    alone = ("0",)
    for ask in (
        DepthAsk(job, alone),
        VotesAsk(job, depth, ("0", "0")),
        ScoresAsk(job, depth, 0, alone, False, genes),
    ):
        with pytest.raises(
            ProtocolError, match="A sum over one active party would show that party's own"
        ):
            channel.sum(ask)


# --- noisy sizes ---------------------------------------------------------------------------------


def test_a_noisy_size_is_paid_for_once(tables, label):
    ledgers = {name: Ledger.in_memory(name) for name in tables}
    parties = {
        name: genetic_tree.Party(table, name, n_jobs=1, ledger=ledgers[name])
        for name, table in tables.items()
    }
    evolved = genetic_tree.train(
        InProcess(parties), settings(label, size_epsilon="1/2", job="sizes")
    )
    ask = ScoresAsk(evolved.job, evolved.depth, 0, tuple(tables), False, evolved.genes)
    weights = [{int(p.answer(ask).sums[-1]) for _ in range(3)} for p in parties.values()]
    assert all(len(weight) == 1 for weight in weights)
    for ledger in ledgers.values():
        assert ledger.spent("sizes", Unit.RECORD_ADD_REMOVE) == Fraction(1, 2)


def test_noise_needs_a_ledger(tables, label):
    with pytest.raises(PolicyError, match="no ledger to pay from"):
        genetic_tree.train(InProcess(parties_of(tables)), settings(label, size_epsilon="1"))


def test_a_noisy_size_does_not_make_scores_private(tables, label):
    ledgers = {name: Ledger.in_memory(name) for name in tables}
    parties = {
        name: genetic_tree.Party(table, name, n_jobs=1, ledger=ledgers[name])
        for name, table in tables.items()
    }
    genetic_tree.train(InProcess(parties), settings(label, size_epsilon="1/2", job="sizes"))
    told = claims_in(ledgers["0"], "sizes")
    assert {claim.unit for claim in told} == {unit.value for unit in Unit}
    for claim in told:
        assert claim.verdict == "UNPROTECTED"
        assert "scores of structures, depths, votes and the party's own structure" in claim.text
