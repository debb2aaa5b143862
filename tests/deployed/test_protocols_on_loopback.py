"""Every protocol on one real federation of three parties: the saved model, byte for byte."""

import json
import signal
from typing import Any

import pytest

from deployed import by_columns  # type: ignore[import-not-found]
from deployed.loopback import Federation  # type: ignore[import-not-found]
from deployed.one_process import models_of  # type: ignore[import-not-found]
from spinney.cli.ledgers import describe_ledger
from spinney.deployment.job import agreement_of
from spinney.jobs.file import load_job
from spinney.jobs.registry import SPECS

_SMALL = {"n_estimators": 5, "max_depth": 3}
EXACT: dict[str, dict[str, Any]] = {
    "horizontal_forest": {"n_estimators": 10, "max_depth": 5},
    "extra_trees": {"n_estimators": 10, "max_depth": 5},
    "genetic_tree": {"n_generations": 5, "population_size": 8, "max_depth": 3},
}
_TREE = {"epsilon": 2, "max_depth": 3, "method": "propose", "n_rows": 500}
_BOOSTED = {"n_passes": 1, "max_depth": 2}
_EVOLVED = {"n_generations": 2, "population_size": 4, "max_depth": 2, "size_epsilon": 1}
NOISY: dict[str, dict[str, Any]] = {
    "horizontal_forest open": {"epsilon": 2, **_SMALL},
    "horizontal_forest masked": {"epsilon": 2, "secure_sum": True, **_SMALL},
    "private_tree open": {**_TREE, "secure_sum": False},
    "private_tree masked": _TREE,
    "private_boosting open": {"epsilon": 2, "secure_sum": False, **_BOOSTED},
    "private_boosting masked": {"epsilon": 2, "delta": 1e-6, **_BOOSTED},
    "private_forest open": {"epsilon": 2, "secure_sum": False, **_SMALL},
    "private_forest masked": {"epsilon": 2, **_SMALL},
    "extra_trees open": {"epsilon": 2, "label_privacy": "local", **_SMALL},
    "extra_trees masked": {"epsilon": 2, "label_privacy": "local", "secure_sum": True, **_SMALL},
    "genetic_tree open": {**_EVOLVED, "secure_sum": False},
    "genetic_tree masked": {**_EVOLVED, "secure_sum": True},
}
COLUMNS: dict[str, dict[str, Any]] = {  # nothing is added up over parties: there is no sum to mask
    "vertical_forest shared": {"labels": "shared"},
    "vertical_forest encrypted": {"labels": "encrypted"},
    "vertical_forest joined": {"labels": "shared", "join_parts": True},
    "vertical_forest private": {"labels": "shared", "label_epsilon": 4},
}


def test_every_protocol_is_tried():
    tried = {case.split()[0] for case in (*EXACT, *NOISY, *COLUMNS)}
    not_yet = {
        "horizontal_boosting",
        "vertical_boosting",
    }  # only in one process: test_every_protocol.py
    assert tried == set(SPECS) - not_yet
    in_sums = {name for name, spec in SPECS.items() if spec.summed}
    masked = {case.split()[0] for case in NOISY if case.endswith("masked")} | set(EXACT)
    assert masked == in_sums - not_yet


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """A federation that is up."""
    with Federation(tmp_path_factory.mktemp("protocols")).up() as made:
        yield made


@pytest.fixture
def clinics(running):
    """The federation, each party with rows of its own."""
    for name in running.parties:
        running.write_party(name)
    return running


@pytest.fixture
def columns(running):
    """The federation, each party with columns of its own."""
    by_columns.write_parties(running)
    return running


def kept_at(federation, name, run, file="model.spinney"):
    return (federation.root / name / "records" / "runs" / run / file).read_bytes()


def paid_in(ledger, job):
    """Return what a job paid for; what costs nothing is noted at every run."""
    (account,) = (one for one in describe_ledger(ledger, job).jobs if one.name == job)
    free = ("UNPROTECTED", "HIDDEN")
    return [release for release in account.releases if not release.cost.startswith(free)]


def finished(federation, path):
    said = federation.job("start", str(path), "--follow", "--json", "--out", f"{path.stem}-run")
    return json.loads(said.stdout)["run"]


@pytest.mark.slow
@pytest.mark.parametrize("secure_sum", [False, True])
@pytest.mark.parametrize("protocol", EXACT)
def test_the_deployed_model_is_the_simulated_one(clinics, protocol, secure_sum):
    name = f"{protocol}-{'masked' if secure_sum else 'open'}"
    path = clinics.write_job(name, protocol, secure_sum=secure_sum, **EXACT[protocol])
    run = finished(clinics, path)
    simulated = (clinics.simulated(path) / "model.spinney").read_bytes()
    if protocol != "genetic_tree":
        model = clinics.root / "lead" / f"{name}-run" / "model.spinney"
        assert model.read_bytes() == simulated
    own = dict.fromkeys(clinics.parties, simulated)
    if protocol == "genetic_tree":  # every party keeps its tree as it is
        own = models_of(clinics.root, agreement_of(load_job(path, deployed=True)))
    for party in clinics.parties:
        assert kept_at(clinics, party, run) == own[party]


@pytest.mark.slow
@pytest.mark.parametrize("case", NOISY)
def test_a_private_model_is_that_of_one_process_with_the_noise_that_was_paid_for(clinics, case):
    protocol, how = case.split()
    path = clinics.write_job(f"{protocol}-private-{how}", protocol, **NOISY[case])
    run = finished(clinics, path)
    agreed = agreement_of(load_job(path, deployed=True))
    assert agreed.is_masked == (how == "masked")
    ledgers = {name: clinics.root / name / "ledger.db" for name in clinics.parties}
    spent = {name: paid_in(path, agreed.name) for name, path in ledgers.items()}
    models = models_of(clinics.root, agreed)
    model = clinics.root / "lead" / f"{path.stem}-run" / "model.spinney"
    assert model.read_bytes() == models[""]
    for name in clinics.parties:
        assert kept_at(clinics, name, run) == models[name]
        assert paid_in(ledgers[name], agreed.name) == spent[name]  # nothing was drawn anew
        clinics.spinney("ledger", "verify", "ledger.db", folder=name)


@pytest.mark.slow
@pytest.mark.parametrize("case", COLUMNS)
def test_a_forest_over_columns_is_that_of_one_process(columns, case):
    path = by_columns.write_job(columns, case.replace(" ", "-"), **COLUMNS[case])
    run = finished(columns, path)
    models = models_of(columns.root, agreement_of(load_job(path, deployed=True)))
    for name in columns.parties:
        assert kept_at(columns, name, run, "part.spinney") == models[name]
    model = columns.root / "lead" / f"{path.stem}-run" / "model.spinney"
    if case.endswith("joined"):
        assert model.read_bytes() == models[""]
        assert by_columns.simulated(columns, path) == models[""]
    else:
        assert not model.exists()


@pytest.mark.slow
def test_masks_are_refused_where_nothing_is_added_up(columns):
    path = by_columns.write_job(columns, "masked-columns", secure_sum=True)
    refused = columns.job("start", str(path), check=False)
    assert refused.returncode == 10
    assert "sums nothing over parties" in refused.stderr


@pytest.mark.slow
def test_an_aborted_run_has_a_report_of_what_left(clinics):
    seen = {"secure_sum": True, "coordinator": "sighted"}  # a blind one knows steps, no questions
    path = clinics.write_job("given-up", n_estimators=100, max_depth=12, **seen)
    run = clinics.job("start", str(path)).stdout.strip()
    clinics.wait_for_round(run, 3)
    clinics.signal("north", signal.SIGSTOP)  # the job cannot end before it is aborted
    try:
        clinics.job("abort", run)
    finally:
        clinics.signal("north", signal.SIGCONT)
    folder = clinics.root / "coordinator" / "runs" / run
    clinics.wait(run, lambda status: status["state"] == "aborted")
    report = clinics.read_when_there(folder / "report.json")
    assert report["ended"] == "The run was aborted."
    assert [entry["question"] for entry in report["disclosures"]][:2] == ["Schema", "Facts"]
    assert (folder / "report.html").exists()
