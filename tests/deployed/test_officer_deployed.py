"""The privacy officer's document on a deployed run: at a party, from its own records."""

import json
import re

import msgspec
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
from deployed.loopback import Federation  # type: ignore[import-not-found]
from spinney import load_report
from spinney.cli.main import app
from spinney.deployment.coordinator.process import Run
from spinney.deployment.job import TRAIN, Agreed, agreement_of
from spinney.deployment.party.policy import Policy, rules_in_words
from spinney.jobs.file import load_job
from spinney.report.audit_limits import AuditLimits
from spinney.report.officer.document import officer_document


def conducted(folder, agreed):
    sites = Sites(folder, agreed)
    try:
        Run(coordinator_in(folder), agreed, attempt_of(agreed), sites.bytes_to).conduct()
    finally:
        sites.close()


def records_of(folder, name):
    return folder / name / "records" / "runs" / "run-1"


PIN = "SHA256:" + ":".join(["AB"] * 32)


def words_of(document):
    return " ".join(re.sub(r"<[^>]+>", " ", document.split("</style>")[1]).split())


@pytest.mark.parametrize("coordinator", ["sighted", "blind"])
def test_a_party_s_own_report_says_what_the_coordinator_s_says(tmp_path, coordinator):
    clinics_in(tmp_path)
    agreed = agreed_job(
        tmp_path, secure_sum="true", coordinator=f'"{coordinator}"', min_samples_leaf=5
    )
    conducted(tmp_path, agreed)
    told = load_report(tmp_path / "runs" / "run-1")
    for name in CLINICS:
        own = load_report(records_of(tmp_path, name))
        assert own.told_by == name
        assert own.privacy == told.privacy
        assert own.release == told.release
        assert own.settings == told.settings
        assert own.importances == told.importances
        assert (own.n_trees, own.depth, own.n_nodes) == (told.n_trees, told.depth, told.n_nodes)
        assert own.quality == told.quality  # under masks, over all parties
        lines = (records_of(tmp_path, name) / "disclosures.jsonl").read_text().splitlines()
        noted = [json.loads(line) for line in lines]
        assert {one.question for one in own.disclosures} == {one["question"] for one in noted}
        assert sum(one.bytes_up[name] for one in own.disclosures) == sum(
            one["bytes"] for one in noted
        )


def test_a_party_s_own_report_says_nothing_that_it_does_not_know(tmp_path):
    """Without masks the coordinator sees each party's quality; a party knows its own alone."""
    clinics_in(tmp_path)
    conducted(tmp_path, agreed_job(tmp_path, min_samples_leaf=5))
    told = {one.party: one for one in load_report(tmp_path / "runs" / "run-1").quality}
    for name in CLINICS:
        (own,) = load_report(records_of(tmp_path, name)).quality
        joint = told[name].scores["joint_majority"]
        assert {**own.scores, "joint_majority": joint} == told[name].scores
        assert "joint_majority" not in own.scores
        assert (own.party, own.rows, own.n_rows) == (name, told[name].rows, told[name].n_rows)


def test_the_dates_that_parties_agreed_on_reach_every_report(tmp_path):
    clinics_in(tmp_path)
    plain = agreed_job(tmp_path)
    text = (tmp_path / "job.toml").read_text()
    dated = text.replace("[schema.columns]", 'dates = ["stay_days"]\n\n[schema.columns]')
    (tmp_path / "job.toml").write_text(dated)
    agreed = agreement_of(load_job(tmp_path / "job.toml", deployed=True), TRAIN)
    assert b"dates" not in msgspec.json.encode(plain)  # an earlier version reads it as before
    assert msgspec.json.decode(msgspec.json.encode(agreed), type=Agreed) == agreed
    conducted(tmp_path, agreed)
    folders = [tmp_path / "runs" / "run-1", *(records_of(tmp_path, name) for name in CLINICS)]
    for folder in folders:
        assert load_report(folder).subject.dates == ("stay_days",)
    assert "date from 1970-01-01 to 1971-01-01" in officer_document(folders[1])


def test_an_officer_at_a_party_signs_on_the_party_s_own_files(tmp_path):
    clinics_in(tmp_path)
    write_party(tmp_path, "north", policy="epsilon_total = 20.0")
    conducted(tmp_path, agreed_job(tmp_path, 'protocol = "private_forest"', epsilon=2))
    run = records_of(tmp_path, "north")
    ledger = tmp_path / "north" / "ledger.db"
    command = ["report", "--for-officer", str(run), "--ledger", str(ledger)]
    said = CliRunner().invoke(app, command)
    assert said.exit_code == 0, said.stderr
    document = (run / "officer.html").read_text()
    assert document == officer_document(run, (ledger,))
    words = words_of(document)
    assert re.search(
        r"For the privacy officer: q3, which predicts readmitted Run run-1, 2\d{3}-", words
    )
    assert "This is the report of north, from what it derived itself and from its records" in words
    assert "bounded by noise" in words
    assert "every entry holds" in words
    assert "class counts of the leaves of random trees, with noise" in words
    assert "The rules of the policy ([policy] in its file) of north" in words
    assert "epsilon_total 20.0" in words
    assert "trust_coordinator no" in words
    assert "exact_counts no" in words
    assert "audit not set: models leave without an audit" in words
    assert "This was a simulation" not in words
    assert "No audit is in this folder" in words
    assert "All that left north in this run, by its own record" in words
    claims = load_report(run).privacy
    assert {claim.parties for claim in claims} == {("north",)}
    told = load_report(tmp_path / "runs" / "run-1").privacy
    assert [claim.text for claim in claims] == [claim.text for claim in told]
    assert "{&#x27;" not in document  # no value is shown as a program writes it
    assert "Every party and the lead get the model" in words


def test_every_rule_of_a_policy_is_told_in_words():
    audit = AuditLimits(most_isolated=0.1)
    told = rules_in_words(Policy(never=("name", "note"), peers={"south": PIN}, audit=audit))
    assert set(Policy.__struct_fields__) - set(told) == {"audit"}
    assert told["never"] == "name, note"
    assert told["peers"] == "south"
    assert told["min_parties"] == "not set: 3 in jobs over rows, 2 over columns"
    assert told["audit, most_isolated"] == "0.1"
    assert "audit, most_epsilon" not in told
    assert told["secure_sum"] == "no"
    assert told["epsilon_total"] == "not set"


def test_a_party_without_a_report_of_its_own_is_told_whom_to_ask(tmp_path):
    (tmp_path / "run").mkdir()
    said = CliRunner().invoke(app, ["report", "--for-officer", str(tmp_path / "run")])
    assert said.exit_code == 22
    assert "has no report of its own: ask the lead for it" in " ".join(said.stderr.split())


@pytest.mark.slow  # processes of their own, and an evaluation
def test_officers_of_a_real_federation_get_their_documents(tmp_path):
    federation = Federation(tmp_path / "clinics")
    for name in CLINICS:
        federation.write_party(name, policy="epsilon_total = 20.0\ntrust_coordinator = true")
    job = federation.write_job("private", "private_forest", held_out=0.25, epsilon=2.0)
    job.write_text(f"{job.read_text()}\n[evaluation]\nepsilon = 1.0\n")
    with federation.up():
        federation.job("start", str(job), "--follow", "--out", "trained")
        federation.job("evaluate", "private", str(job), "--out", "evaluated")
        (run,) = (federation.root / "north" / "records" / "runs").glob("*/model.spinney")
        folder = run.parent
        (folder / "about.toml").write_text('purpose = "Plan care after discharge."\n')
        where = str(folder.relative_to(federation.root / "north"))
        federation.spinney("audit", where, "--party", "party.toml", folder="north")
        command = ("report", "--for-officer", where, "--ledger", "ledger.db")
        federation.spinney(*command, folder="north")
        federation.spinney("report", "--for-officer", "evaluated", folder="lead")
    own = words_of((folder / "officer.html").read_text())
    assert "Plan care after discharge." in own
    assert "This is the report of north" in own
    assert "kept by the coordinator" in own  # the head of its ledger
    assert "table: 17 for a record added or removed" in own  # 2 for the training, 1 to evaluate
    assert "The audit tried another model" not in own
    assert "as trained" not in own.split("What a reader of the model gets")[1].split("Ledgers")[0]
    lead = words_of((federation.root / "lead" / "evaluated" / "officer.html").read_text())
    assert "Measured with noise, which the ledgers paid for" in lead
    assert "all evaluations included" in lead
