"""One real federation of three parties on loopback: enrol, start, propose, train, predict, stop."""

import json
from pathlib import Path

import pandas as pd
import pytest

from deployed.loopback import (  # type: ignore[import-not-found]
    CLINICS,
    EXAMPLES,
    Federation,
)
from spinney import load_model
from spinney.protocols.model import ForestModel


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    """A federation that is up; its processes know the tests' own protocol, too."""
    made = Federation(tmp_path_factory.mktemp("clinics"))
    made.environment["PYTHONPATH"] += f":{Path(__file__).parents[1] / 'toy'}"
    with made.up():
        yield made


@pytest.mark.parametrize("secure_sum", [False, True])
def test_the_deployed_forest_is_the_simulated_one_byte_for_byte(federation, secure_sum):
    name = "masked" if secure_sum else "plain"
    path = federation.write_job(name, n_estimators=20, max_depth=5, secure_sum=secure_sum)
    if not secure_sum:
        said = json.loads(federation.job("propose", str(path), "--json").stdout)
        assert said["answers"] == dict.fromkeys(CLINICS, "")
        assert said["cost"]["epsilon"] == "no noise"
    federation.job("start", str(path), "--follow", "--out", f"{name}-run")
    model = federation.root / "lead" / f"{name}-run" / "model.spinney"
    assert model.read_bytes() == federation.simulated(path).joinpath("model.spinney").read_bytes()
    kept = list((federation.root / "north" / "records" / "runs").glob("*/model.spinney"))
    assert model.read_bytes() in [one.read_bytes() for one in kept]
    forest = load_model(model)
    rows = pd.read_csv(EXAMPLES / "lakeside.csv").drop(columns=["visit", "readmitted"])
    assert set(forest.predict(rows)) <= {"no", "yes"}


def test_a_protocol_of_the_tests_own_runs_on_the_engine(federation):
    """See `contracts/test_toy_protocol.py`: nothing of the outer layers knows it."""
    path = federation.write_job("toy", "label_counts", times=2, secure_sum=True)
    said = json.loads(federation.job("propose", str(path), "--json").stdout)
    assert said["answers"] == dict.fromkeys(CLINICS, "")
    done = federation.job("start", str(path), "--follow", "--json", "--out", "toy-run")
    status = json.loads(done.stdout)
    assert (status["state"], status["levels"]) == ("finished", 2)
    assert status["rounds"] <= said["cost"]["rounds"]
    model = ForestModel.load(federation.root / "lead" / "toy-run" / "model.spinney")
    assert model.protocol == "label_counts"
    rows = [len(pd.read_csv(EXAMPLES / f"{name}.csv")) for name in CLINICS]
    assert 0 < model.forest.moments.sum() <= sum(rows)


def test_what_left_a_party_is_written_there(federation):
    said = json.loads(
        federation.spinney("party", "status", "party.toml", "--json", folder="north").stdout
    )
    assert said["process"] == "running"
    assert all(run["releases"] > 0 for run in said["runs"])


def test_a_policy_refuses_by_rule_and_the_table_stays_shut(federation):
    federation.write_party("lakeside", policy="min_samples_leaf = 20")
    path = federation.write_job("small-leaves", n_estimators=5, max_depth=3)
    proposed = federation.job("propose", str(path), "--json", check=False)
    assert proposed.returncode == 30
    reason = json.loads(proposed.stdout)["answers"]["lakeside"]
    assert "min_samples_leaf=5; the policy of 'lakeside' requires" in reason
    started = federation.job("start", str(path), "--follow", check=False)
    assert started.returncode == 30
    assert "rule 'min_samples_leaf'" in started.stderr
    federation.write_party("lakeside")


def test_parties_compare_their_tables_and_only_they_see_the_sums(federation):
    """North counts age in months and numbers as St Mary does: no more than that is learnt."""
    rows = pd.read_csv(EXAMPLES / "north.csv")
    visits = pd.read_csv(EXAMPLES / "st-mary.csv")["visit"][: len(rows)]
    spoilt = rows.assign(age=12 * rows["age"], visit=visits)
    spoilt.to_csv(federation.root / "north" / "months.csv", index=False)
    months = 'source = "csv"\npath = "months.csv"\nrow_id = "visit"\nquery = "from source"\n'
    federation.write_party("north", months, policy="secure_sum = true\nmin_own_rows = 5")
    path = federation.write_job("fitting", n_estimators=3)
    found = json.loads(federation.job("check", str(path), "--kit", "kit", "--json").stdout)
    lines = {(one["party"], one["column"]): one["what"] for one in found["lines"]}
    assert "another unit" in lines["north", "age"]
    assert {column for _, column in lines} == {"age"}  # by what was rounded, others may stand out
    assert (found["parties"], found["rows"], found["n_shared"]) == ([*CLINICS], {}, None)
    shared = found["shared"]  # noise is drawn: within six deviations
    assert abs(shared["about"] - len(rows)) <= 3 * (shared["most"] - shared["about"])
    assert [one["party"] for one in found["ids"] if not one["why"]] == [*CLINICS]
    listed = federation.job("list").stdout
    assert "fitting-check" in listed
    assert "comparison of tables finished" in listed
    run = json.loads(federation.job("show", "fitting-check", "--json").stdout)["run"]
    left = (federation.root / "north" / "records" / "runs" / run / "disclosures.jsonl").read_text()
    replies = [json.loads(line) for line in left.splitlines()]
    summed = [one for one in replies if one["question"] in ("Places", "Fit", "Ids")]
    assert [one["question"] for one in summed] == ["Places", "Places", "Fit", "Ids"]
    assert {one["protection"] for one in summed} == {"masked: only the sum over parties is seen"}
    federation.write_party("north", policy="epsilon_per_job = 1")
    refused = federation.job("check", str(path), "--kit", "kit", check=False)
    assert "adds no noise; the policy of 'north' allows epsilon=1 at most" in refused.stderr
    federation.write_party("north")
    fits = federation.job("check", str(path), "--kit", "kit").stdout
    assert "every count was rounded to a multiple of 5 first" in fits
    assert " at more than one party" in fits
