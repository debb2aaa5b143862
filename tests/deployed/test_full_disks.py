"""A disk that is full, at the coordinator or at a party: the job pauses, and goes on from there."""

import os
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from deployed.interrupting import (  # type: ignore[import-not-found]
    ended,
    federation_in,
    finish,
    in_round,
    started,
)

pytestmark = pytest.mark.slow
SIDES = ("coordinator", "north")


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    """A federation in which two sides have small disks of their own."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    made = federation_in(tmp_path_factory.mktemp("disks"))
    with small_disk(made.root / SIDES[0]), small_disk(made.root / SIDES[1]):
        made.start()
        yield made
        made.stop()


@contextmanager
def small_disk(folder: Path):
    """Put a folder on a disk of its own."""
    whole = folder.with_name(f"{folder.name}.whole")
    folder.rename(whole)
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", folder], check=True)
    try:
        subprocess.run(["cp", "-a", f"{whole}/.", folder], check=True)
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill(folder: Path) -> Path:
    """Leave no room on a folder's disk; return the file that takes it all."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    assert os.statvfs(folder).f_bavail == 0
    return filler


@pytest.mark.parametrize("secure_sum", [False, True])
@pytest.mark.parametrize("who", SIDES)
def test_a_full_disk_pauses_the_job_and_with_room_it_goes_on(federation, who, secure_sum):
    path, run = started(federation, f"full-{who}-{secure_sum}", secure_sum=secure_sum)
    with in_round(federation, run, 8):
        filler = fill(federation.root / who)
    status = ended(federation, run)
    filler.unlink()
    assert status["state"] == "paused", status
    assert "make room" in status["message"].lower()
    federation.job("resume", run, str(path), "--follow", "--out", f"room-{who}-{secure_sum}")
    finish(federation, run, path)
