"""The failure matrix: every role dies before, in and after each phase; the model stays the same.

A side is killed with all its processes, as by a power cut. A bystander is held meanwhile, so that
the round in which it happens cannot end.
"""

import json
import os
import signal
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from deployed import wide  # type: ignore[import-not-found]
from deployed.loopback import Federation  # type: ignore[import-not-found]

pytestmark = pytest.mark.slow
OVER = ("finished", "failed", "paused", "aborted")
PHASES = {"agreeing": 0, "binning": 2, "growing": 8, "judging": 14}


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    made = Federation(tmp_path_factory.mktemp("failures"), limits="patience_seconds = 15")
    wide.write_tables(made)
    wide.simulated(made, wide.write_job(made, "warm", n_estimators=2, max_depth=2))  # compiles
    made.enrol()
    made.start()
    yield made
    made.stop()


@contextmanager
def in_round(federation, run, number, bystander="lakeside"):
    """Hold a run within the round that follows this many."""
    if number:
        federation.wait_for_round(run, 1)
        held = federation.processes_of(bystander)  # found before: the moment is short
        federation.wait_for_round(run, number)
    else:
        federation.wait(run, lambda status: status["state"] == "running")
        held = federation.processes_of(bystander)
    for process in held:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        federation.signal(bystander, signal.SIGCONT)


def killed_in(federation, who, number, name, **settings):
    """Start a job and kill a side in the round that follows so many; the kill may come too late.

    Then the job is started again, under another name.
    """
    for attempt in range(8):
        path, run = started(federation, f"{name}-{attempt}", **settings)
        with in_round(federation, run, number):
            over = federation.status(run)["state"] in OVER
            if not over:
                federation.kill(who)
        if not over:
            return path, run
    raise AssertionError("The job was always over before the kill.")


def started(federation, name, **settings):
    path = wide.write_job(federation, name, n_estimators=20, max_depth=9, **settings)
    return path, federation.job("start", str(path)).stdout.strip()


def finish(federation, run, path):
    """Wait for a run's end and check that its model is that of one process."""
    status = federation.wait(run, lambda status: status["state"] in OVER)
    assert status["state"] == "finished", status
    model = federation.root / "coordinator" / "runs" / run / "model.spinney"
    assert model.read_bytes() == wide.simulated(federation, path)
    return status


@pytest.mark.parametrize("secure_sum", [False, True])
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("who", ["north", "coordinator"])
def test_a_side_that_dies_in_a_phase_comes_back_and_the_run_goes_on(
    federation, who, phase, secure_sum
):
    name, number = f"{who}-{phase}-{secure_sum}", PHASES[phase]
    path, run = killed_in(federation, who, number, name, secure_sum=secure_sum)
    federation.start(who)
    status = finish(federation, run, path)
    assert status["attempt"] > 1
    assert status["present"] == list(federation.parties)


@pytest.mark.parametrize("who", ["north", "coordinator"])
def test_a_side_that_dies_before_a_job_begins(federation, who):
    federation.kill("st-mary")  # so that the job must wait
    path, run = started(federation, f"{who}-before")
    federation.kill(who)
    federation.start(who, "st-mary")
    finish(federation, run, path)


@pytest.mark.parametrize("who", ["north", "coordinator"])
def test_a_side_that_dies_after_a_job(federation, who):
    path, run = started(federation, f"{who}-after")
    finish(federation, run, path)
    federation.kill(who)
    federation.start(who)
    time.sleep(3)
    shown = json.loads(retried(federation, "show", run, "--json").stdout)
    assert shown["state"] == "finished"
    path, run = started(federation, f"{who}-next")
    assert finish(federation, run, path)["attempt"] == 1


def retried(federation, *arguments):
    """Run a job command until the coordinator is up again."""
    for _ in range(20):
        done = federation.job(*arguments, check=False)
        if done.returncode == 0:
            return done
        time.sleep(1)
    raise AssertionError(done.stderr)


@pytest.mark.parametrize("who", ["north", "coordinator"])
def test_a_job_process_that_dies_alone_is_started_again(federation, who):
    path, run = started(federation, f"{who}-job-process")
    with in_round(federation, run, 8):
        main = federation.processes[who].pid
        own = federation.processes_of(who)
        workers = [pid for pid in own if b"job" in cmdline(pid) or b"runner" in cmdline(pid)]
        assert workers
        assert main not in workers
        for pid in workers:
            if run.encode() in cmdline(pid):
                subprocess.run(["kill", "-9", str(pid)], check=True)
    assert finish(federation, run, path)["attempt"] > 1


def cmdline(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_party_that_stays_away_is_dropped_where_the_quorum_allows(federation):
    path = wide.write_job(federation, "dropped", "quorum = 2", n_estimators=20, max_depth=9)
    run = federation.job("start", str(path)).stdout.strip()
    with in_round(federation, run, 8):
        federation.kill("north")
    status = federation.wait(run, lambda status: status["state"] in OVER)
    assert (status["state"], status["present"]) == ("finished", ["st-mary", "lakeside"]), status
    federation.start("north")


def test_a_party_that_stays_away_pauses_a_job_that_needs_it_and_resuming_ends_it(federation):
    path, run = started(federation, "paused")
    with in_round(federation, run, 8):
        federation.kill("north")
    status = federation.wait(run, lambda status: status["state"] in OVER)
    assert status["state"] == "paused", status
    assert "These parties stay away: north." in status["message"]
    rounds = status["rounds"]
    federation.start("north")
    other = wide.write_job(federation, "paused-other", n_estimators=21, max_depth=9)
    refused = federation.job("resume", run, str(other), check=False)
    assert "not the one that run" in refused.stderr
    federation.job("resume", run, str(path), "--follow", "--out", "resumed")
    assert rounds >= 8
    finish(federation, run, path)


def test_a_private_job_pays_once_whatever_dies(federation):
    settings = {"epsilon": 1.0, "n_estimators": 8, "max_depth": 4}
    for name in federation.parties:
        federation.write_party(
            name,
            'source = "csv"\npath = "table.csv"\nquery = "from source"',
            policy="epsilon_per_job = 1.0\nepsilon_total = 2.0",
        )
    try:
        path = wide.write_job(federation, "paid", **settings)
        run = federation.job("start", str(path)).stdout.strip()
        with in_round(federation, run, 4):
            federation.kill("north")
            federation.kill("coordinator")
        federation.start("coordinator", "north")
        status = federation.wait(run, lambda status: status["state"] in OVER)
        assert status["state"] == "finished", status
        for name in federation.parties:
            said = federation.spinney("ledger", "show", "ledger.db", "--json", folder=name).stdout
            federation.spinney("ledger", "verify", "ledger.db", folder=name)
            assert '"paid' in said
        facts = federation.spinney("party", "status", "party.toml", "--json", folder="north").stdout
        assert json.loads(facts)["budget"] == "epsilon 1 left"
    finally:
        wide.write_tables(federation)


def test_a_full_disk_at_the_coordinator_pauses_the_job(federation):
    path, run = started(federation, "full-disk")
    rounds = federation.root / "coordinator" / "runs" / run / "rounds"
    # A folder where a later round's file would be written, as good as no room for it.
    (rounds / "000008.part").mkdir(parents=True)
    status = federation.wait(run, lambda status: status["state"] in OVER)
    assert status["state"] == "paused", status
    assert "Make room and resume the job" in status["message"]
    for folder in rounds.glob("*.part"):
        folder.rmdir()
    federation.job("resume", run, str(path), "--follow", "--out", "after-room")
    finish(federation, run, path)
