"""A protocol is added by a folder and a line in the registry; no outer layer is touched."""

import json
import re
from io import StringIO

import numpy as np
import pytest
from rich.console import Console
from rich.progress import Progress
from typer.testing import CliRunner

from deployed.handmade import (  # type: ignore[import-not-found]
    CLINICS,
    EXAMPLES,
    Sites,
    agreed_job,
    attempt_of,
    clinics_in,
    coordinator_in,
    status_of,
    write_party,
)
from spinney import load_report
from spinney.cli.main import app
from spinney.deployment.coordinator.process import Run
from spinney.deployment.coordinator.runs import RunFolder
from spinney.deployment.costs import cost_of
from spinney.deployment.party.config import load_party
from spinney.deployment.party.policy import check_policy
from spinney.deployment.party.progress import progress_in
from spinney.deployment.text import standing_of
from spinney.errors import PolicyError, SettingError
from spinney.jobs.registry import SPECS
from spinney.protocols.model import ForestModel
from spinney.protocols.verified.simulated import connect_parties
from spinney.simulation.progress import _BarStages
from spinney.tables.columns import VectorColumns
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MemoryTable
from toy.toy_protocol import NAME, SPEC, ToyParty, ToySettings  # type: ignore[import-not-found]


@pytest.fixture(autouse=True)
def known(monkeypatch):
    """Other tests do not know the protocol."""
    monkeypatch.setitem(SPECS, NAME, SPEC)


def tables():
    schema = Schema((Column("x", "number"),), Label("ill", "class", ("no", "yes")))
    columns = VectorColumns((np.arange(5, dtype=np.float32),))
    return {
        name: MemoryTable(schema, columns, np.array(target, np.int32))
        for name, target in {"a": [0, 0, 0, 1, 1], "b": [0, 1, 1, 1, 1], "c": [0] * 5}.items()
    }


@pytest.mark.parametrize("is_masked", [False, True])
def test_it_runs_in_process(is_masked):
    sides = {name: ToyParty(table) for name, table in tables().items()}
    channel = connect_parties(sides, is_masked=is_masked)
    settings = ToySettings(task="classification")
    training = SPEC.train(channel, settings, n_jobs=None, progress=lambda *_: None)
    assert training.model.forest.moments.tolist() == [[9, 6]]
    assert [r.question for r in channel.rounds] == ["Schema", "CountLabels"]
    assert channel.rounds[-1].protection.startswith("masked") == is_masked


def job_file(folder, settings=""):
    text = (EXAMPLES / "three_clinics.toml").read_text()
    head, rest = text.split("[settings]")
    schema = "[schema]" + rest.split("[schema]")[1].replace('path = "', f'path = "{EXAMPLES}/')
    path = folder / "job.toml"
    named = head.replace("[job]", f'[job]\nprotocol = "{NAME}"')
    path.write_text(f"{named}[settings]\n{settings}\n{schema}")
    return path


@pytest.mark.parametrize("settings", ["times = 2", "secure_sum = true"])
def test_it_runs_from_a_job_file(tmp_path, settings):
    path = job_file(tmp_path, settings)
    out = tmp_path / "run"
    done = CliRunner().invoke(app, ["simulate", str(path), "--out", str(out), "--json"])
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["expects_identical"] is True
    assert ForestModel.load(out / "model.spinney").protocol == NAME
    assert load_report(out).protocol == NAME


def test_a_key_of_another_protocol_is_refused_by_whose_it_is(tmp_path):
    done = CliRunner().invoke(app, ["simulate", str(job_file(tmp_path, "max_depth = 3"))])
    assert done.exit_code == SettingError.exit_code
    assert f"protocol = '{NAME}' has no setting 'max_depth': it belongs to" in done.stderr


@pytest.mark.parametrize("secure_sum", ["false", "true"])
def test_it_runs_deployed_with_progress_policy_and_cost(tmp_path, secure_sum):
    clinics_in(tmp_path)
    alone = {"n_estimators": None, "max_depth": None}
    agreed = agreed_job(tmp_path, f'protocol = "{NAME}"', times=3, secure_sum=secure_sum, **alone)
    sites = Sites(tmp_path, agreed)
    Run(coordinator_in(tmp_path), agreed, attempt_of(agreed), sites.bytes_to).conduct()
    sites.close()
    status = status_of(tmp_path)
    assert (status.state, status.levels, status.step) == ("finished", 3, "level")
    assert agreed.is_masked == (secure_sum == "true")
    cost = cost_of(agreed)
    assert cost.rounds is not None
    assert status.rounds <= cost.rounds
    for name in CLINICS:
        kept = tmp_path / name / "records" / "runs" / "run-1"
        assert (kept / "model.spinney").read_bytes() == (
            tmp_path / "runs" / "run-1" / "model.spinney"
        ).read_bytes()
        progress = progress_in(kept)
        assert progress is not None
        assert (progress.level, progress.levels) == (3, 3)


def test_its_steps_are_shown_as_it_counts_them(tmp_path, monkeypatch):
    shown = []
    write = RunFolder.write

    def noted(self, status):
        shown.extend(re.findall(r"running; (counting.*), round", standing_of(status)))
        return write(self, status)

    monkeypatch.setattr(RunFolder, "write", noted)
    monkeypatch.setattr("spinney.deployment.coordinator.process._TELL_EVERY", 0.0)
    clinics_in(tmp_path)
    alone = {"n_estimators": None, "max_depth": None}
    agreed = agreed_job(tmp_path, f'protocol = "{NAME}"', times=3, **alone)
    sites = Sites(tmp_path, agreed)
    Run(coordinator_in(tmp_path), agreed, attempt_of(agreed), sites.bytes_to).conduct()
    sites.close()
    levels = [f"counting 1 tree, level {number} of 3" for number in (1, 2, 3)]
    assert list(dict.fromkeys(shown)) == levels


def test_its_steps_move_the_bar_of_a_simulation():
    bar = Progress(console=Console(file=StringIO()))
    stages = _BarStages(bar)
    stages.expect(1)
    step = stages.begin("joint forest", 1, SPEC.step)
    seen = []

    def noted(*told):
        step(*told)
        seen.append((bar.tasks[0].description, bar.tasks[0].completed))

    sides = {name: ToyParty(table) for name, table in tables().items()}
    channel = connect_parties(sides, is_masked=False)
    settings = ToySettings(task="classification", times=3)
    SPEC.train(channel, settings, n_jobs=None, progress=noted)
    assert [text.rpartition(", ")[2] for text, _ in seen] == [f"level {n} of 3" for n in (1, 2, 3)]
    done = [completed for _, completed in seen]
    assert done == sorted(set(done))


def test_a_policy_knows_it_by_its_contract(tmp_path):
    clinics_in(tmp_path)
    alone = {"n_estimators": None, "max_depth": None}
    agreed = agreed_job(tmp_path, f'protocol = "{NAME}"', **alone)
    write_party(tmp_path, "north", policy='protocols = ["horizontal_forest"]')
    party = load_party(tmp_path / "north" / "party.toml")
    with pytest.raises(PolicyError, match="rule 'protocols'"):
        check_policy("north", party.policy, agreed, None)
    write_party(tmp_path, "north", policy="min_samples_leaf = 2000000")
    party = load_party(tmp_path / "north" / "party.toml")
    with pytest.raises(PolicyError, match="rule 'min_samples_leaf'"):
        check_policy("north", party.policy, agreed, None)
