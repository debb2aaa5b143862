"""A party whose policy has limits for an audit lets no model leave before it was audited."""

import json
from contextlib import closing

import pytest
from typer.testing import CliRunner

from deployed.handmade import (  # type: ignore[import-not-found]
    CLINICS,
    Sites,
    agreed_job,
    attempt_of,
    clinics_in,
    coordinator_in,
    write_party,
)
from spinney.cli.main import app
from spinney.deployment.coordinator.process import Run
from spinney.deployment.questions import (
    AuditAsk,
    DerivedAsk,
    OutcomeAsk,
    TermsReply,
    WithdrawAsk,
)
from spinney.errors import PolicyError, ProtocolError, UnauditedError
from spinney.privacy.ledger import Ledger
from spinney.protocols.release_terms import Hardening
from spinney.protocols.rows.setup import SchemaAsk
from spinney.protocols.verified.blind import relay_steps


def conducted(folder, job, attempt):
    sites = Sites(folder, job, attempt=attempt)
    run = Run(coordinator_in(folder), job, attempt_of(job, attempt=attempt), sites.bytes_to)
    try:
        run.conduct()
    finally:
        sites.close()


def states(folder):
    return json.loads((folder / "runs" / "run-1" / "status.json").read_text())["state"]


def audited(folder, name="north"):
    run = folder / name / "records" / "runs" / "run-1"
    party = folder / name / "party.toml"
    return CliRunner().invoke(app, ["audit", str(run), "--party", str(party)])


def test_a_run_waits_for_the_audit_and_goes_on_after_it(tmp_path):
    clinics_in(tmp_path)
    write_party(tmp_path, "north", more="[policy.audit]\nleast_group = 2")
    job = agreed_job(tmp_path, min_samples_leaf="5")
    with pytest.raises(UnauditedError, match=r"'north': This model was not audited.*spinney audit"):
        conducted(tmp_path, job, 1)
    assert states(tmp_path) == "paused"
    told = audited(tmp_path)
    assert told.exit_code == 0, told.stderr
    conducted(tmp_path, job, 2)
    assert states(tmp_path) == "finished"


def test_a_model_that_does_not_pass_does_not_leave(tmp_path):
    clinics_in(tmp_path)
    write_party(tmp_path, "north", more="[policy.audit]\nleast_group = 400")
    job = agreed_job(tmp_path, min_samples_leaf="5")
    with pytest.raises(UnauditedError):
        conducted(tmp_path, job, 1)
    assert audited(tmp_path).exit_code == 30
    words = "'north': This party's audit of the model does not keep its limits: least_group"
    with pytest.raises(PolicyError, match=words) as refused:
        conducted(tmp_path, job, 2)
    assert states(tmp_path) == "failed"
    disclosed = (
        tmp_path / "north" / "records" / "runs" / "run-1" / "disclosures.jsonl"
    ).read_text()
    assert "refused: This party's audit of the model does not keep its limits" in disclosed
    assert "the smallest leaf" not in str(refused.value)  # no count leaves with a refusal


def kept_by(folder, name, file="model.spinney"):
    return (folder / name / "records" / "runs" / "run-1" / file).exists()


def steps_of(folder, name):
    """Return what a party keeps of the sums from which it derived the model."""
    steps = folder / name / "records" / "runs" / "run-1" / "steps"
    return sorted(path.name for path in steps.iterdir() if path.suffix == ".step") + [
        path.name for path in steps.iterdir() if path.name == "secret"
    ]


def ledgers_told(folder):
    """Return who has a ledger that says a model left."""
    told = set()
    for path in folder.glob("*/ledger.db"):
        with closing(Ledger.open(path)) as ledger:
            if any("the model to every party" in str(entry.body) for entry in ledger.entries()):
                told.add(path.parent.name)
    return told


def test_nobody_is_handed_a_model_while_one_party_audits_it(tmp_path):
    """The others keep it only when every audit has passed; the error names who waits."""
    clinics_in(tmp_path)
    write_party(tmp_path, "north", more="[policy.audit]\nleast_group = 400")
    job = agreed_job(tmp_path, min_samples_leaf="5")
    with pytest.raises(UnauditedError, match="'north': This model was not audited"):
        conducted(tmp_path, job, 1)
    assert kept_by(tmp_path, "north", "candidate.spinney")  # to audit it
    assert not any(kept_by(tmp_path, name) for name in CLINICS)
    assert audited(tmp_path).exit_code == 30
    with pytest.raises(PolicyError, match="audit of the model does not keep its limits"):
        conducted(tmp_path, job, 2)
    assert not any(kept_by(tmp_path, name) for name in CLINICS)
    assert ledgers_told(tmp_path) == set()


def test_nobody_keeps_a_model_that_fails_one_of_two_audits(tmp_path):
    """Whose audit passed keeps it no more than anybody else: the copy and the sums are erased."""
    clinics_in(tmp_path)
    write_party(tmp_path, "north", more="[policy.audit]\nleast_group = 400")
    write_party(tmp_path, "lakeside", more="[policy.audit]\nleast_group = 2")
    job = agreed_job(tmp_path, min_samples_leaf="5")
    with pytest.raises(UnauditedError, match=r"'north': This model was not.*'lakeside': This mode"):
        conducted(tmp_path, job, 1)
    assert audited(tmp_path, "lakeside").exit_code == 0
    with pytest.raises(UnauditedError, match="'north': This model was not audited") as waiting:
        conducted(tmp_path, job, 2)
    assert "lakeside" not in str(waiting.value)
    refused = CliRunner().invoke(
        app,
        ["model", "export", str(tmp_path / "lakeside" / "records" / "runs" / "run-1"), "m.onnx"],
    )
    assert refused.exit_code == 30
    assert "This model has not left its run" in " ".join(refused.stderr.split())
    assert audited(tmp_path).exit_code == 30
    words = r"'north': This party's audit .* least_group\. .* No party keeps the model\."
    with pytest.raises(PolicyError, match=words):
        conducted(tmp_path, job, 3)
    for name in CLINICS:
        assert not kept_by(tmp_path, name)
        assert not kept_by(tmp_path, name, "candidate.spinney")
        assert steps_of(tmp_path, name) == []
    assert ledgers_told(tmp_path) == set()
    with pytest.raises(ProtocolError, match="given up"):
        conducted(tmp_path, job, 4)


def test_a_party_does_not_erase_a_model_that_has_left(tmp_path):
    clinics_in(tmp_path)
    job = agreed_job(tmp_path, min_samples_leaf="5")
    conducted(tmp_path, job, 1)
    sites = Sites(tmp_path, job, attempt=2)
    try:
        channel = sites.channel()
        with pytest.raises(ProtocolError, match="has left before; this party keeps it"):
            channel.ask(WithdrawAsk())
    finally:
        sites.close()
    assert all(kept_by(tmp_path, name) for name in CLINICS)


def test_of_a_withdrawn_run_nothing_leaves_whatever_is_asked(tmp_path):
    """A blind coordinator tries for the model in the attempt in which it was withdrawn."""
    clinics_in(tmp_path)
    job = agreed_job(tmp_path, secure_sum="true", coordinator='"blind"')
    with closing(Sites(tmp_path, job)) as sites:
        wire = sites.channel()
        last = relay_steps(sites.keyed(wire, honest=job.honest_among(3)), lambda _: None)
        wire.ask(WithdrawAsk())
        wire.ask(WithdrawAsk())  # asked again after a crash, it is answered and noted once
        terms = TermsReply.of(Hardening())
        for ask in (
            DerivedAsk("", last, terms),
            AuditAsk("", last, terms, b""),
            OutcomeAsk(with_model=True),
            SchemaAsk(),
        ):
            for name in CLINICS:
                with pytest.raises(ProtocolError, match="The coordinator said that a party's aud"):
                    wire.ask(ask, to=(name,))
    for name in CLINICS:
        assert not kept_by(tmp_path, name)
        assert not kept_by(tmp_path, name, "candidate.spinney")
        record = tmp_path / name / "records" / "runs" / "run-1" / "disclosures.jsonl"
        assert record.read_text().count("refused: The coordinator said") == 1
