"""The coordinator's side of deployed jobs without the engine: runs, their files, what they cost."""

import re
from contextlib import nullcontext
from io import BytesIO
from types import SimpleNamespace
from zipfile import ZipFile

import msgspec
import pytest

from deployed.handmade import (  # type: ignore[import-not-found]
    CLINICS,
    Sites,
    agreed_job,
    attempt_of,
    clinics_in,
    coordinator_in,
    status_of,
    write_party,
)
from spinney.deployment import client as jobs
from spinney.deployment import text
from spinney.deployment.coordinator.config import load_coordinator
from spinney.deployment.coordinator.process import Run
from spinney.deployment.coordinator.runs import RunFolder, Status
from spinney.deployment.costs import cost_of
from spinney.deployment.job import PROPOSE
from spinney.deployment.text import (
    line_of,
    page_of,
    seconds_left,
)
from spinney.errors import PartyLostError, ProtocolError, SettingError
from spinney.protocols.release_terms import Hardening
from spinney.report.report import load_report
from spinney.transport import codec
from spinney.transport.remote.wire import Envelope


@pytest.fixture
def coordinator(tmp_path):
    """A coordinator's file, and three parties in this process."""
    clinics_in(tmp_path)
    return coordinator_in(tmp_path)


def test_a_run_leaves_model_report_and_status_and_no_rounds(coordinator, tmp_path):
    agreed = agreed_job(tmp_path, secure_sum="true")
    sites = Sites(tmp_path, agreed)
    Run(coordinator, agreed, attempt_of(agreed), sites.bytes_to).conduct()
    folder = RunFolder(coordinator.runs, "run-1")
    status = folder.status()
    assert status is not None
    assert (status.state, status.present) == ("finished", CLINICS)
    archive = folder.archived()
    assert archive is not None
    with ZipFile(BytesIO(archive)) as files:
        assert files.namelist() == ["model.spinney", "report.json", "report.html"]
        assert files.read("model.spinney") == (folder.folder / "model.spinney").read_bytes()
    assert not folder.rounds.exists()
    report = load_report(folder.folder)
    assert (report.release, report.attempts, report.dropped) == (Hardening(), 1, ())
    assert report.hardened[0].startswith("in model.spinney and report.html: ")
    assert "rounded to powers of two, and predictions as coarsely" in report.hardened[0]


def test_a_lost_party_leaves_the_run_waiting_and_the_next_attempt_ends_it(coordinator, tmp_path):
    agreed = agreed_job(tmp_path)
    sites = Sites(tmp_path, agreed)
    asked = 0

    def dying(targets, data):
        nonlocal asked
        asked += 1
        came = sites.bytes_to(targets, data)
        return came if asked < 6 else {name: came[name] for name in came if name != "north"}

    with pytest.raises(PartyLostError, match="Missing: north"):
        Run(coordinator, agreed, attempt_of(agreed), dying).conduct()
    sites.close()
    status = RunFolder(coordinator.runs, "run-1").status()
    assert status is not None
    assert (status.state, status.waiting_since > 0) == ("waiting", True)
    again = Sites(tmp_path, agreed, attempt=2)
    Run(coordinator, agreed, attempt_of(agreed, attempt=2), again.bytes_to).conduct()
    ended = RunFolder(coordinator.runs, "run-1").status()
    assert ended is not None
    assert (ended.state, ended.attempt) == ("finished", 2)
    assert load_report(RunFolder(coordinator.runs, "run-1").folder).attempts == 2


@pytest.mark.parametrize(
    ("lost_at", "number", "together"),
    [
        ("MaskedAsk", 1, True),  # the facts: bins are laid over all or not at all
        ("MaskedAsk", 6, True),  # a level: others have been opened with everybody
        ("RevealAsk", 6, True),
    ],
)
def test_nobody_may_be_dropped_once_a_masked_sum_is_opened(
    coordinator, tmp_path, lost_at, number, together
):
    agreed = agreed_job(tmp_path, "quorum = 2", secure_sum="true")
    sites = Sites(tmp_path, agreed)
    asked = 0

    def dying(targets, data):
        nonlocal asked
        asked += codec.decode(data, Envelope).kind == lost_at
        came = sites.bytes_to(targets, data)
        return came if asked < number else {name: came[name] for name in came if name != "north"}

    with pytest.raises(PartyLostError, match="Missing: north"):
        Run(coordinator, agreed, attempt_of(agreed), dying).conduct()
    sites.close()
    assert status_of(tmp_path).together is together
    # It holds to the end, whatever else goes wrong.
    with pytest.raises(PartyLostError, match="answered TermsAsk"):
        Run(coordinator, agreed, attempt_of(agreed, attempt=2), lambda *_: {}).conduct()
    assert status_of(tmp_path).together is together
    again = Sites(tmp_path, agreed, attempt=3)
    Run(coordinator, agreed, attempt_of(agreed, attempt=3), again.bytes_to).conduct()
    assert status_of(tmp_path).state == "finished"


def test_an_attempt_that_was_given_up_asks_nobody(coordinator, tmp_path):
    agreed = agreed_job(tmp_path)
    folder = RunFolder(coordinator.runs, "run-1")
    later = Status(run="run-1", name="q3", kind="train", state="waiting", attempt=3)
    for known in (later, Status(run="run-1", name="q3", kind="train", state="finished")):
        folder.write(known)
        with pytest.raises(ProtocolError, match="Attempt 1 of this run was given up"):
            Run(coordinator, agreed, attempt_of(agreed), lambda *_: pytest.fail("asked"))
        kept = folder.status()
        assert kept is not None
        assert kept.state == known.state


def test_a_run_is_not_taken_over_by_another_job(coordinator, tmp_path):
    agreed = agreed_job(tmp_path)
    folder = RunFolder(coordinator.runs, "run-1")
    folder.write(Status(run="run-1", name="q3", kind="train", state="paused", digest="other"))
    with pytest.raises(ProtocolError, match="This run belongs to another job"):
        Run(coordinator, agreed, attempt_of(agreed, attempt=2), lambda *_: pytest.fail("asked"))
    assert status_of(tmp_path).state == "paused"


def test_a_proposal_is_answered_and_starts_nothing(coordinator, tmp_path):
    write_party(tmp_path, "north", policy="min_parties = 9")
    agreed = agreed_job(tmp_path, kind=PROPOSE)
    Run(coordinator, agreed, attempt_of(agreed), Sites(tmp_path, agreed).bytes_to).conduct()
    status = RunFolder(coordinator.runs, "run-1").status()
    assert status is not None
    assert status.answers["lakeside"] == ""
    assert "rule 'min_parties'" in status.answers["north"]
    assert not (coordinator.runs / "run-1" / "model.spinney").exists()


def test_a_proposal_says_who_audits_the_model_first(coordinator, tmp_path):
    write_party(tmp_path, "north", more="[policy.audit]\nleast_group = 2")
    agreed = agreed_job(tmp_path, kind=PROPOSE)
    Run(coordinator, agreed, attempt_of(agreed), Sites(tmp_path, agreed).bytes_to).conduct()
    status = RunFolder(coordinator.runs, "run-1").status()
    assert status is not None
    assert status.auditing == ("north",)
    assert "north: yes; it audits the model before anybody is handed it" in page_of(status)
    made = jobs.Proposal("q3", "", status.answers, cost_of(agreed), status.auditing)
    assert "north     yes; it audits the model before anybody is handed it" in text.proposal(made)
    assert "lakeside  yes\n" in text.proposal(made)


def test_limits_that_cannot_work_are_refused(tmp_path):
    path = tmp_path / "coordinator.toml"
    head = '[coordinator]\nname = "x"\nhost = "h"\n[limits]\n'
    for line, words in (
        ("reply_seconds = 1", "reply_seconds must be at least 5"),
        ("silence_seconds = 6", "silence_seconds must be at least reply_seconds"),
        ("attempts = 0", "attempts must be greater than 0"),
        ("patience = 3", "Unknown key 'patience'"),
    ):
        path.write_text(head + line)
        with pytest.raises(SettingError, match=words):
            load_coordinator(path)


def test_a_job_says_what_it_costs(tmp_path):
    plain = cost_of(agreed_job(tmp_path, max_depth=6))
    masked = cost_of(agreed_job(tmp_path, max_depth=6, secure_sum="true"))
    private = cost_of(agreed_job(tmp_path, epsilon=2.0))
    assert (plain.epsilon, private.epsilon) == ("no noise", "2")
    # six levels; nodes that draw on; schemas, facts, edges, quality, joining, model
    assert plain.rounds == 6 + 3 + 9
    assert plain.bytes is not None
    assert plain.seconds is not None
    assert masked.rounds is not None
    assert masked.bytes is not None
    assert masked.rounds > 2 * plain.rounds
    assert masked.bytes > plain.bytes
    assert plain.seconds > 0
    endless = cost_of(agreed_job(tmp_path, max_depth=None))
    assert endless.rounds is None
    assert "rounds and bytes have no limit, because max_depth is not set" in str(endless)


def test_a_job_that_has_not_begun_says_whom_it_waits_for():
    queued = Status(run="12345678-aaaa", name="q3", kind="train", state="queued")
    assert line_of(queued) == "q3 12345678: queued"
    waiting = msgspec.structs.replace(queued, message="Waiting for: north.")
    assert line_of(waiting) == "q3 12345678: queued; Waiting for: north."


def test_a_status_is_told_in_a_line_and_on_a_page():
    status = Status(
        run="12345678-aaaa",
        name="q3",
        kind="train",
        state="running",
        parties=CLINICS,
        present=CLINICS[:2],
        attempt=2,
        rounds=8,
        trees=30,
        phase="growing",
        level=4,
        levels=8,
        question="Level",
        answered=("north",),
        begun=1.0,
        since=100.0,
        updated=140.0,
    )
    assert seconds_left(status) == 40.0
    said = line_of(status)
    for words in (
        "growing 30 trees, level 5 of 8",
        "round 9",
        "1 of 2 answered",
        "40 s left",
        "attempt 2",
    ):
        assert words in said
    assert "dropped:  lakeside" in page_of(status)
    assert "answered: north" in page_of(status)
    paused = page_of(msgspec.structs.replace(status, state="paused"))
    assert "to go on: spinney job resume 12345678 JOB.toml" in paused
    assert "answered" not in paused
    asked = Status(run="12345678-aaaa", name="q3", kind="propose", state="finished")
    assert line_of(asked) == "q3 12345678: proposal finished"  # by a coordinator of version 0.1


def test_a_proposal_says_who_declined_it():
    asked = Status(
        run="12345678-aaaa",
        name="q3",
        kind="propose",
        state="finished",
        answers={"north": "", "lakeside": "min_parties is 3.\x1b[2J"},
    )
    assert line_of(asked) == "q3 12345678: proposal declined by lakeside"
    page = page_of(asked)
    assert "state:    declined by lakeside\n" in page
    assert "answers:  north: yes\n          lakeside: no: min_parties is 3. [2J" in page
    agreed = msgspec.structs.replace(asked, answers={"north": "", "lakeside": ""})
    assert line_of(agreed) == "q3 12345678: proposal accepted by all parties"


def test_a_finished_run_is_told_without_what_it_last_did():
    done = Status(
        run="12345678-aaaa", name="q3", kind="train", state="finished", rounds=12, phase="judging"
    )
    assert page_of(done).splitlines() == [
        "run:      12345678-aaaa",
        "job:      q3",
        "kind:     training",
        "state:    finished",
        "rounds:   12 completed",
    ]


def test_the_coordinator_logs_how_far_a_run_is(coordinator, tmp_path, caplog):
    caplog.set_level("INFO", "spinney.coordinator")
    agreed = agreed_job(tmp_path)
    sites = Sites(tmp_path, agreed)
    Run(coordinator, agreed, attempt_of(agreed), sites.bytes_to).conduct()
    said = "\n".join(caplog.messages)
    for words in ("q3: running; growing 5 trees, level 2 of 3, round", "3 of 3 answered"):
        assert words in said
    assert re.search(r"about \d+ s left", said)
    assert caplog.messages[-1] == "q3: finished."


def test_a_run_is_found_by_its_job_s_name_and_a_proposal_is_not(monkeypatch, tmp_path):
    kinds = {"cccc": "propose", "bbbb": "train", "aaaa": "train"}  # the newest first
    runs = [
        Status(run=run, name="q3", kind=kind, state="finished", begun=-float(number))
        for number, (run, kind) in enumerate(kinds.items())
    ]
    opened = SimpleNamespace(request=lambda _: msgspec.json.encode(runs))
    monkeypatch.setattr(jobs, "session", lambda _: nullcontext(opened))
    assert jobs.show_run("q3", tmp_path).run == "bbbb"
    assert jobs.show_run("ccc", tmp_path).run == "cccc"
    with pytest.raises(SettingError, match="No run is called 'q4'"):
        jobs.show_run("q4", tmp_path)
    with pytest.raises(SettingError, match="The run 'q3' is already over: finished"):
        jobs.abort("q3", tmp_path)
