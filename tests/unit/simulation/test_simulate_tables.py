"""`spinney simulate`: tables of several parties, in files and databases, and their facts."""

import json
import sqlite3

import pandas as pd
import pytest

from spinney import load_model
from spinney.errors import PrivacyLeakWarning
from spinney.jobs.file import load_job
from spinney.jobs.tables import tables_of
from spinney.tables.schema import Column, Label, Schema
from unit.simulation.simulating import (  # type: ignore[import-not-found]
    fitted,
    simulated,
)


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
        "spinney: warning: Several parties hold the same rows: 'north', 'south'. They draw these "
        "rows into the same trees, so the forest differs a little from the forest of the pooled "
        "tables. If the rows are different, name a row_id that is unique over all parties.\n"
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
        tables, _ = tables_of(load_job(place.job(text)), needs_ranges=True)
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
    assert outcome["mean"]["federated"] == {k: both["federated"][k] for k in ("f1", "auc")}
    assert outcome["mean"]["local"] == {k: both["local"][k] for k in ("f1", "auc")}
    told = place.run("simulate", "job.toml").stdout
    assert (
        "The plain means leave out parties at which a forest could not be scored; they are over "
        "1 of 2 by F1 and 1 of 2 by AUC.\n"
    ) in told
    line = next(
        line
        for line in place.run("simulate", "job.toml").stdout.splitlines()
        if line.startswith("b ")
    )
    assert line.split()[2:4] == ["-", "-"]
