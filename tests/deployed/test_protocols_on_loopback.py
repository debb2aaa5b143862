"""Every protocol on a real federation: three parties, the saved model byte for byte; evaluation."""

import json
from typing import Any

import pytest

from deployed.loopback import EXAMPLES, Federation  # type: ignore[import-not-found]
from spinney import load_model

pytestmark = pytest.mark.slow
EXACT: dict[str, dict[str, Any]] = {
    "horizontal_forest": {"n_estimators": 10, "max_depth": 5},
    "extra_trees": {"n_estimators": 10, "max_depth": 5},
    "genetic_tree": {"n_generations": 5, "population_size": 8, "max_depth": 3},
}
NOISY: dict[str, dict[str, Any]] = {
    "horizontal_forest": {"epsilon": 2, "n_estimators": 4, "max_depth": 3},
    "private_tree": {"epsilon": 2, "max_depth": 3, "method": "propose", "n_rows": 500},
    "private_forest": {"epsilon": 2, "n_estimators": 5, "max_depth": 3},
    "extra_trees": {"epsilon": 2, "label_privacy": "local", "n_estimators": 4, "max_depth": 3},
}


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    """A federation that is up."""
    made = Federation(tmp_path_factory.mktemp("protocols"))
    made.enrol()
    made.start()
    yield made
    made.stop()


def kept_at(federation, name, run):
    return (federation.root / name / "records" / "runs" / run / "model.spinney").read_bytes()


def finished(federation, path):
    said = federation.job("start", str(path), "--follow", "--json", "--out", f"{path.stem}-run")
    return json.loads(said.stdout)["run"]


@pytest.mark.parametrize("secure_sum", [False, True])
@pytest.mark.parametrize("protocol", EXACT)
def test_the_deployed_model_is_the_simulated_one(federation, protocol, secure_sum):
    name = f"{protocol}-{'masked' if secure_sum else 'open'}"
    path = federation.write_job(name, protocol, secure_sum=secure_sum, **EXACT[protocol])
    run = finished(federation, path)
    simulated = (federation.simulated(path) / "model.spinney").read_bytes()
    if protocol != "genetic_tree":
        model = federation.root / "lead" / f"{name}-run" / "model.spinney"
        assert model.read_bytes() == simulated
    for party in federation.parties:
        own = simulated
        if protocol == "genetic_tree":
            own = load_model(path.with_suffix("")).model_.of_owner(party).to_bytes()
        assert kept_at(federation, party, run) == own


@pytest.mark.parametrize("protocol", NOISY)
def test_a_private_job_started_again_gives_what_was_paid_for(federation, protocol):
    path = federation.write_job(f"{protocol}-private", protocol, **NOISY[protocol])
    runs = [finished(federation, path) for _ in range(2)]
    for party in federation.parties:
        first, second = (kept_at(federation, party, run) for run in runs)
        assert first == second
    said = federation.spinney("ledger", "verify", "ledger.db", folder="north")
    assert said.returncode == 0


def test_evaluation_and_importances_are_a_job(federation):
    path = federation.write_job("judged", held_out=0.25, n_estimators=10, max_depth=5)
    run = finished(federation, path)
    said = federation.job("evaluate", run, str(path), "--json", "--out", "judged-again")
    assert "held-out rows" in json.loads(said.stdout)["message"]
    report = json.loads((federation.root / "lead" / "judged-again" / "report.json").read_text())
    assert report["explanation"]["n_rows"] > 0
    assert any(found["permutation"] is not None for found in report["importances"])
    other = federation.write_job("judged", held_out=0.5, n_estimators=10, max_depth=5)
    refused = federation.job("evaluate", run, str(other), check=False)
    assert "The job file is not the one that run" in refused.stderr


def test_an_aborted_run_has_a_report_of_what_left(federation):
    path = federation.write_job("given-up", n_estimators=100, max_depth=12)
    run = federation.job("start", str(path)).stdout.strip()
    federation.wait_for_round(run, 3)
    federation.job("abort", run)
    folder = federation.root / "coordinator" / "runs" / run
    federation.wait(run, lambda status: status["state"] == "aborted")
    report = federation.read_when_there(folder / "report.json")
    assert report["ended"] == "Aborted."
    assert [entry["question"] for entry in report["disclosures"]][:2] == ["Schema", "Facts"]
    assert (folder / "report.html").exists()


@pytest.mark.parametrize("labels", ["shared", "encrypted"])
def test_a_forest_over_columns_is_the_simulated_one(tmp_path, labels):
    both = Federation(tmp_path / "columns", ("bank", "shop"))
    text = (EXAMPLES / "bank_and_shop.toml").read_text()
    for name, section in zip(both.parties, text.split("[party.columns]")[1:], strict=True):
        columns = section.split("[[party]]")[0].split("[simulation]")[0]
        table = f'source = "csv"\npath = "{EXAMPLES / name}.csv"\nrow_id = "customer"\n'
        both.write_party(name, f"{table}[table.columns]\n{columns}")
    whole = text.replace('path = "', f'path = "{EXAMPLES}/').replace("held_out = 0.25", "")
    whole = whole.replace("n_estimators = 100", "n_estimators = 5\nbootstrap = false")
    whole = whole.replace('labels = "shared"', f'labels = "{labels}"\njoin_parts = true')
    path = both.root / "lead" / "bank-and-shop.toml"
    path.write_text(whole)
    both.enrol()
    both.start()
    try:
        both.job("start", str(path), "--follow", "--out", "joined")
        both.spinney("simulate", str(path), "--out", str(both.root / "alone"))
        deployed = (both.root / "lead" / "joined" / "model.spinney").read_bytes()
        assert deployed == (both.root / "alone" / "model.spinney").read_bytes()
    finally:
        both.stop()
