"""`spinney simulate`: one table dealt out, or one for each party; the same path from there on."""

import json
import sqlite3
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from spinney import HorizontalForestClassifier, HorizontalForestRegressor, load_model, load_report
from spinney.errors import PrivacyLeakWarning
from spinney.protocols.settings import ForestSettings
from spinney.service.config import SettingsConfig, SimulationConfig, load_job
from spinney.service.rows import dealt_out
from spinney.service.settings import forest_settings
from spinney.service.sources import tables_of
from spinney.tables.columns import VectorColumns
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MemoryTable

SCHEMA = Schema(
    (
        Column("age", "number", (0, 110)),
        Column("ward", "category", categories=("eye", "ear")),
    ),
    Label("ill", "class", ("no", "yes")),
)


def simulated(place, *arguments):
    told = place.run("simulate", "job.toml", "--json", *arguments)
    assert told.exit_code == 0, told.stderr
    return json.loads(told.stdout)


def fitted(path, **settings):
    """Return the bytes of the estimator's model over all rows of a CSV file."""
    frame = pd.read_csv(path)
    y = frame.pop("ill")
    forest = HorizontalForestClassifier(
        4, max_depth=3, schema=SCHEMA, random_state=0, n_jobs=1, **settings
    )
    return forest.fit(frame, y, party=np.arange(len(y)) % 3).model_.to_bytes()


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
    assert "Joining helped " in told.stdout
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
    assert set(party["local"]) <= {"f1", "auc"}
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


def test_parties_with_tables_of_their_own_grow_the_forest_of_all_rows(place):
    rows = place.visits()
    parties = ""
    for name, part in (("north", rows[::3]), ("south", rows[1::3]), ("west", rows[2::3])):
        place.csv(f"{name}.csv", part)
        parties += f'[[party]]\nname = "{name}"\nsource = "csv"\npath = "{name}.csv"\n'
    place.job(place.JOB + parties + "[simulation]\nheld_out = 0\n")
    outcome = simulated(place)
    assert [party["party"] for party in outcome["parties"]] == ["north", "south", "west"]
    assert outcome["identical_to_pooled"] is None  # nobody may pool them
    assert (place.folder / outcome["model"]).read_bytes() == fitted("visits.csv")
    place.job(place.JOB + parties)
    outcome = simulated(place)
    assert [party["n_held_out"] for party in outcome["parties"]] == [8, 8, 8]
    assert outcome["parties"][0]["pooled"] is None
    assert "pooled" not in place.run("simulate", "job.toml").stdout


def test_rows_that_lie_at_two_parties_are_warned_of_and_told_apart_by_their_ids(place):
    """Without ids nobody can tell them apart; with ids, numbered anew or not, all is exact."""
    rows = [(*row, str(number)) for number, row in enumerate(place.visits(90))]
    again = [(*row[:3], str(number)) for number, row in enumerate(rows[:20], start=90)]
    header = ("age", "ward", "ill", "id")
    parts = {"north": rows[:60], "south": rows[60:] + again}
    parties = ""
    for name, part in parts.items():
        place.csv(f"{name}.csv", part, header)
        parties += f'[[party]]\nname = "{name}"\nsource = "csv"\npath = "{name}.csv"\n#row_id\n'
    place.csv("both.csv", rows + again, header)
    both = place.TABLE.replace("visits", "both") + 'row_id = "id"\n'
    none_held = "[simulation]\nheld_out = 0\n"
    place.job(place.JOB + parties + none_held)
    told = place.run("simulate", "job.toml", "--out", "without")
    assert told.stderr == (
        "spinney: warning: The same rows lie at several parties: 'north', 'south'. Parties draw "
        "them into the same trees, so the forest differs a little from that of the tables put "
        "together. Name a row_id that is unique over all parties, if they are not the same.\n"
    )
    place.job(place.JOB + parties.replace("#row_id", 'row_id = "id"') + none_held)
    told = place.run("simulate", "job.toml", "--out", "with")
    assert told.stderr == ""
    place.job(place.JOB + both + none_held)
    place.run("simulate", "job.toml", "--out", "pooled")
    without, with_ids, pooled = (
        (place.folder / name / "model.spinney").read_bytes()
        for name in ("without", "with", "pooled")
    )
    assert with_ids == pooled
    assert without != pooled


def test_ids_may_be_numbered_anew_at_every_party(place):
    rows = place.visits()
    header = ("age", "ward", "ill", "id")
    parties, everything = "", []
    for party, name in enumerate(("north", "south", "west")):
        part = [(*row, str(number)) for number, row in enumerate(rows[party::3])]
        place.csv(f"{name}.csv", part, header)
        everything += part
        parties += (
            f'[[party]]\nname = "{name}"\nsource = "csv"\npath = "{name}.csv"\nrow_id = "id"\n'
        )
    place.csv("all.csv", everything, header)
    place.job(place.JOB + parties + "[simulation]\nheld_out = 0\n")
    told = place.run("simulate", "job.toml", "--out", "parties")
    assert told.stderr == ""
    pooled = place.TABLE.replace("visits", "all") + 'row_id = "id"\n'
    place.job(place.JOB + pooled + "[simulation]\nheld_out = 0\n")
    place.run("simulate", "job.toml", "--out", "pooled")
    by_parties, by_one = (
        (place.folder / name / "model.spinney").read_bytes() for name in ("parties", "pooled")
    )
    assert by_parties == by_one


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
    parties = dealt_out(table, SimulationConfig(n_parties=4, stratified=True, random_state=-7))
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


def test_paths_are_relative_to_the_job_file(place, monkeypatch):
    place.job()
    (place.folder / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    told = place.run("simulate", "../job.toml")
    assert told.exit_code == 0, told.stderr
    assert "elsewhere/runs/visits/model.spinney" in place.files()


def test_parquet_and_databases_give_the_model_of_the_csv_file(place, monkeypatch):
    pd.read_csv("visits.csv").to_parquet("visits.parquet")
    with sqlite3.connect("visits.db") as database:
        database.execute("CREATE TABLE visits (years REAL, ward TEXT, ill TEXT)")
        database.executemany("INSERT INTO visits VALUES (?, ?, ?)", place.visits())
    database.close()
    monkeypatch.setenv("VISITS_URL", f"sqlite:///{place.folder / 'visits.db'}")
    query = 'query = "SELECT years AS age, ward, ill FROM visits"'
    tables = (
        'source = "csv"\npath = "visits.csv"',
        'source = "parquet"\npath = "visits.parquet"',
        f'source = "sql"\npath = "visits.db"\n{query}',
        f'source = "sql"\nurl_env = "VISITS_URL"\n{query}',
    )
    models = set()
    for table in tables:
        place.job(f"{place.JOB}[table]\n{table}\n")
        models.add((place.folder / simulated(place)["model"]).read_bytes())
    assert len(models) == 1


def test_facts_that_are_not_declared_are_read_and_named(place):
    place.job('[job]\nname = "x"\n[settings]\nn_estimators = 3\n' + place.TABLE + 'label = "ill"\n')
    told = place.run("simulate", "job.toml", "--json")
    assert told.exit_code == 0
    assert told.stderr == (
        "spinney: warning: Public facts were read from the tables: categories of 'ward', classes "
        "of 'ill'. That is fine in a simulation; real parties declare them. Declare them in the "
        "job file's [schema].\n"
    )
    assert json.loads(told.stdout)["identical_to_pooled"] is True


def test_facts_read_from_several_tables_are_joined(place):
    place.csv("a.csv", [("1", "eye", "no"), ("2", "ear", "yes"), ("3", "eye", "no")])
    place.csv("b.csv", [("7", "ear", "maybe"), ("8", "arm", "no")])
    text = '[job]\nname = "x"\n[settings]\nbinning = "ranges"\n[schema]\nlabel = "ill"\n'
    for name in "ab":
        text += f'[[party]]\nname = "{name}"\nsource = "csv"\npath = "{name}.csv"\n'
    with pytest.warns(PrivacyLeakWarning, match="range of 'age', categories of 'ward', classes"):
        tables, _ = tables_of(load_job(place.job(text)))
    assert tables["a"].schema == tables["b"].schema
    assert tables["a"].schema == Schema(
        (
            Column("age", "number", (1, 8)),
            Column("ward", "category", categories=("arm", "ear", "eye")),
        ),
        Label("ill", "class", ("maybe", "no", "yes")),
    )


def test_a_party_that_shows_less_than_others_is_read_with_them(place):
    """One class only, a text column that is all missing, columns in another order."""
    place.csv("a.csv", place.visits(60))
    place.csv("b.csv", [("no", age, "") for age in range(20, 40)], header=("ill", "age", "ward"))
    text = '[job]\nname = "x"\n[settings]\nn_estimators = 3\n[schema]\nlabel = "ill"\n'
    for name in "ba":
        text += f'[[party]]\nname = "{name}"\nsource = "csv"\npath = "{name}.csv"\n'
    place.job(text)
    told = place.run("simulate", "job.toml", "--json")
    assert told.exit_code == 0, told.stderr
    assert told.stderr.startswith(
        "spinney: warning: Public facts were read from the tables: categories of 'ward', classes "
        "of 'ill'. That is fine"
    )
    schema = load_model(json.loads(told.stdout)["model"]).model_.schema
    assert schema == Schema(
        (Column("age", "number"), Column("ward", "category", categories=("ear", "eye"))),
        Label("ill", "class", ("no", "yes")),
    )


def test_one_class_over_all_parties_is_refused(place):
    place.csv("a.csv", [(str(age), "eye", "no") for age in range(20, 40)])
    text = '[job]\nname = "x"\n[schema]\nlabel = "ill"\n'
    for name in "ab":
        text += f'[[party]]\nname = "{name}"\nsource = "csv"\npath = "a.csv"\n'
    place.job(text)
    code, line = place.refused("simulate", "job.toml")
    assert code == 20
    assert "The label 'ill' has one class only. A classifier needs at least 2 classes" in line


def test_every_fact_that_is_read_is_named(place):
    names = [f"c{number}" for number in range(30)]
    rows = [(*("x" if row % 3 else "y" for _ in names), row % 2) for row in range(40)]
    place.csv("wide.csv", rows, header=(*names, "ill"))
    place.job(
        '[job]\nname = "x"\n[settings]\nn_estimators = 2\n'
        '[table]\nsource = "csv"\npath = "wide.csv"\nlabel = "ill"\n'
    )
    told = place.run("simulate", "job.toml", "--json")
    assert all(f"categories of '{name}'" in told.stderr for name in names)


def test_columns_may_be_chosen_by_name(place):
    place.job(
        '[job]\nname = "x"\n[schema]\nlabel = "ill"\ncolumns = ["age"]\n'
        "[settings]\nn_estimators = 3\n" + place.TABLE
    )
    outcome = simulated(place)
    model = load_model(outcome["model"]).model_
    assert model.schema.names == ("age",)


def test_a_party_with_one_class_has_no_forest_of_its_own(place):
    place.csv("a.csv", place.visits(60))
    place.csv("b.csv", [(str(age), "eye", "yes") for age in range(20, 40)])
    text = place.JOB
    for name in "ab":
        text += f'[[party]]\nname = "{name}"\nsource = "csv"\npath = "{name}.csv"\n'
    place.job(text)
    outcome = simulated(place)
    assert outcome["parties"][1]["local"] == {}
    assert "auc" not in outcome["parties"][1]["federated"]
    assert outcome["helped"]["f1"][1] == 1
    both, alone = outcome["parties"]
    assert "f1" in alone["federated"]  # and yet it is in neither mean: no local forest is beside it
    assert outcome["mean"]["federated"] == both["federated"]
    assert outcome["mean"]["local"] == both["local"]
    told = place.run("simulate", "job.toml").stdout
    assert (
        "The means leave out parties at which not every forest could be judged: they are over "
        "1 of 2 by F1 and 1 of 2 by AUC.\n"
    ) in told
    line = next(
        line
        for line in place.run("simulate", "job.toml").stdout.splitlines()
        if line.startswith("b ")
    )
    assert line.split()[2:4] == ["-", "-"]


def test_masked_sums_give_the_same_model(place):
    place.job()
    plain = simulated(place, "--out", "plain")
    place.job(place.JOB.replace("n_jobs = 1", "n_jobs = 1\nsecure_sum = true") + place.TABLE)
    masked = simulated(place, "--out", "masked")
    assert masked["identical_to_pooled"] is True
    assert masked["parties"] == plain["parties"]
    models = [(place.folder / name / "model.spinney").read_bytes() for name in ("plain", "masked")]
    assert models[0] == models[1]
    histograms = load_report("masked").disclosures[-2]
    assert histograms.protection.startswith("masked")


def test_a_message_limit_gives_more_rounds_and_the_same_model(place):
    text = (
        place.JOB.replace("n_estimators = 4", "n_estimators = 300\nmax_features = 1.0")
        + place.TABLE
    )
    place.job(text)
    plain = simulated(place, "--out", "plain")
    place.job(text.replace("n_jobs = 1", "n_jobs = 1\nmessage_limit = 65536"))
    limited = simulated(place, "--out", "limited")
    assert limited["rounds"] > plain["rounds"]
    assert limited["parties"] == plain["parties"]
    models = [(place.folder / name / "model.spinney").read_bytes() for name in ("plain", "limited")]
    assert models[0] == models[1]


def test_a_number_can_be_predicted(place):
    random = np.random.default_rng(0)
    ages = random.uniform(20, 90, 90)
    place.csv(
        "stays.csv",
        [(f"{age:.2f}", "eye", f"{age / 10 + random.normal():.3f}") for age in ages],
        header=("age", "ward", "days"),
    )
    place.job(
        '[job]\nname = "stays"\ntask = "regression"\n[settings]\nn_estimators = 5\n'
        '[schema]\nlabel = "days"\nrange = [0, 30]\n[schema.columns]\n'
        'age = { kind = "number" }\nward = { kind = "category", values = ["eye"] }\n'
        '[table]\nsource = "csv"\npath = "stays.csv"\n[simulation]\nn_parties = 3\n'
    )
    outcome = simulated(place)
    assert set(outcome["mean"]["federated"]) == {"rmse", "r2"}
    assert outcome["identical_to_pooled"] is True
    better = [p["federated"]["rmse"] < p["local"]["rmse"] for p in outcome["parties"]]
    assert outcome["helped"]["rmse"] == [sum(better), 3]


NOT_IN_A_JOB = {"verbose", "schema", "categorical_features", "unknown_categories"}


@pytest.mark.parametrize(
    ("task", "face"),
    [
        ("classification", HorizontalForestClassifier),
        ("regression", HorizontalForestRegressor),
    ],
)
def test_settings_have_the_names_and_defaults_of_the_estimators(task, face):
    parameters = face().get_params()
    settings = forest_settings(SettingsConfig(), task)
    for name in SettingsConfig.__struct_fields__:
        if name in parameters and hasattr(settings, name):
            assert getattr(settings, name) == parameters[name], name
    known = {*SettingsConfig.__struct_fields__, *NOT_IN_A_JOB}
    assert set(parameters) <= known
    private = forest_settings(SettingsConfig(epsilon=1, max_depth=2), task).privacy
    own = face(epsilon=1, max_depth=2)._settings((), {}).privacy
    assert private is not None
    assert private == replace(own, job="simulation")


def test_class_weights_are_given_by_name():
    given = SettingsConfig(class_weight={"yes": 3.0})
    settings = forest_settings(given, "classification", ("no", "yes"))
    assert settings.class_weight == (1.0, 3.0)
    assert isinstance(settings, ForestSettings)
    numbered = SettingsConfig(class_weight={"2": 3.0})
    assert forest_settings(numbered, "classification", (1, 2)).class_weight == (1.0, 3.0)
