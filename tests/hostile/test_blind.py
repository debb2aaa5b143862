"""A blind coordinator adds words that it cannot read; the parties derive the model."""

import json
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner

from deployed.handmade import (  # type: ignore[import-not-found]
    CLINICS,
    EXAMPLES,
    Sites,
    agreed_job,
    attempt_of,
    clinics_in,
    coordinator_in,
    write_party,
)
from deployed.one_process import models_of  # type: ignore[import-not-found]
from spinney.cli.main import app
from spinney.deployment.coordinator.process import Run
from spinney.deployment.job import Agreed
from spinney.errors import ProtocolError, SchemaError, SettingError
from spinney.privacy.release import shares_in
from spinney.protocols.secure_sums import channel
from spinney.protocols.verified.messages import HiddenReply, HiddenSums, StepAsk
from spinney.report.officer.document import officer_document
from spinney.report.report import load_report
from spinney.transport import codec
from spinney.transport.journal import Journal, Sums

BLIND = {"coordinator": '"blind"', "secure_sum": "true"}
JOBS = {
    "forest": ("horizontal_forest", {}),
    "forest with a score": ("horizontal_forest", {"oob_score": "true"}),
    "boosting": (
        "horizontal_boosting",
        {"n_estimators": None, "max_iter": 4, "batch_trees": 2, "early_stopping": "true"},
    ),
    "extra-trees": ("extra_trees", {}),
}
PRIVATE = {
    "noisy forest": ("horizontal_forest", {"epsilon": 4}),
    "private forest": ("private_forest", {"epsilon": 4}),
    "private tree": (
        "private_tree",
        {"epsilon": 4, "method": '"histograms"', "n_estimators": None},
    ),
}


def job_of(folder, protocol, settings, **more):
    return agreed_job(folder, f'protocol = "{protocol}"', **(BLIND | settings | more))


def conducted(folder, agreed, send=None, run="run-1", attempt=1):
    sites = Sites(folder, agreed, run=run, attempt=attempt)
    try:
        bytes_to = sites.bytes_to if send is None else send(sites)
        Run(
            coordinator_in(folder), agreed, attempt_of(agreed, run, attempt=attempt), bytes_to
        ).conduct()
    finally:
        sites.close()
    return folder / "runs" / run


@pytest.mark.parametrize("case", JOBS)
def test_a_blind_coordinator_ends_with_the_pooled_model(tmp_path, case):
    clinics_in(tmp_path)
    protocol, settings = JOBS[case]
    agreed = job_of(tmp_path, protocol, settings)
    folder = conducted(tmp_path, agreed)
    model = (folder / "model.spinney").read_bytes()
    assert model == models_of(tmp_path, agreed)[""]
    for name in CLINICS:
        kept = tmp_path / name / "records" / "runs" / "run-1"
        assert (kept / "model.spinney").read_bytes() == model
    report = load_report(folder)
    seen = {entry.question: entry.protection for entry in report.disclosures}
    assert "the coordinator saw no sum" in seen["Facts"]
    readers = {entry.question: entry.seen_by for entry in report.disclosures}
    assert readers["Facts"].startswith("the parties, as a sum")
    assert report.quality


def test_the_officer_reads_nowhere_that_a_blind_coordinator_saw_numbers(tmp_path):
    clinics_in(tmp_path)
    folder = conducted(tmp_path, job_of(tmp_path, "horizontal_forest", {}))
    for run in (folder, tmp_path / "north" / "records" / "runs" / "run-1"):
        document = officer_document(run)
        assert "the coordinator saw no sum, but gets the model, as its readers do" in document
        assert "UNPROTECTED, as exact numbers" not in document
        assert "The coordinator saw exact numbers" not in document
        assert "the coordinator, as a sum" not in document


def test_a_party_whose_schema_differs_is_named_before_the_first_sum(tmp_path):
    clinics_in(tmp_path)
    text = (EXAMPLES / "three_clinics.toml").read_text()
    facts = text.split("[schema.columns]")[1].split("[[party]]")[0].replace("[0, 110]", "[0, 90]")
    table = f'source = "csv"\npath = "{EXAMPLES}/north.csv"\n[table.columns]\n{facts}'
    write_party(tmp_path, "north", table=table)
    agreed = job_of(tmp_path, "horizontal_forest", {})
    with pytest.raises(SchemaError, match=r"Party 'north' declares range .* column 'age'"):
        conducted(tmp_path, agreed)
    assert not list((tmp_path / "runs" / "run-1" / "rounds").glob("*.round"))


def test_a_simulation_in_which_only_parties_see_sums_has_the_same_model(tmp_path):
    text = (EXAMPLES / "three_clinics.toml").read_text()
    for name in CLINICS:
        text = text.replace(f'"{name}.csv"', f'"{EXAMPLES / name}.csv"')
    models = []
    for kind in ("sighted", "blind"):
        path, folder = tmp_path / f"{kind}.toml", tmp_path / kind
        settings = f'[settings]\nsecure_sum = true\ncoordinator = "{kind}"'
        path.write_text(text.replace("[settings]", settings).replace("= 100", "= 5"))
        told = CliRunner().invoke(app, ["simulate", str(path), "--out", str(folder)])
        assert told.exit_code == 0, told.stderr
        models.append((folder / "model.spinney").read_bytes())
    assert models[0] == models[1]
    seen = {entry.question: entry.seen_by for entry in load_report(tmp_path / "blind").disclosures}
    assert "Step" not in seen
    assert seen["Level"] == "the parties, as a sum; the coordinator saw no sum"
    assert "No one with a single party" in (tmp_path / "blind" / "report.html").read_text()


@pytest.mark.parametrize("case", PRIVATE)
def test_a_private_job_is_paid_for_and_claimed_as_ever(tmp_path, case):
    clinics_in(tmp_path)
    protocol, settings = PRIVATE[case]
    folder = conducted(tmp_path, job_of(tmp_path, protocol, settings))
    report = load_report(folder)
    told = {party for claim in report.privacy for party in claim.parties}
    assert told == set(CLINICS)
    assert any(claim.epsilon == "4" for claim in report.privacy)


def test_a_private_job_that_lets_parties_leave_is_refused_whoever_wrote_it(tmp_path):
    """A lead that writes its job by hand had sums opened with two of three shares of the noise."""
    job = job_of(tmp_path, "private_forest", {"epsilon": 4})
    said = msgspec.json.decode(job.to_bytes()) | {"quorum": 2}
    with pytest.raises(SettingError, match="A private job needs all its parties until the end"):
        Agreed.of_bytes(msgspec.json.encode(said))


def test_no_party_reads_a_job_that_says_blind_and_shows_the_coordinator_counts(tmp_path):
    """A party took a job of noisy_max that was written by hand for a sighted one."""
    settings = {"epsilon": 1, "method": '"noisy_max"', "n_estimators": None}
    sighted = {"coordinator": '"sighted"', "secure_sum": None}
    job = job_of(tmp_path, "private_tree", settings | sighted)
    said = msgspec.json.decode(job.to_bytes())
    said["settings"]["coordinator"] = "blind"
    with pytest.raises(SettingError, match="coordinator = 'blind' is not possible: this job has"):
        Agreed.of_bytes(msgspec.json.encode(said))


def test_noise_in_shares_is_all_there_before_a_hidden_sum_is_opened(tmp_path, monkeypatch):
    """A party that hides its reply from the coordinator still knows how its noise is shared.

    The sum opens with the last reply, so a party looks before it replies.
    """
    true, seen = shares_in, []

    def listening(reply):
        found = true(reply)
        seen.extend([found] if found else [])
        return found

    monkeypatch.setattr(channel, "shares_in", listening)
    few, more = tmp_path / "few", tmp_path / "more"
    clinics_in(few)
    conducted(few, job_of(few, "private_forest", {"epsilon": 4}))
    assert [found.parties for found in seen] == [len(CLINICS)] * len(CLINICS)  # in its one sum

    def of_one_more(reply):
        found = true(reply)
        return replace(found, parties=found.parties + 1) if found else found

    monkeypatch.setattr(channel, "shares_in", of_one_more)
    clinics_in(more)
    with pytest.raises(ProtocolError, match=r"4 parties share the noise, .* the masks are for 3"):
        conducted(more, job_of(more, "private_forest", {"epsilon": 4}))


def test_the_coordinator_s_disk_holds_no_sum(tmp_path):
    """Two runs of one job: their sums are the same, and nothing that the coordinator has is."""
    clinics_in(tmp_path)
    agreed = job_of(tmp_path, "horizontal_forest", {})
    seen = []
    for run in ("run-1", "run-2"):

        def dying(sites):
            asked = []

            def send(targets, data):
                asked.append(data)
                if len(asked) > 12:
                    raise KeyboardInterrupt
                return sites.bytes_to(targets, data)

            return send

        with pytest.raises(KeyboardInterrupt):
            conducted(tmp_path, agreed, dying, run=run)
        first = Journal(tmp_path / "runs" / run / "rounds").read(1)
        assert first is not None
        seen.append(codec.decode(first.replies[0], Sums).wide())
    facts, others = seen
    assert len(facts) > 2
    for mine, yours in zip(facts[:-1], others[:-1], strict=True):
        if mine.size > 100:  # counts of a few rows would be small, and mostly the same
            assert (mine != yours).mean() > 0.99
            assert (np.abs(mine.astype(np.int64)) > 10**6).mean() > 0.99


def test_a_blind_run_goes_on_after_a_crash(tmp_path):
    clinics_in(tmp_path)
    agreed = job_of(tmp_path, "horizontal_forest", {})

    def dying(sites):
        asked = []

        def send(targets, data):
            asked.append(data)
            if len(asked) == 16:
                raise KeyboardInterrupt
            return sites.bytes_to(targets, data)

        return send

    with pytest.raises(KeyboardInterrupt):
        conducted(tmp_path, agreed, dying)
    done = len(Journal(tmp_path / "runs" / "run-1" / "rounds"))
    assert done >= 2
    folder = conducted(tmp_path, agreed, attempt=2)
    assert (folder / "model.spinney").read_bytes() == models_of(tmp_path, agreed)[""]


def test_a_party_shows_a_blind_coordinator_no_sum(tmp_path):
    clinics_in(tmp_path)
    sites = Sites(tmp_path, job_of(tmp_path, "horizontal_forest", {}))
    channel = sites.keyed()
    with pytest.raises(ProtocolError, match="is not the job's next step"):
        channel.sum(StepAsk(1, "sum", ()).after(b""))
    hidden = channel.sum(StepAsk(1, "blind", ()).after(b""))
    assert isinstance(hidden, HiddenReply)
    sites.close()


def test_a_changed_word_is_noticed(tmp_path, monkeypatch):
    clinics_in(tmp_path)

    def changed(words):
        words[-1].reshape(-1)[0] += 1
        return HiddenSums(words)

    monkeypatch.setattr("spinney.protocols.verified.blind.HiddenSums", changed)
    with pytest.raises(ProtocolError, match="is not what the parties replied"):
        conducted(tmp_path, job_of(tmp_path, "horizontal_forest", {}))


REFUSED = {
    "unmasked": ("horizontal_forest", {"secure_sum": "false"}, "its sums are not masked"),
    "adaptive": (
        "horizontal_forest",
        {"binning": '"adaptive"', "secure_sum": "false"},
        "steps whose results the coordinator must see",
    ),
    "evolved": ("genetic_tree", {"n_estimators": None}, "results the coordinator must see"),
    "trusted": (
        "private_tree",
        {"epsilon": 4, "method": '"noisy_max"', "n_estimators": None},
        "results the coordinator must see",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_job_that_cannot_be_blind_is_refused(tmp_path, case):
    protocol, settings, words = REFUSED[case]
    with pytest.raises(SettingError, match=f"coordinator = 'blind' is not possible: .*{words}"):
        job_of(tmp_path, protocol, settings)


def test_an_unknown_kind_of_coordinator_is_refused(tmp_path):
    with pytest.raises(SettingError, match="coordinator"):
        job_of(tmp_path, "horizontal_forest", {"coordinator": '"deaf"'})


def test_the_job_file_says_it(tmp_path):
    agreed = job_of(tmp_path, "horizontal_forest", {})
    assert json.loads(agreed.to_bytes())["settings"]["coordinator"] == "blind"
    assert agreed.is_blind
    assert not agreed_job(tmp_path, secure_sum="true").is_blind
