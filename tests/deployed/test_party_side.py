"""A party's side of deployed jobs without the engine: policy, acceptance, masks, refusals."""

import json
import shutil
import time
from hashlib import sha256

import msgspec
import pytest

from deployed.handmade import (  # type: ignore[import-not-found]
    CLINICS,
    EXAMPLES,
    Sites,
    agreed_job,
    clinics_in,
    write_party,
)
from spinney.cli.ledgers import describe_ledger
from spinney.deployment.job import PROPOSE, Agreed, Attempt
from spinney.deployment.party import admission as accepted
from spinney.deployment.party.config import load_party
from spinney.deployment.party.tables import open_table
from spinney.deployment.questions import DerivedAsk, ModelAsk, ProposalAsk, TermsReply
from spinney.errors import (
    PolicyError,
    ProtocolError,
    SchemaError,
    SettingError,
    SpinneyError,
    TableError,
)
from spinney.protocols import horizontal_forest
from spinney.protocols.accounts.account import ClaimsAsk
from spinney.protocols.horizontal_forest.messages import LevelAsk
from spinney.protocols.model import ForestModel
from spinney.protocols.release_terms import Hardening
from spinney.protocols.rows.setup import FactsAsk, SchemaAsk
from spinney.protocols.verified.channel import VerifiedSums
from spinney.protocols.verified.messages import StepAsk
from spinney.report.door import release
from spinney.tables.holding import Holding
from spinney.transport.in_process import InProcess
from spinney.transport.journal import Journal, Journaled

TERMS = TermsReply.of(Hardening())


@pytest.fixture
def clinics(tmp_path):
    """Three parties with kits and tables."""
    return clinics_in(tmp_path)


def trained(agreed, channel):
    settings = agreed.protocol_settings()
    return agreed.spec.train(channel, settings, n_jobs=1, progress=lambda *_: None)


def pooled(agreed, folder):
    """Return the model that the parties' own code gives over the plain channel."""
    sides = {}
    for name in agreed.parties:
        table = open_table(load_party(folder / name / "party.toml"), agreed)
        assert not isinstance(table, Holding)
        sides[name] = horizontal_forest.Party(table)
    return trained(agreed, InProcess(sides)).model.to_bytes()


def test_the_same_train_and_party_give_the_same_bytes_masked_or_not(clinics):
    plain = agreed_job(clinics)
    expected = pooled(plain, clinics)
    sites = Sites(clinics, plain)
    assert trained(plain, VerifiedSums(sites.keyed())).model.to_bytes() == expected
    sites.close()
    masked = agreed_job(clinics, secure_sum="true")
    for name in CLINICS:
        shutil.rmtree(clinics / name / "records", ignore_errors=True)
    sites = Sites(clinics, masked, run="run-2")
    assert trained(masked, VerifiedSums(sites.keyed())).model.to_bytes() == expected
    sites.close()


def test_a_new_attempt_goes_on_from_the_journal_with_the_same_bytes(clinics, tmp_path):
    agreed = agreed_job(clinics)
    expected = pooled(agreed, clinics)
    rounds = tmp_path / "rounds"

    class Ends(Journaled):
        def sum(self, ask, *, quorum=None):
            if isinstance(ask.about, LevelAsk) and len(ask.about.levels) == 2:
                raise KeyboardInterrupt
            return super().sum(ask, quorum=quorum)

    first = Sites(clinics, agreed)
    with pytest.raises(KeyboardInterrupt):
        trained(agreed, VerifiedSums(Ends(first.keyed(), Journal(rounds))))
    first.close()
    again = Sites(clinics, agreed, attempt=2)
    model = trained(agreed, VerifiedSums(Journaled(again.keyed(), Journal(rounds)))).model
    again.close()
    assert model.to_bytes() == expected


def test_what_a_job_without_noise_learns_is_in_the_ledger(clinics):
    agreed = agreed_job(clinics)
    sites = Sites(clinics, agreed)
    trained(agreed, VerifiedSums(sites.keyed()))
    sites.close()
    told = describe_ledger(clinics / "north" / "ledger.db", None)
    (job,) = told.jobs
    assert job.name == "q3 run-1"
    assert "UNPROTECTED" in str(told)
    assert LevelAsk.reveals in str(told)


def test_what_leaves_is_written_down_as_it_happens(clinics):
    agreed = agreed_job(clinics)
    sites = Sites(clinics, agreed)
    VerifiedSums(sites.keyed()).ask(SchemaAsk())
    sites.close()
    record = clinics / "north" / "records" / "runs" / "run-1" / "disclosures.jsonl"
    (entry,) = map(json.loads, record.read_text().splitlines())
    assert entry["question"] == "Schema"
    assert entry["reveals"] == SchemaAsk.reveals
    assert entry["protection"] == "none"
    assert entry["bytes"] > 0


def proposed(folder, agreed):
    replies = Sites(folder, agreed).channel().ask(ProposalAsk(agreed.digest))
    return {name: reply.reason for name, reply in replies.items()}


def test_a_proposal_has_every_partys_yes_or_no(clinics):
    write_party(clinics, "north", policy="secure_sum = true")
    write_party(clinics, "lakeside", table='source = "csv"\npath = "nowhere.csv"')
    said = proposed(clinics, agreed_job(clinics, kind=PROPOSE))
    assert said["st-mary"] == ""
    assert "requires masked sums (rule 'secure_sum')" in said["north"]
    assert said["lakeside"]
    assert "nowhere.csv" not in said["lakeside"]  # a path is the party's own business


def test_a_job_changed_after_it_was_accepted_is_refused(clinics):
    proposed(clinics, agreed_job(clinics, kind=PROPOSE))
    changed = agreed_job(clinics, n_estimators=6)
    with pytest.raises(PolicyError, match="Job 'q3' was changed after this party accepted it"):
        VerifiedSums(Sites(clinics, changed).keyed()).ask(SchemaAsk())
    proposed(clinics, agreed_job(clinics, kind=PROPOSE, n_estimators=6))
    VerifiedSums(Sites(clinics, changed).keyed()).ask(SchemaAsk())


def test_a_table_changed_since_the_proposal_is_told(clinics):
    copy = clinics / "north" / "own.csv"
    shutil.copyfile(EXAMPLES / "north.csv", copy)
    write_party(clinics, "north", table='source = "csv"\npath = "own.csv"')
    proposed(clinics, agreed_job(clinics, kind=PROPOSE))
    lines = copy.read_text().splitlines(keepends=True)
    copy.write_text("".join([*lines, lines[-1]]))
    with pytest.raises(TableError, match="The table changed since this party accepted job 'q3'"):
        VerifiedSums(Sites(clinics, agreed_job(clinics)).keyed()).ask(SchemaAsk())


def test_a_schema_that_differs_at_one_party_is_told_by_name(clinics):
    facts = 'age = { kind = "number", range = [0, 90] }\n'
    for column in ("stay_days", "earlier_visits"):
        facts += f'{column} = {{ kind = "number", range = [0, 365] }}\n'
    facts += 'ward = { kind = "category", values = ["surgery", "medicine", "other"] }\n'
    facts += 'smokes = { kind = "boolean" }\n'
    table = f'source = "csv"\npath = "{EXAMPLES}/north.csv"\n[table.columns]\n{facts}'
    write_party(clinics, "north", table=table)
    agreed = agreed_job(clinics)
    with pytest.raises(SchemaError, match=r"Party 'north' declares range .* for column 'age'"):
        trained(agreed, VerifiedSums(Sites(clinics, agreed).keyed()))


def test_facts_nobody_declared_are_not_read_off_the_data(clinics):
    agreed = agreed_job(clinics)
    listed = b'"values":["surgery","medicine","other"]'
    bare = Agreed.of_bytes(agreed.to_bytes().replace(listed, b'"values":null'))
    with pytest.raises(SettingError, match="Public facts are not declared for: 'ward'"):
        VerifiedSums(Sites(clinics, bare).keyed()).ask(SchemaAsk())


def test_a_curious_coordinator_cannot_ask_for_anything_but_steps(clinics):
    agreed = agreed_job(clinics)
    sites = Sites(clinics, agreed)
    wire = sites.channel()
    with pytest.raises(ProtocolError, match="does not yet have the other parties' keys"):
        wire.ask(StepAsk(1, "ask", ()).derived(SchemaAsk()))
    channel = VerifiedSums(sites.keyed(wire))
    channel.ask(SchemaAsk())
    for ask in (SchemaAsk(), FactsAsk("0" * 64, with_leading=True), ModelAsk(b"model")):
        with pytest.raises(ProtocolError, match="of a kind that this job does not ask"):
            wire.ask(ask)
    with pytest.raises(ProtocolError, match="is not the job's next step"):
        channel.ask(ClaimsAsk("q3"))  # the next step is a sum
    sites.close()


def test_a_finished_model_is_kept_at_the_party_that_derived_it(clinics):
    agreed = agreed_job(clinics)
    sites = Sites(clinics, agreed)
    wire = sites.channel()
    channel = VerifiedSums(sites.keyed(wire))
    model = trained(agreed, channel).model.to_bytes()
    records = clinics / "north" / "records" / "runs" / "run-1"
    assert (records / "steps" / "secret").stat().st_mode & 0o777 == 0o600
    with pytest.raises(ProtocolError, match="model is not the one that this party derived"):
        wire.ask(DerivedAsk("0" * 64, channel.opened, TERMS), to=("lakeside",))
    assert not (clinics / "lakeside" / "records" / "runs" / "run-1" / "model.spinney").exists()
    wire.ask(DerivedAsk(sha256(model).hexdigest(), channel.opened, TERMS))
    sites.close()
    released = release(ForestModel.from_bytes(model, name="derived"), Hardening())[0].to_bytes()
    assert (records / "model.spinney").read_bytes() == released
    assert sorted(path.name for path in (records / "steps").iterdir()) == ["derived"]


def test_a_model_is_not_kept_before_its_last_step(clinics):
    agreed = agreed_job(clinics)
    sites = Sites(clinics, agreed)
    wire = sites.channel()
    channel = VerifiedSums(sites.keyed(wire))
    channel.ask(SchemaAsk())
    with pytest.raises(ProtocolError, match="The job is not finished"):
        wire.ask(DerivedAsk("0" * 64, channel.opened, TERMS))
    sites.close()


def test_the_rate_of_jobs_is_limited(tmp_path):
    for _ in range(2):
        accepted.count_job(tmp_path, "north", 2)
    with pytest.raises(PolicyError, match="allows 2 jobs to begin within an hour"):
        accepted.count_job(tmp_path, "north", 2)


def test_a_clock_set_back_neither_forgets_jobs_nor_shuts_the_party(tmp_path, monkeypatch):
    for _ in range(2):
        accepted.count_job(tmp_path, "north", 3)
    yesterday = time.time() - 86_400
    monkeypatch.setattr(accepted, "time", lambda: yesterday)
    accepted.count_job(tmp_path, "north", 3)
    with pytest.raises(PolicyError, match="allows 3 jobs to begin within an hour"):
        accepted.count_job(tmp_path, "north", 3)
    monkeypatch.setattr(accepted, "time", lambda: yesterday + 3601)  # by the clock as it is now
    accepted.count_job(tmp_path, "north", 3)


def test_two_jobs_at_once_are_never_mixed(clinics, monkeypatch):
    monkeypatch.setattr("spinney.deployment.party.process._WAIT", 0.3)
    agreed = agreed_job(clinics)
    first = Sites(clinics, agreed, run="run-1")
    first.keyed()
    with pytest.raises(ProtocolError, match="This party is running another job"):
        VerifiedSums(Sites(clinics, agreed, run="run-2").keyed()).ask(SchemaAsk())


def test_a_private_job_needs_all_its_parties(tmp_path):
    with pytest.raises(SettingError, match="A private job needs all its parties until the end"):
        agreed_job(tmp_path, "quorum = 2", epsilon=1.0)


def test_a_job_without_parties_or_classes_is_refused(tmp_path):
    with pytest.raises(SettingError, match="The job names no parties"):
        agreed_job(tmp_path, parties=())
    with pytest.raises(SettingError, match="quorum must be between 1 and the number of parties, 3"):
        agreed_job(tmp_path, "quorum = 9")


def test_a_question_for_another_proposal_is_answered_no(clinics):
    agreed = agreed_job(clinics, kind=PROPOSE)
    reply = Sites(clinics, agreed).channel().ask(ProposalAsk("0" * 64))["north"]
    assert not reply.accepts
    assert "about a different job" in reply.reason


def test_canaries_in_a_table_stay_at_home(clinics):
    canary = "canary-4711"
    (clinics / "north" / "own.csv").write_text(
        f"age,stay_days,earlier_visits,ward,smokes,readmitted\n50,1,2,{canary},true,no\n"
    )
    write_party(clinics, "north", table='source = "csv"\npath = "own.csv"')
    agreed = agreed_job(clinics)
    sites = Sites(clinics, agreed)
    with pytest.raises(SpinneyError) as refused:
        VerifiedSums(sites.keyed()).ask(SchemaAsk())
    assert canary not in str(refused.value)


def test_a_run_is_that_of_one_job(clinics):
    agreed = agreed_job(clinics)
    first = Sites(clinics, agreed)
    first.keyed()
    first.close()
    other = msgspec.structs.replace(agreed, name="q5")
    with pytest.raises(PolicyError, match="This run belongs to another job"):
        VerifiedSums(Sites(clinics, other).keyed()).ask(SchemaAsk())


@pytest.mark.parametrize("run", ["../elsewhere", "a/b", "", "x" * 65])
def test_a_run_is_no_path(run):
    with pytest.raises(PolicyError, match="has no valid run id"):
        Attempt(run, 1, CLINICS)


def test_a_proposal_that_the_ledger_could_not_pay_for_is_refused_without_what_is_left(clinics):
    write_party(clinics, "north", policy="epsilon_total = 1.5")
    agreed = agreed_job(clinics, 'protocol = "private_forest"', kind=PROPOSE, epsilon=1.0)
    said = proposed(clinics, agreed)
    assert "would cost epsilon=2" in said["north"]
    assert "1.5" not in said["north"]
    assert said["lakeside"] == ""
