"""The failure matrix: every role dies before, in and after each phase; the model stays the same.

A side is killed with all its processes, as by a power cut. A bystander is held meanwhile, so that
the round in which it happens cannot end.
"""

import json
import signal
import time

import pytest

from deployed import wide  # type: ignore[import-not-found]
from deployed.interrupting import (  # type: ignore[import-not-found]
    ended,
    federation_in,
    finish,
    in_round,
    killed_in,
    started,
)

pytestmark = pytest.mark.slow
MOMENTS = {  # how many rounds are finished then: a job has 15 of them, and then hands out its model
    "agreeing": 0,
    "first of binning": 1,
    "binning": 3,
    "last of binning": 4,
    "first of growing": 5,
    "growing": 8,
    "last of growing": 13,
    "judging": 14,
    "handing out": 15,
}
STARTED_AGAIN = pytest.mark.parametrize("who", ["north", "coordinator"])


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    made = federation_in(tmp_path_factory.mktemp("failures"))
    made.start()
    yield made
    made.stop()


@pytest.mark.parametrize("secure_sum", [False, True])
@pytest.mark.parametrize("moment", MOMENTS)
@STARTED_AGAIN
def test_a_side_that_dies_in_a_phase_comes_back_and_the_run_goes_on(
    federation, who, moment, secure_sum
):
    number = MOMENTS[moment]
    name = f"{who}-{number}-{secure_sum}"
    path, run = killed_in(federation, who, number, name, secure_sum=secure_sum)
    federation.start(who)
    status = finish(federation, run, path)
    assert status["attempt"] > 1
    assert status["present"] == list(federation.parties)


@STARTED_AGAIN
def test_a_side_that_dies_before_a_job_begins(federation, who):
    federation.kill("st-mary")  # so that the job must wait
    path, run = started(federation, f"{who}-before")
    federation.kill(who)
    federation.start(who, "st-mary")
    finish(federation, run, path)


@STARTED_AGAIN
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


@STARTED_AGAIN
def test_a_side_that_is_stopped_in_the_middle_and_started_again(federation, who):
    """Not killed: it tidies up, and must not refuse what it is asked meanwhile."""
    path, run = started(federation, f"{who}-stopped")
    federation.wait_for_round(run, 2)
    stopped = federation.processes.pop(who)
    stopped.terminate()
    stopped.wait(30)
    federation.start(who)
    assert finish(federation, run, path)["present"] == list(federation.parties)


def test_a_slow_party_is_waited_for(federation):
    path, run = started(federation, "slow")
    federation.wait_for_round(run, 1)
    until = time.monotonic() + 30  # longer than a silence may be
    while time.monotonic() < until:
        federation.signal("north", signal.SIGSTOP)
        time.sleep(2.5)
        federation.signal("north", signal.SIGCONT)
        time.sleep(0.02)
    assert finish(federation, run, path)["attempt"] == 1


def test_a_party_that_is_silent_too_long_is_asked_again_in_a_new_attempt(federation):
    path, run = started(federation, "silent")
    with in_round(federation, run, 8):
        federation.wait(run, lambda status: status["state"] != "running")
    assert finish(federation, run, path)["attempt"] > 1


def test_a_party_that_stays_away_is_dropped_where_the_quorum_allows(federation):
    _, run = killed_in(federation, "north", 8, "dropped", "quorum = 2", secure_sum=False)
    status = ended(federation, run)
    assert (status["state"], status["present"]) == ("finished", ["st-mary", "lakeside"]), status
    federation.start("north")


def test_a_party_that_stays_away_pauses_a_job_that_needs_it_and_resuming_ends_it(federation):
    path, run = killed_in(federation, "north", 8, "paused")
    status = ended(federation, run)
    assert status["state"] == "paused", status
    assert "These parties are away: north." in status["message"]
    assert status["rounds"] >= 8
    other = wide.write_job(federation, "paused-other", n_estimators=21, max_depth=9)
    refused = federation.job("resume", run, str(other), check=False)
    assert "was started with another job file" in refused.stderr
    federation.job("resume", run, str(path))  # nobody has to wait for the party at a terminal
    federation.wait(run, lambda status: status["message"] == "Waiting for: north.")
    federation.start("north")
    finish(federation, run, path)


def test_a_paused_run_is_aborted_for_good_and_asks_nobody(federation):
    path, run = killed_in(federation, "north", 8, "given-up")
    paused = ended(federation, run)
    assert paused["state"] == "paused", paused
    assert "aborted" in federation.job("abort", run).stdout
    federation.start("north")
    federation.wait_until_connected()
    refused = federation.job("resume", run, str(path), check=False)
    assert "Only a paused run can be resumed" in refused.stderr
    now = federation.status(run)
    assert (now["state"], now["rounds"], now["attempt"]) == (
        "aborted",
        paused["rounds"],
        paused["attempt"],
    )
    assert (federation.root / "coordinator" / "runs" / run / "report.json").exists()


def test_nobody_is_dropped_while_masked_sums_would_show_its_counts(federation):
    masked = {"secure_sum": True, "coordinator": "sighted"}
    path, run = killed_in(federation, "north", 2, "laying", "quorum = 2", **masked)
    status = ended(federation, run)
    assert (status["state"], status["phase"]) == ("paused", "binning"), status
    assert "masked sums without them would show their counts" in status["message"]
    federation.start("north")
    federation.job("resume", run, str(path), "--follow", "--out", "laid")
    assert finish(federation, run, path)["present"] == list(federation.parties)


@pytest.mark.parametrize("secure_sum", [False, True])
def test_a_private_job_pays_once_whatever_dies(federation, secure_sum):
    settings = {"epsilon": 1.0, "n_estimators": 8, "max_depth": 4, "secure_sum": secure_sum}
    policy = "epsilon_per_job = 1.0\nepsilon_total = 4.0"  # rows have one account, for both jobs
    for name in federation.parties:
        wide.write_party(federation, name, policy)
    before = {name: left_at(federation, name) for name in federation.parties}
    try:
        path = wide.write_job(federation, f"paid-{secure_sum}", **settings)
        run = federation.job("start", str(path)).stdout.strip()
        with in_round(federation, run, 4):
            federation.kill("north")
            federation.kill("coordinator")
        federation.start("coordinator", "north")
        status = ended(federation, run)
        assert status["state"] == "finished", status
        for name in federation.parties:
            assert left_at(federation, name) == before[name] - 1
            said = federation.spinney("ledger", "show", "ledger.db", "--json", folder=name).stdout
            federation.spinney("ledger", "verify", "ledger.db", folder=name)
            assert f'"paid-{secure_sum}' in said
    finally:
        for name in federation.parties:
            wide.write_party(federation, name)


def left_at(federation, name):
    """Return what is left of a party's budget for a record added or removed."""
    facts = federation.spinney("party", "status", "party.toml", "--json", folder=name).stdout
    return float(json.loads(facts)["budget"].split()[1])
