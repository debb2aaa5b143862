"""Jobs that are interrupted where a test wishes, and what must hold at their end."""

import os
import signal
from contextlib import contextmanager, suppress
from pathlib import Path

from deployed import wide  # type: ignore[import-not-found]
from deployed.loopback import OVER, Federation  # type: ignore[import-not-found]


def federation_in(root: Path) -> Federation:
    """Make a federation whose jobs can be interrupted; its kernels are compiled."""
    limits = "patience_seconds = 40\nsilence_seconds = 12\nreply_seconds = 5"
    made = Federation(root, limits=limits)
    wide.write_tables(made)
    wide.simulated(made, wide.write_job(made, "warm", n_estimators=2, max_depth=2))
    made.enrol()
    return made


def started(federation: Federation, name: str, job: str = "", **settings: object):
    """Start a job; return its file and its run."""
    path = wide.write_job(federation, name, job, n_estimators=20, max_depth=9, **settings)
    return path, federation.job("start", str(path)).stdout.strip()


@contextmanager
def in_round(federation: Federation, run: str, number: int, bystander: str = "lakeside"):
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


def killed_in(
    federation: Federation, who: str, number: int, name: str, job: str = "", **settings: object
):
    """Start a job and kill a side in the round that follows so many; the kill may come too late.

    Then the job is started again, under another name.
    """
    for attempt in range(8):
        path, run = started(federation, f"{name}-{attempt}", job, **settings)
        with in_round(federation, run, number):
            over = federation.status(run)["state"] in OVER
            if not over:
                federation.kill(who)
        if not over:
            return path, run
    raise AssertionError("The job was always over before the kill.")


def ended(federation: Federation, run: str):
    """Wait until nothing more will happen to a run by itself; return how it stands."""
    return federation.wait(run, lambda status: status["state"] in OVER)


def finish(federation: Federation, run: str, path: Path):
    """Wait for a run's end and check that its model is that of one process."""
    status = ended(federation, run)
    assert status["state"] == "finished", status
    model = federation.root / "coordinator" / "runs" / run / "model.spinney"
    assert model.read_bytes() == wide.simulated(federation, path)
    return status
