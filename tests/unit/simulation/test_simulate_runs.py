"""`spinney simulate`: what is printed and written, and that it is the estimator's model."""

import numpy as np
import pandas as pd
import pytest

from spinney import load_model, load_report
from spinney.jobs.file import SimulationConfig
from spinney.jobs.rows import deal_out
from spinney.tables.columns import VectorColumns
from spinney.tables.table import MemoryTable
from unit.simulation.simulating import (  # type: ignore[import-not-found]
    SCHEMA,
    fitted,
    simulated,
)


def test_one_table_dealt_out_gives_the_table_model_and_report(place):
    place.job()
    told = place.run("simulate", "job.toml")
    assert told.exit_code == 0
    assert told.stderr == ""  # quiet where nobody watches; all facts are declared
    lines = told.stdout.splitlines()
    assert lines[0] == "visits: 5 parties with 120 rows grew a forest of 4 trees, depth 3."
    assert lines[2].split() == ["local", "federated", "pooled"]
    assert lines[3].split()[-6:] == ["F1", "AUC"] * 3
    assert [line.split()[0] for line in lines[4:10]] == [*(f"party_{i}" for i in range(5)), "plain"]
    assert "joining helped" in told.stdout.lower()
    assert "identical to the pooled one, bit for bit." in told.stdout
    assert lines[-3:] == [
        "Model   runs/visits/model.spinney",
        "Report  runs/visits/report.json",
        "Page    runs/visits/report.html",
    ]
    assert place.files() == {
        "job.toml",
        "visits.csv",
        "runs",
        "runs/visits",
        "runs/visits/model.spinney",
        "runs/visits/report.json",
        "runs/visits/report.html",
    }


def test_json_is_one_document_that_says_it_all(place):
    place.job()
    outcome = simulated(place, "--out", "here")
    assert outcome["name"] == "visits"
    assert outcome["identical_to_pooled"] is True
    assert outcome["model"] == "here/model.spinney"
    assert [party["n_held_out"] for party in outcome["parties"]] == [5] * 5
    party = outcome["parties"][0]
    assert set(party["local"]) <= {"f1", "auc", "accuracy"}
    assert party["federated"] == party["pooled"]
    scores = [party["federated"]["f1"] for party in outcome["parties"]]
    assert outcome["mean"]["federated"]["f1"] == pytest.approx(np.mean(scores))
    better = [p["federated"]["f1"] > p["local"]["f1"] for p in outcome["parties"]]
    assert outcome["helped"]["f1"] == [sum(better), 5]
    assert outcome["rounds"] <= 3 + 8


def test_the_files_are_the_runs_own(place):
    place.job()
    outcome = simulated(place)
    report = load_report("runs/visits")
    assert report.quality[0].rows == "held-out"
    assert report.quality[0].scores["f1"] == outcome["parties"][0]["federated"]["f1"]
    assert report.quality[0].scores["local_f1"] == outcome["parties"][0]["local"]["f1"]
    assert report.rounds == outcome["rounds"]
    forest = load_model("runs/visits/model.spinney")
    assert forest.predict(pd.DataFrame({"age": [95.0, 20.0], "ward": ["ear", "eye"]})).tolist() == [
        "yes",
        "no",
    ]


@pytest.mark.parametrize("n_parties", [1, 3])
def test_the_model_is_that_of_the_estimator(place, n_parties):
    place.job(place.JOB + place.TABLE + f"[simulation]\nn_parties = {n_parties}\nheld_out = 0\n")
    outcome = simulated(place)
    assert outcome["identical_to_pooled"] is True
    saved = (place.folder / outcome["model"]).read_bytes()
    assert saved == fitted("visits.csv")


def test_a_run_is_repeatable_and_its_held_out_rows_follow_random_state(place):
    first, second, other = (
        simulated(place, "--out", out)
        for out, state in (("a", 0), ("b", 0), ("c", 1))
        if place.job(place.JOB + place.TABLE + f"[simulation]\nrandom_state = {state}\n")
    )
    for name in ("parties", "mean", "helped"):
        assert first[name] == second[name]
    assert first["parties"] != other["parties"]
    assert (place.folder / "a/model.spinney").read_bytes() == (
        place.folder / "b/model.spinney"
    ).read_bytes()


def test_held_out_rows_and_training_rows_part_a_party_in_the_shares_of_its_classes():
    target = np.repeat([0, 1], [300, 100]).astype(np.int32)
    values = VectorColumns((np.arange(400.0), np.zeros(400)))
    table = MemoryTable(SCHEMA, values, target)
    simulation = SimulationConfig(stratified=True, random_state=-7)
    parties = deal_out(table, simulation, ("a", "b", "c", "d"))
    met = []
    for party in parties.rows.values():
        held_out, training = party.held_out.rows, party.training.rows
        assert held_out is not None
        assert training is not None
        assert (len(held_out), len(training)) == (20, 80)
        assert target[held_out].sum() == 5
        met += [*held_out, *training]
    assert sorted(met) == list(range(400))
    assert parties.pooled
    assert parties.pooled.n_rows == 320


@pytest.mark.parametrize("held_out", [0, 0.3])
def test_one_party_has_nothing_to_join(place, held_out):
    sized = f"[simulation]\nn_parties = 1\nheld_out = {held_out}\n"
    place.job(place.JOB + place.TABLE + sized)
    told = place.run("simulate", "job.toml")
    words = "There was one party, so there was nothing to join: joining needs two or more."
    assert words in told.stdout
    assert "joining helped" not in told.stdout.lower()
    assert words in str(load_report("runs/visits"))
