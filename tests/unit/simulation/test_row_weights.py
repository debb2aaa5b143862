"""Weights of rows in a job file: a column of the table, as `sample_weight` in the estimator."""

import numpy as np
import pandas as pd
import pytest

from spinney import HorizontalBoostingClassifier, load_model
from spinney.protocols.release_terms import Hardening
from spinney.report.door import release
from unit.simulation.simulating import SCHEMA, simulated  # type: ignore[import-not-found]

JOB = """
[job]
name = "weighed"
protocol = "horizontal_boosting"
[settings]
max_iter = 4
batch_trees = 2
max_depth = 3
min_samples_leaf = 5
n_jobs = 1
{settings}
[schema]
label = "ill"
classes = ["no", "yes"]
[schema.columns]
age = {{ kind = "number", range = [0, 110] }}
ward = {{ kind = "category", values = ["eye", "ear"] }}
[table]
source = "csv"
path = "rows.csv"
{table}
[simulation]
n_parties = 3
held_out = 0.0
"""
WEIGHED = {"settings": "largest_weight = 4", "table": 'row_weight = "times"'}


@pytest.fixture
def rows(place):
    """Rows of which some count more, some not at all."""
    random = np.random.default_rng(3)
    age, ward = random.uniform(0, 100, 150).round(1), random.choice(["eye", "ear"], 150)
    ill = np.where(age + random.normal(0, 30, 150) > 50, "yes", "no")
    times = random.choice([0.0, 0.5, 1.0, 4.0], 150)
    place.csv(
        "rows.csv",
        list(zip(age, ward, ill, times, strict=True)),
        header=("age", "ward", "ill", "times"),
    )
    return place


@pytest.mark.parametrize("masks", ["", "secure_sum = true"])
def test_a_column_of_weights_is_the_estimator_s_sample_weight(rows, masks):
    settings = f"{WEIGHED['settings']}\n{masks}"
    rows.job(JOB.format(settings=settings, table=WEIGHED["table"]))
    told = simulated(rows, "--out", "run")
    assert told["identical_to_pooled"] is True
    frame = pd.read_csv(rows.folder / "rows.csv")
    weight, y = frame.pop("times"), frame.pop("ill")
    model = HorizontalBoostingClassifier(
        max_iter=4, batch_trees=2, max_depth=3, min_samples_leaf=5, schema=SCHEMA, n_jobs=1,
        random_state=0,
    ).fit(frame, y, sample_weight=weight)  # fmt: skip
    expected = release(model.model_, Hardening())[0]
    assert load_model(rows.folder / "run").model_.to_bytes() == expected.to_bytes()


REFUSED = {
    "no column is named": ({"table": ""}, "this party's table has none"),
    "a row weighs more": ({"settings": "largest_weight = 3"}, "A row weighs more than the largest"),
    "no such column": ({"table": 'row_weight = "tims"'}, "The table has no column 'tims'"),
    "not a number": ({"table": 'row_weight = "ward"'}, "The row weight 'ward' must be a number"),
    "not above zero": ({"settings": "largest_weight = 0"}, "largest_weight must be a number above"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_weights_that_do_not_fit_are_refused(rows, what):
    changed, words = REFUSED[what]
    rows.job(JOB.format(**(WEIGHED | changed)))
    told = rows.run("simulate", "job.toml", "--out", "run")
    assert told.exit_code != 0
    assert words in told.stderr.replace("\n", " ")
