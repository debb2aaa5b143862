"""`spinney tune`: settings by cross-validation over all parties' rows."""

import json

import numpy as np

from spinney.jobs.file import load_job
from spinney.simulation.tuning import _tables, _Work


def test_settings_are_tried_on_folds_and_the_best_is_told(place):
    place.job(n_estimators="9")
    before = place.files()
    told = place.run("tune", "job.toml", "--try", "max_depth=1,3", "--try", "min_samples_leaf=1,40")
    assert told.exit_code == 0, told.stderr
    assert told.stdout.startswith("visits: AUC over 3 folds, by rows of all parties.")
    assert "Tried 4 candidates in " in told.stdout
    assert "MB from the busiest party" in told.stdout
    assert place.files() == before
    found = json.loads(
        place.run("tune", "job.toml", "--try", "max_depth=1,3", "--folds", "2", "--json").stdout
    )
    assert found["n_folds"] == 2
    assert {one["settings"]["max_depth"] for one in found["tried"]} == {1, 3}
    assert found["n_trainings"] >= 2 * len(found["tried"])
    assert found["best"]["max_depth"] in (1, 3)


def test_a_row_is_in_one_fold_whoever_holds_it(place):
    place.job()
    job = load_job(place.folder / "job.toml")
    tables = _tables(job)
    here = _Work(job, tables).folds(3, seed=0)
    assert here.size == sum(table.n_rows for table in tables.values())
    turned = dict(reversed(tables.items()))
    there = _Work(job, turned).folds(3, seed=0)
    first = next(iter(tables.values())).n_rows
    assert np.array_equal(there[-first:], here[:first])


def test_what_cannot_be_tuned_is_refused_in_words(place):
    place.job()
    code, line = place.refused("tune", "job.toml", "--try", "max_dept=1")
    assert code == 10
    assert "--try names 'max_dept', which is no setting to try" in line
    code, line = place.refused("tune", "job.toml", "--try", "max_depth")
    assert "--try must be a setting and its values, max_depth=4,8" in line
    code, line = place.refused("tune", "job.toml", "--folds", "1")
    assert "--folds must be between 2 and 20" in line
    place.job(place.JOB.replace("n_jobs = 1", "n_jobs = 1\nepsilon = 1.0") + place.TABLE)
    code, line = place.refused("tune", "job.toml")
    assert "every training that tunes it would cost its epsilon again" in line
