"""What the coordinator does about runs whose attempt ended early, without any connection."""

from errno import ENOSPC
from time import time
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization

from deployed.handmade import (  # type: ignore[import-not-found]
    ASKER,
    CLINICS,
    Authority,
    coordinator_in,
    status_of,
)
from spinney.deployment.coordinator.keeper import Keeper
from spinney.deployment.coordinator.members import Members
from spinney.deployment.coordinator.runs import RunFolder, Signature, Status
from spinney.errors import StorageError
from spinney.transport.remote.frames import Decision

LONG_AGO = 1.0  # beyond all patience


class Desk:
    """A run that stands so, and who looks after it; its attempts begin, and do nothing more."""

    def __init__(self, tmp_path, **facts):
        self.file = coordinator_in(tmp_path)
        self.present: tuple[str, ...] = ("lakeside",)
        self.verdicts: dict[str, Decision] = {}
        attendance: Any = SimpleNamespace(
            names=lambda: self.present,
            peers=lambda: (),
            wake=lambda: None,
            offer=lambda *_: self.verdicts,
            end=lambda *_: None,
        )
        self.keeper = Keeper(self.file, Members(tmp_path), attendance)
        self.folder = RunFolder(self.file.runs, "run-1")
        authority = Authority()
        shown = authority.signed(ASKER, authority.key, role="lead")
        self.certificate = shown.public_bytes(serialization.Encoding.PEM)
        self.folder.sign(Signature(_JOB, self.certificate, b"signature"))
        known = {"parties": CLINICS, "present": CLINICS, "quorum": 3} | facts
        self.folder.write(
            Status(run="run-1", name="q3", kind="train", **({"state": "running"} | known))
        )

    def look(self):
        self.keeper.look()
        active = self.keeper._active
        if active is not None and active.thread is not None:
            active.thread.join(30)
        found = self.folder.status()
        assert found is not None
        return found


_JOB = (
    b'{"kind":"train","name":"q3","protocol":"horizontal_forest","task":"classification",'
    b'"parties":["st-mary","north","lakeside"],"quorum":3,"settings":{},'
    b'"schema":{"label":"y","classes":["no","yes"]},"held_out":0.0,"held_out_seed":0}'
)


def test_a_run_that_was_left_running_is_tried_again_with_the_same_parties(tmp_path):
    desk = Desk(tmp_path, attempt=2)
    assert desk.look().state == "waiting"
    desk.present = CLINICS
    desk.verdicts = {name: Decision(1, "", "") for name in CLINICS[1:]}
    status = desk.look()
    assert (status.attempt, status.stalled, status.present) == (3, 1, CLINICS)
    assert status.message == "These parties did not answer an offer: st-mary."
    assert status.state == "waiting"


def test_a_queued_run_waits_as_long_as_it_takes(tmp_path):
    desk = Desk(tmp_path, state="queued", attempt=0, waiting_since=LONG_AGO)
    status = desk.look()
    assert (status.state, status.message) == ("queued", "Waiting for: st-mary, north.")


def test_who_stays_away_is_waited_for_then_dropped_where_the_quorum_allows(tmp_path):
    desk = Desk(tmp_path, state="waiting", quorum=2, waiting_since=time())
    desk.present = ("lakeside", "st-mary")
    assert desk.look().message == "Waiting for: north."
    desk.folder.write(msgspec.structs.replace(status_of(tmp_path), waiting_since=LONG_AGO))
    status = desk.look()
    assert (status.state, status.present) == ("waiting", ("st-mary", "lakeside"))


@pytest.mark.parametrize("facts", [{"quorum": 3}, {"quorum": 2, "together": True}])
def test_a_run_pauses_that_cannot_do_without_who_stays_away(tmp_path, facts):
    desk = Desk(tmp_path, state="waiting", waiting_since=LONG_AGO, **facts)
    desk.present = ("lakeside", "st-mary")
    status = desk.look()
    assert (status.state, status.present) == ("paused", CLINICS)
    assert "are away: north. Resume the job when they are back." in status.message
    told = "masked sums without them would show their counts" in status.message
    assert told == ("together" in facts)


@pytest.mark.parametrize(("attempt", "state"), [(0, "failed"), (1, "paused")])
def test_a_refusal_ends_a_job_that_had_not_begun_and_pauses_one_that_had(tmp_path, attempt, state):
    desk = Desk(tmp_path, state="waiting", attempt=attempt)
    desk.present = CLINICS
    yes = Decision(1, "", "")
    desk.verdicts = dict.fromkeys(CLINICS, yes) | {"north": Decision(1, "PolicyError", "No.")}
    status = desk.look()
    assert (status.state, status.message) == (state, "north: No.")


def test_a_run_of_version_0_1_pauses_until_its_lead_signs_it_again(tmp_path):
    desk = Desk(tmp_path, state="waiting")
    (desk.folder.folder / "signed.json").unlink()
    status = desk.look()
    assert status.state == "paused"
    assert "started by an earlier version of Spinney. Resume it." in status.message


def test_a_run_that_makes_no_progress_pauses(tmp_path):
    desk = Desk(tmp_path, state="waiting", stalled=5, message="The party failed.")
    status = desk.look()
    assert status.state == "paused"
    assert status.message == "Tried 5 times without progress. The party failed."


def test_no_attempt_begins_where_there_is_no_room_to_note_it(tmp_path, monkeypatch):
    desk = Desk(tmp_path, state="waiting", attempt=1)
    desk.present = CLINICS

    def full(*_):
        raise OSError(ENOSPC, "No space left on device")

    status = status_of(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr("spinney.deployment.coordinator.runs.replace_file", full)
        with pytest.raises(StorageError, match="No space left on device"):
            desk.keeper._look_at(desk.folder, status)
    assert desk.keeper._active is None
    assert status_of(tmp_path).attempt == 1
    assert desk.look().attempt == 2  # what stood in the way is gone


def test_an_abort_that_comes_first_wins(tmp_path):
    desk = Desk(tmp_path, state="waiting", attempt=1)
    desk.present = CLINICS
    before = status_of(tmp_path)
    desk.keeper.abort(desk.folder)
    signature = desk.folder.signature()
    assert signature is not None
    desk.keeper._begun(desk.folder, before, signature)
    assert desk.keeper._active is None
    assert status_of(tmp_path).state == "aborted"


def test_an_attempt_whose_end_cannot_be_written_down_holds_up_nobody(tmp_path, monkeypatch):
    """A full disk, or no descriptor left, at that very moment."""
    desk = Desk(tmp_path, state="waiting", attempt=1)
    desk.present = CLINICS
    desk.verdicts = {name: Decision(1, "PolicyError", "No.") for name in CLINICS}
    statuses = iter([desk.folder.status(), desk.folder.status()])
    monkeypatch.setattr(RunFolder, "status", lambda _: next(statuses))  # then: StopIteration
    known = next(statuses)
    statuses = iter([known, known])
    assert known is not None
    desk.keeper._look_at(desk.folder, known)
    active = desk.keeper._active
    monkeypatch.undo()
    if active is not None and active.thread is not None:
        active.thread.join(30)
    assert desk.keeper._active is None
    assert desk.look().state in ("waiting", "paused")


def test_a_change_does_not_undo_what_happened_meanwhile(tmp_path):
    desk = Desk(tmp_path, state="paused", attempt=1)
    before = status_of(tmp_path)
    desk.keeper.abort(desk.folder)
    assert desk.keeper.changed(desk.folder, before, state="waiting").state == "aborted"
    assert status_of(tmp_path).state == "aborted"


def test_a_run_of_somebody_who_was_removed_pauses(tmp_path):
    desk = Desk(tmp_path, state="waiting", attempt=1)
    desk.present = CLINICS
    Members(tmp_path).remove(ASKER)
    status = desk.look()
    assert status.state == "paused"
    assert "Whoever signed this run was removed" in status.message


def test_a_party_s_words_are_short_and_without_control_codes(tmp_path):
    desk = Desk(tmp_path, state="queued", attempt=0)
    desk.present = CLINICS
    desk.verdicts = dict.fromkeys(CLINICS, Decision(1, "PolicyError", "No\x1b[2J\n" + "x" * 9000))
    message = desk.look().message
    assert message.isprintable()
    assert len(message) < 3200
