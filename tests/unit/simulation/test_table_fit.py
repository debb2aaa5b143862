"""`spinney job check`: of the parties' tables, what does not fit is found, and little else."""

import json

import numpy as np
import pandas as pd
import pytest

from spinney import deal_rows
from spinney.simulation.table_fit import fit_of
from spinney.tables.describe import describe
from spinney.tables.frames import columns_of, encode_target
from spinney.tables.table import MemoryTable

N = 1500


def hospital(random, n=N):
    """Return rows whose columns are tied to each other and to the label."""
    age, pressure = random.normal(55, 15, n).round(), random.normal(130, 18, n)
    ward = random.choice(["eye", "ear", "lung", "heart"], n, p=[0.4, 0.3, 0.2, 0.1])
    creatinine, smokes = np.exp(random.normal(0, 0.4, n)), random.random(n) < 0.3
    risk = 0.04 * (age - 55) + 0.02 * (pressure - 130) + 0.8 * smokes + (ward == "heart")
    ill = np.where(risk + np.log(creatinine) + random.normal(0, 1, n) > 0.5, "yes", "no")
    table = {"age": age, "pressure": pressure, "ward": ward, "creatinine": creatinine}
    return pd.DataFrame({**table, "smokes": smokes}), ill


def fit(frames, labels):
    schema, _ = describe(pd.concat(frames), np.concatenate(labels), label_kind="class")
    return fit_of(
        "visits",
        {
            f"p{place}": MemoryTable(schema, columns_of(X, schema), encode_target(y, schema.label))
            for place, (X, y) in enumerate(zip(frames, labels, strict=True))
        },
    )


def dealt(random):
    X, y = hospital(random)
    site = deal_rows(y, 5, random_state=int(random.integers(10**6)))
    return [X[site == one].copy() for one in range(5)], [y[site == one] for one in range(5)]


NEXT = {"eye": "ear", "ear": "lung", "lung": "heart", "heart": "eye"}
FAULTS = {
    "unit": (lambda X: X.assign(creatinine=X.creatinine * 88.4), "creatinine", "another unit"),
    "small factor": (lambda X: X.assign(pressure=X.pressure / 2.5), "pressure", "another unit"),
    "shift": (lambda X: X.assign(age=X.age + 15), "age", "values are larger here"),
    "constant": (lambda X: X.assign(age=X.age.iloc[0]), "age", "one value here"),
    "codes": (lambda X: X.assign(ward=X.ward.str.upper()), "ward", "other values are common"),
    "recoded": (
        lambda X: X.assign(ward=X.ward.map(NEXT)),
        "ward",
        "another meaning of the codes",
    ),
    "flipped": (lambda X: X.assign(smokes=~X.smokes), "smokes", "other values are common here"),
    "swapped": (
        lambda X: X.assign(age=X.pressure, pressure=X.age),
        "age",
        "above those of the others",
    ),
    "missing": (lambda X: X.assign(age=X.age.where(X.age > 50)), "age", "% of the rows here"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_one_party_is_found_and_named(fault):
    spoil, column, words = FAULTS[fault]
    frames, labels = dealt(np.random.default_rng(7))
    frames[2] = spoil(frames[2])
    found = {(line.party, line.column): line.what for line in fit(frames, labels).lines}
    assert words in found["p2", column]
    assert {party for party, _ in found} == {"p2"}


def test_tables_that_fit_are_said_to_fit():
    found = fit(*dealt(np.random.default_rng(3)))
    assert found.lines == ()
    assert "The tables fit: no column of any party stands out" in str(found)
    assert found.is_masked


def test_parties_with_other_shares_of_classes_still_fit():
    X, y = hospital(np.random.default_rng(1), 4000)
    site = deal_rows(y, 4, skew=0.3, random_state=0)
    found = fit([X[site == one] for one in range(4)], [y[site == one] for one in range(4)])
    assert found.lines == ()


def test_a_job_s_tables_are_checked_from_the_command_line(place):
    rows = place.visits(300)
    place.csv("north.csv", rows[::3])
    place.csv("south.csv", rows[1::3])
    place.csv("west.csv", [(f"{float(age) / 4:.3f}", *rest) for age, *rest in rows[2::3]])
    parties = "".join(
        f'\n[[party]]\nname = "{name}"\nsource = "csv"\npath = "{name}.csv"\n'
        for name in ("north", "south", "west")
    )
    place.job(place.JOB + parties)
    told = place.run("job", "check", "job.toml")
    assert told.exit_code == 0, told.stderr
    assert "- west, age: " in told.stdout
    assert "- north" not in told.stdout
    found = json.loads(place.run("job", "check", "job.toml", "--json").stdout)
    assert found["rows"] == {"north": 100, "south": 100, "west": 100}
