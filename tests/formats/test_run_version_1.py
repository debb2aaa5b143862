"""A run that was paused under Spinney 0.1.0, after an upgrade; and a finished one, which is read.

Over columns it is resumed. Over rows its parties obeyed their coordinator and do not go on so. The
job is started again, with the same model, and a private one costs nothing more.

Every folder of `data/run_version_1` is a small federation: the coordinator's folder with its run,
and of the paused ones each party's file, rows, ledger and records, all as the old code left them in
the middle of the run. `finished` is what became of `paused`, and `finished_columns` of
`paused_columns`, by the old code. Folders called `runs` are called `runs_` here: git is told to
ignore the others.
"""

from contextlib import ExitStack
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest

from deployed.handmade import kits  # type: ignore[import-not-found]
from spinney import load_model, load_report
from spinney.deployment.coordinator.config import load_coordinator
from spinney.deployment.coordinator.process import Run
from spinney.deployment.coordinator.runs import RunFolder
from spinney.deployment.job import Agreed, Attempt
from spinney.deployment.party.config import load_party
from spinney.deployment.party.process import RunParty
from spinney.deployment.party.tables import open_ledger
from spinney.deployment.text import line_of, releases_in
from spinney.errors import ProtocolError
from spinney.privacy.budget import Unit
from spinney.protocols.model import ForestModel
from spinney.report.door import release
from spinney.transport import codec
from spinney.transport.journal import Journal
from spinney.transport.remote.resident import Resident
from spinney.transport.remote.wire import Envelope

DATA = Path(__file__).parent / "data" / "run_version_1"
RUN = "0f3e9c2a-5d1b-4a77-9b1e-2c6d8e4f7a10"
ASKER = "alice@clinics.example.org"
each_paused = pytest.mark.parametrize("name", ["paused", "paused_private", "paused_columns"])


def attempted(place: Path, agreed: Agreed, attempt: int, hear: Any = None, run: str = RUN) -> None:
    """Run one attempt in this process: the coordinator, and every party behind its own end."""
    coordinator = load_coordinator(place / "coordinator.toml")
    with ExitStack() as parties:
        ends = {}
        for name in agreed.parties:
            party = load_party(place / name / "party.toml")
            side = RunParty(party, agreed, run, attempt, asker=ASKER)
            parties.callback(side.close)
            ends[name] = Resident(side, run=run, attempt=attempt, known=side.known, hold=60.0)
            parties.callback(ends[name].close)

        def send(targets: Any, data: bytes) -> dict[str, object]:
            if hear is not None:
                hear(data)
            return {name: ends[name].answer(data) for name in targets}

        Run(coordinator, agreed, Attempt(run, attempt, agreed.parties), send).conduct()


def run_in(place: Path) -> RunFolder:
    """Return the run in a coordinator's folder."""
    return RunFolder(load_coordinator(place / "coordinator.toml").runs, RUN)


def copied(name: str, to: Path) -> Path:
    """Return a copy of a federation."""
    place = copytree(DATA / name, to / "federation")
    for folder in sorted(place.rglob("runs_")):
        folder.rename(folder.with_name("runs"))
    return place


@pytest.fixture
def place(name, tmp_path):
    return copied(name, tmp_path)


@each_paused
def test_a_paused_run_says_how_it_stands(name, place):
    run = run_in(place)
    status = run.status()
    assert status is not None
    assert status.state == "paused"
    agreed = Agreed.of_bytes(run.job.read_bytes())
    assert agreed.to_bytes() == run.job.read_bytes()
    assert status.digest == agreed.digest
    assert len(Journal(run.rounds).rounds()) >= status.rounds > 2
    assert "disk is full" in line_of(status)
    assert "disk is full" in load_report(run.folder).ended
    for party in agreed.parties:
        (released,) = releases_in(load_party(place / party / "party.toml").records)
        assert (released["run"], released["has_model"]) == (RUN, False)
        assert released["job"] == agreed.name
        assert released["progress"].startswith("question ")


@pytest.mark.parametrize("name", ["paused_columns"])
def test_a_paused_run_goes_on_from_its_finished_rounds_to_its_end(name, place):
    run = run_in(place)
    asked: set[str] = set()

    def hear(data: bytes) -> None:
        asked.add(codec.decode(data, Envelope).kind)

    attempted(place, Agreed.of_bytes(run.job.read_bytes()), 2, hear)
    status = run.status()
    assert status is not None
    assert (status.state, status.attempt) == ("finished", 2)
    assert not asked & {"SchemaAsk", "FactsAsk", "JoinAsk", "MeetAsk", "LabelsAsk"}
    assert not run.rounds.exists()
    assert load_report(run.folder).attempts == 2
    for party in ("north", "south"):
        own = place / party / "records" / "runs" / RUN / "part.spinney"
        was = DATA / "finished_columns" / party / "records" / "runs_" / RUN / "part.spinney"
        assert own.read_bytes() == was.read_bytes()


@pytest.mark.parametrize("name", ["paused", "paused_private"])
def test_a_run_in_which_parties_obeyed_is_begun_again_at_no_further_cost(name, place):
    run = run_in(place)
    agreed = Agreed.of_bytes(run.job.read_bytes())
    for party in agreed.parties:  # since then, two parties have to be asked for by name
        file = place / party / "party.toml"
        file.write_text(file.read_text().replace("[policy]\n", "[policy]\nmin_parties = 2\n"))
    kits(place, agreed.parties)  # in 0.1.0 a job without masks needed no keys
    with pytest.raises(ProtocolError, match="Start the job again as a new run"):
        attempted(place, agreed, 2)
    anew = RUN.replace("0f3e9c2a", "1f3e9c2a")
    attempted(place, agreed, 1, run=anew)
    folder = run.folder.with_name(anew)
    if name == "paused":
        was = DATA / "finished" / "runs_" / RUN / "model.spinney"
        then = release(ForestModel.load(was), agreed.release)[0].forest
        now = ForestModel.load(folder / "model.spinney").forest
        for part in ("tree_start", "feature", "left", "missing_left", "subset", "value"):
            np.testing.assert_array_equal(getattr(now, part), getattr(then, part))
        return  # thresholds are in the middle of empty cells since
    for party in ("north", "south"):
        ledger = open_ledger(load_party(place / party / "party.toml"))
        ledger.verify()
        assert str(ledger.spent("wards-private", Unit.RECORD_ADD_REMOVE)) == "6"
        assert str(ledger.left_for_life("wards", Unit.RECORD_ADD_REMOVE)) == "10"
        ledger.close()


def test_a_finished_run_is_read(tmp_path):
    run = run_in(copied("finished", tmp_path))
    status = run.status()
    assert status is not None
    assert (status.state, status.attempt) == ("finished", 2)
    report = load_report(run.folder)
    assert (report.protocol, report.parties) == ("horizontal_forest", ("north", "south"))
    assert (report.attempts, report.dropped, report.rounds) == (2, (), status.rounds)
    model = load_model(run.folder / "model.spinney")
    assert model.classes_.tolist() == ["no", "yes"]
