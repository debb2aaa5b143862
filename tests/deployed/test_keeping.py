"""What the coordinator does about runs whose engine job ended early, without the engine."""

from dataclasses import dataclass, field
from errno import ENOSPC
from time import time
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from deployed.handmade import (  # type: ignore[import-not-found]
    CLINICS,
    coordinator_in,
    status_of,
)
from spinney.deployment.coordinator.runs import RunFolder, Status
from spinney.deployment.coordinator.supervision import Keeping
from spinney.errors import StorageError

LONG_AGO = 1.0  # beyond all patience


@dataclass
class Manager:
    """The engine's store of jobs."""

    jobs: dict[str, Any] = field(default_factory=dict)

    def get_job(self, job_id, _):
        return self.jobs.get(job_id)

    def get_jobs_by_status(self, status, _):
        return [job for job in self.jobs.values() if job.meta["status"] == status.value]

    def set_status(self, job_id, status, _):
        self.jobs[job_id].meta["status"] = status.value

    def clone(self, job_id, meta, _):
        clone = f"{job_id}-{len(self.jobs)}"
        self.jobs[clone] = SimpleNamespace(job_id=clone, meta=meta)
        return {"job_id": clone}


class Desk:
    """A run whose engine job has this status, and who looks after it."""

    def __init__(self, tmp_path, engine_status, **facts):
        self.file = coordinator_in(tmp_path)
        meta = {"status": engine_status, "name": "q3", "deploy_map": {}}
        self.manager = Manager({"run-1": SimpleNamespace(job_id="run-1", meta=meta)})
        self.engine = SimpleNamespace(get_clients=lambda: [SimpleNamespace(name="lakeside")])
        self.folder = RunFolder(self.file.runs, "run-1")
        known = {"parties": CLINICS, "present": CLINICS, "quorum": 3, "job": "run-1"} | facts
        self.folder.write(
            Status(run="run-1", name="q3", kind="train", **({"state": "running"} | known))
        )

    def look(self):
        keeping = Keeping(self.file, self.engine, self.manager, None)
        known = self.folder.status()
        assert known is not None
        return keeping.kept(self.folder, known)

    def connect(self, *names):
        self.engine.get_clients = lambda: [SimpleNamespace(name=name) for name in names]


def test_a_run_whose_engine_job_died_is_tried_again_with_the_same_parties(tmp_path):
    desk = Desk(tmp_path, "FINISHED:ABNORMAL", attempt=2)
    status = desk.look()
    assert (status.state, status.attempt, status.present) == ("waiting", 3, CLINICS)
    meta = desk.manager.jobs[status.job].meta
    assert meta["spinney_run"] == "run-1"
    assert meta["mandatory_clients"] == list(CLINICS)


def test_who_stays_away_is_waited_for_then_dropped_where_the_quorum_allows(tmp_path):
    desk = Desk(tmp_path, "SUBMITTED", state="waiting", quorum=2, waiting_since=time())
    desk.connect("lakeside", "st-mary")
    assert desk.look().message == "Waiting for: north."
    desk.folder.write(msgspec.structs.replace(status_of(tmp_path), waiting_since=LONG_AGO))
    status = desk.look()
    assert (status.state, status.present) == ("waiting", ("st-mary", "lakeside"))
    assert desk.manager.jobs["run-1"].meta["status"] == "FINISHED:ABORTED"


@pytest.mark.parametrize("facts", [{"quorum": 3}, {"quorum": 2, "together": True}])
def test_a_run_pauses_that_cannot_do_without_who_stays_away(tmp_path, facts):
    desk = Desk(tmp_path, "SUBMITTED", state="waiting", waiting_since=LONG_AGO, **facts)
    desk.connect("lakeside", "st-mary")
    status = desk.look()
    assert (status.state, status.present) == ("paused", CLINICS)
    assert "are away: north. Resume the job when they are back." in status.message
    told = "masked sums without them would show their counts" in status.message
    assert told == ("together" in facts)


@pytest.mark.parametrize(("attempt", "state"), [(1, "failed"), (2, "paused")])
def test_a_refusal_ends_a_job_that_had_not_begun_and_pauses_one_that_had(tmp_path, attempt, state):
    desk = Desk(tmp_path, "FAILED_TO_RUN", attempt=attempt)
    said = "north: The policy of 'north' allows 60 jobs"
    desk.manager.jobs["run-1"].meta["job_deploy_detail"] = ["server: OK", said]
    status = desk.look()
    assert (status.state, status.message) == (state, said)


@pytest.mark.parametrize(("digest", "state"), [("this", "waiting"), ("other", "paused")])
def test_a_paused_run_waits_for_its_parties_once_somebody_resumes_it(tmp_path, digest, state):
    desk = Desk(tmp_path, "FINISHED:ABNORMAL", state="paused", digest="this", message="Away.")
    keeping = Keeping(desk.file, desk.engine, desk.manager, None)
    assert keeping.resumed_or_aborted(desk.folder, status_of(tmp_path)).state == "paused"
    meta = {"status": "SUBMITTED", "spinney_run": "run-1", "spinney_attempt": 2}
    meta["spinney_digest"] = digest
    desk.manager.jobs["next"] = SimpleNamespace(job_id="next", meta=meta)
    assert keeping.resumed_or_aborted(desk.folder, status_of(tmp_path)).state == state
    if state == "waiting":
        assert desk.look().message == "Waiting for: st-mary, north."
        assert status_of(tmp_path).job == "next"


@pytest.mark.parametrize(("who", "state"), [("alice", "aborted"), ("mallory", "paused")])
def test_a_paused_run_is_aborted_by_who_started_it_only(tmp_path, who, state):
    desk = Desk(tmp_path, "FINISHED:ABNORMAL", state="paused", message="Away.")
    desk.manager.jobs["run-1"].meta["submitter_name"] = "alice"
    meta = {"status": "SUBMITTED", "spinney_run": "run-1", "spinney_aborts": True}
    word = SimpleNamespace(job_id="word", meta=meta | {"submitter_name": who})
    desk.manager.jobs["word"] = word
    keeping = Keeping(desk.file, desk.engine, desk.manager, None)
    assert keeping.resumed_or_aborted(desk.folder, status_of(tmp_path)).state == state
    assert status_of(tmp_path).state == state
    assert word.meta["status"] == "FINISHED:ABORTED"  # the engine does not try to start it


def test_a_run_that_makes_no_progress_pauses(tmp_path):
    desk = Desk(tmp_path, "FINISHED:ABNORMAL", stalled=5, message="The party failed.")
    status = desk.look()
    assert status.state == "paused"
    assert status.message == "Tried 5 times without progress. The party failed."


def test_no_new_engine_job_is_made_where_there_is_no_room_to_note_it(tmp_path, monkeypatch):
    desk = Desk(tmp_path, "FINISHED:ABNORMAL")

    def full(*_):
        raise OSError(ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("spinney.deployment.coordinator.runs.replace_file", full)
        with pytest.raises(StorageError, match="No space left on device"):
            desk.look()
    assert list(desk.manager.jobs) == ["run-1"]
    assert desk.look().state == "waiting"  # what stood in the way is gone
    assert status_of(tmp_path).attempt == 2
