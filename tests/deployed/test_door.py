"""The one door of a deployed job: what parties and lead are handed is hardened, and recorded."""

import json
from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from typing import Any

import msgspec
import numpy as np
import pytest

from deployed.handmade import (  # type: ignore[import-not-found]
    CLINICS,
    Sites,
    agreed_job,
    attempt_of,
    clinics_in,
    coordinator_in,
    write_party,
)
from spinney import load_report
from spinney.cli.ledgers import describe_ledger
from spinney.deployment.coordinator.hand_out import HandOut
from spinney.deployment.coordinator.process import Run
from spinney.deployment.job import Agreed
from spinney.deployment.party.config import load_party
from spinney.deployment.party.guard import RunRecord
from spinney.deployment.party.leaving import LeavingModel
from spinney.deployment.party.tables import open_ledger
from spinney.deployment.questions import RELEASED, DerivedAsk, ModelAsk, TermsAsk, TermsReply
from spinney.errors import PolicyError
from spinney.privacy.ledger_store import Disclosed
from spinney.protocols.model import ForestModel
from spinney.protocols.release_terms import EXACT, Hardening
from spinney.report.door import release
from spinney.transport import codec
from spinney.transport.channel import Round
from spinney.transport.remote.wire import Envelope
from spinney.trees.leaf_counts import NodeNoise

DEEP = {"max_depth": 8, "min_samples_leaf": 1}


def conducted(folder, agreed, run="run-1", change=lambda data: data):
    sites = Sites(folder, agreed, run=run)

    def send(targets, data):
        return sites.bytes_to(targets, change(data))

    try:
        Run(coordinator_in(folder), agreed, attempt_of(agreed, run), send).conduct()
    finally:
        sites.close()
    return folder / "runs" / run


def kept_at(folder, name, run="run-1"):
    return folder / name / "records" / "runs" / run / "model.spinney"


def disclosed_at(folder, name, run="run-1"):
    path = folder / name / "records" / "runs" / run / "disclosures.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("coordinator", ["sighted", "blind"])
def test_no_exact_count_reaches_a_party_or_the_lead(tmp_path, coordinator):
    clinics_in(tmp_path)
    agreed = agreed_job(tmp_path, secure_sum="true", coordinator=f'"{coordinator}"', **DEEP)
    folder = conducted(tmp_path, agreed)
    handed = [folder / "model.spinney", *(kept_at(tmp_path, name) for name in CLINICS)]
    assert len({path.read_bytes() for path in handed}) == 1
    model = ForestModel.load(handed[0])
    assert model.released == Hardening()
    rows = model.forest.moments.sum(axis=1)
    assert np.array_equal(np.log2(rows), np.rint(np.log2(rows)))
    assert rows[model.forest.feature < 0].min() >= 4  # 5 rows are rounded to 4


def test_the_strictest_policy_hardens_for_all(tmp_path):
    clinics_in(tmp_path)
    write_party(tmp_path, "north", policy="min_samples_leaf = 9")
    agreed = agreed_job(tmp_path, max_depth=8, min_samples_leaf=9)
    report = load_report(conducted(tmp_path, agreed))
    assert report.release == Hardening(9)
    assert ForestModel.load(kept_at(tmp_path, "lakeside")).released == Hardening(9)


def test_exact_bytes_leave_where_job_and_every_policy_say_so(tmp_path):
    clinics_in(tmp_path)
    for name in CLINICS:
        write_party(tmp_path, name, policy="exact_counts = true")
    agreed = msgspec.structs.replace(agreed_job(tmp_path, **DEEP), release=EXACT)
    folder = conducted(tmp_path, agreed)
    model = ForestModel.load(folder / "model.spinney")
    assert model.released is None
    assert model.forest.moments.sum(axis=1)[model.forest.feature < 0].min() < 4
    assert "the model left with smallest_leaf=1" in " ".join(load_report(folder).weaker)


def test_the_hand_out_is_in_the_report_the_records_and_the_ledger(tmp_path):
    clinics_in(tmp_path)
    folder = conducted(tmp_path, agreed_job(tmp_path, **DEEP))
    model = (folder / "model.spinney").read_bytes()
    rows = {row.question: row for row in load_report(folder).disclosures}
    assert rows["Derived"].statistic == RELEASED
    assert rows["Derived"].seen_by == "every party and the lead"
    assert rows["Terms"].statistic == TermsAsk.reveals
    for name in CLINICS:
        last = disclosed_at(tmp_path, name)[-1]
        assert (last["question"], last["reveals"]) == ("Derived", RELEASED)
        assert last["protection"].startswith("released with smallest_leaf=5, threshold_digits=4")
        assert last["protection"].endswith(sha256(model).hexdigest())
        with closing(open_ledger(load_party(tmp_path / name / "party.toml"))) as ledger:
            bodies = [entry.body for entry in ledger.entries()]
            left = [one.disclosure for one in bodies if isinstance(one, Disclosed)][-1]
        assert left.what == RELEASED
        assert "released with smallest_leaf=5" in left.why


def test_the_hand_out_costs_a_private_job_nothing_and_breaks_no_claim(tmp_path):
    clinics_in(tmp_path)
    agreed = agreed_job(tmp_path, 'protocol = "private_forest"', epsilon=4)
    folder = conducted(tmp_path, agreed)
    report = load_report(folder)
    assert "UNPROTECTED" not in {claim.verdict for claim in report.privacy}
    assert {row.question for row in report.disclosures} >= {"Terms", "Derived"}
    (job,) = describe_ledger(tmp_path / "north" / "ledger.db", "q3").jobs
    assert not any("UNPROTECTED" in claim for claim in job.claims)


def weakened(data):
    """Hand out on weaker terms than the parties stated."""
    envelope = codec.decode(data, Envelope)
    if envelope.kind != "DerivedAsk":
        return data
    ask = codec.decode(envelope.body, DerivedAsk)
    exact = replace(ask, terms=TermsReply.of(EXACT))
    return codec.encode(replace(envelope, body=codec.encode(exact)))


def test_a_party_does_not_keep_what_its_coordinator_would_hand_out_exactly(tmp_path):
    clinics_in(tmp_path)
    words = r"The model is to be handed out with smallest_leaf=1; this party allows smallest_leaf=5"
    with pytest.raises(PolicyError, match=words):
        conducted(tmp_path, agreed_job(tmp_path, **DEEP), change=weakened)
    for name in CLINICS:
        assert not kept_at(tmp_path, name).exists()
        assert disclosed_at(tmp_path, name)[-1]["protection"].startswith("refused: The model is")


@pytest.fixture
def leaving(tmp_path):
    """A party that is about to be handed a model, and the model as it was grown."""
    clinics_in(tmp_path)
    agreed = agreed_job(tmp_path, **DEEP)
    for name in CLINICS:
        write_party(tmp_path, name, policy="exact_counts = true")
    grown = conducted(tmp_path, msgspec.structs.replace(agreed, name="grown", release=EXACT))
    write_party(tmp_path, "north")
    party = load_party(tmp_path / "north" / "party.toml")
    ledger = open_ledger(party)
    record = RunRecord(tmp_path / "handed")
    yield (
        LeavingModel(party, agreed, "run-9", record, lambda: ledger),
        ForestModel.load(grown / "model.spinney"),
    )
    ledger.close()


def no_noise(n_nodes):
    return NodeNoise(**dict.fromkeys(NodeNoise.__dataclass_fields__, np.zeros(n_nodes)))


LIES = {
    "as it was grown": lambda model: model,
    "in words only": lambda model: replace(model, released=Hardening()),
    "with small leaves": lambda model: replace(
        release(model, Hardening(1))[0], released=Hardening()
    ),
    "with exact counts": lambda model: replace(
        release(model, Hardening(5, exact_counts=True))[0], released=Hardening()
    ),
    "as if it had noise": lambda model: replace(
        model, released=Hardening(), noise=no_noise(model.forest.n_nodes)
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_model_that_shows_more_than_a_party_allows_is_refused_whatever_it_says(leaving, lie):
    party, grown = leaving
    model = LIES[lie](grown)
    words = "shows more than this party allows, which is (smallest_leaf=5|exact_counts=false)"
    with pytest.raises(PolicyError, match=words):
        party.keep_handed(ModelAsk(model.to_bytes()))


def test_a_released_model_is_kept_and_no_other_of_the_same_run(leaving):
    party, grown = leaving
    released = release(grown, Hardening())[0].to_bytes()
    reply = party.keep_handed(ModelAsk(released))
    assert reply.kept == sha256(released).hexdigest()
    assert party.keep_handed(ModelAsk(released)) == reply
    other = release(grown, Hardening(20))[0].to_bytes()
    with pytest.raises(PolicyError, match="Another model of this run has left this party before"):
        party.keep_handed(ModelAsk(other))


class Stating:
    """A channel to parties that state these terms, and keep what they are handed."""

    def __init__(self, terms):
        self.terms = terms
        self.rounds = []

    def ask(self, ask, *, to):
        up = dict.fromkeys(to, 1)
        numbered = (len(self.rounds) + 1, ask.called(), "ask", ask.reveals, "none")
        self.rounds.append(Round(*numbered, up, up, 0.0, tuple(to)))
        return {name: self.terms[name] for name in to}


def test_the_terms_of_a_party_that_left_still_count(tmp_path):
    agreed = agreed_job(tmp_path)
    stated = {name: TermsReply.of(Hardening(5 + i)) for i, name in enumerate(CLINICS)}
    channel: Any = Stating(stated)
    known = HandOut(agreed, CLINICS, {}).learn_terms(channel)
    again = HandOut(agreed, CLINICS[:2], known)  # the strictest has left
    assert again.learn_terms(channel)[CLINICS[2]] == Hardening(7)
    assert again._strictest() == Hardening(7)


def test_an_accepted_job_of_before_means_what_it_meant(tmp_path):
    old = Agreed.of_bytes(agreed_job(tmp_path).to_bytes())
    assert old.settings["min_samples_leaf"] == 1
    assert old.protocol_settings().min_samples_leaf == 1
