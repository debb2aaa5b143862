"""An old file of a run's steps, put back by a thief, does not let a party be told other things."""

import shutil
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from spinney.deployment.party.steps import StoredSteps
from spinney.errors import ProtocolError
from spinney.privacy.ledger import Ledger
from spinney.protocols.verified.messages import Opened

OTHERWISE = r"was told something else of step 2 before\. Somebody tells it again, or has put back"


def opened(number, tag=0):
    return Opened(number, ("a", "b"), (), np.full(3, tag, np.uint64))


@pytest.fixture
def ledger(tmp_path):
    with closing(Ledger.open(tmp_path / "ledger.db", "north")) as made:
        yield made


@pytest.fixture
def steps(tmp_path, ledger):
    return StoredSteps(tmp_path / "runs" / "run-1" / "steps", lambda: ledger)


def test_an_old_folder_put_back_can_only_be_told_the_same(tmp_path, ledger, steps):
    steps.secret(b"s" * 32)
    steps.keep(opened(1))
    folder = tmp_path / "runs" / "run-1" / "steps"
    shutil.copytree(folder, tmp_path / "old")
    steps.keep(opened(2))
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "old", folder)
    thief = StoredSteps(folder, lambda: ledger)
    assert [one.number for one in thief.kept()] == [1]
    with pytest.raises(ProtocolError, match=OTHERWISE):
        thief.keep(opened(2, tag=7))
    with pytest.raises(ProtocolError, match=OTHERWISE):
        thief.keep(replace(opened(2), answered=("a",)))
    thief.keep(opened(2))  # what it was told before: the run goes on
    assert [one.number for one in thief.kept()] == [1, 2]


def test_a_changed_step_on_disk_is_noticed(tmp_path, ledger, steps):
    steps.keep(opened(1))
    steps.keep(opened(2))
    folder = tmp_path / "runs" / "run-1" / "steps"
    other = StoredSteps(tmp_path / "runs" / "run-2" / "steps", lambda: ledger)
    other.keep(opened(2, tag=7))  # of another run
    shutil.copy(tmp_path / "runs" / "run-2" / "steps" / "000002.step", folder)
    with pytest.raises(ProtocolError, match=OTHERWISE):
        steps.kept()


def test_a_run_that_ended_stays_ended_without_its_files(tmp_path, ledger, steps):
    steps.keep(opened(1))
    steps.end("What this party was told is not what the parties replied.")
    shutil.rmtree(tmp_path / "runs" / "run-1" / "steps")
    with pytest.raises(ProtocolError, match="is not what the parties replied"):
        StoredSteps(tmp_path / "runs" / "run-1" / "steps", lambda: ledger).secret(b"s" * 32)
