"""`spinney tune`: settings by cross-validation over all parties' rows."""

import json

import numpy as np
from sklearn.model_selection import ParameterGrid

from spinney.deployment.party.policy import Policy
from spinney.jobs.file import load_job
from spinney.jobs.tuning import DEPLOYED_GRIDS, TREES, count_trainings
from spinney.simulation.tuning import SimulatedWork, tables_to_tune


def test_settings_are_tried_on_folds_and_the_best_is_told(place):
    place.job(n_estimators="9")
    before = place.files()
    told = place.run("tune", "job.toml", "--try", "max_depth=1,3", "--try", "min_samples_leaf=1,40")
    assert told.exit_code == 0, told.stderr
    assert told.stdout.startswith("visits: AUC over 3 folds, by rows of all parties.")
    assert "Tried 4 candidates in 21 trainings" in told.stdout
    assert "MB from the busiest party" in told.stdout
    assert "\nDropped with fewer trees, for they were behind:\n" in told.stdout
    for depth, least in ((1, 1), (1, 40), (3, 1), (3, 40)):  # all that was tried is told
        assert f"max_depth = {depth}, min_samples_leaf = {least}, " in told.stdout
    assert place.files() == before
    found = json.loads(
        place.run("tune", "job.toml", "--try", "max_depth=1,3", "--folds", "2", "--json").stdout
    )
    assert found["n_folds"] == 2
    assert {one["settings"]["max_depth"] for one in found["tried"]} == {1, 3}
    assert found["n_trainings"] == 6
    assert found["best"]["max_depth"] in (1, 3)


def test_trainings_are_counted_before_they_begin(place):
    def counted(n_candidates, n_folds=3, epsilon=None, **settings):
        place.job(**settings)
        candidates = [{"max_depth": depth} for depth in range(1, n_candidates + 1)]
        job = load_job(place.folder / "job.toml")
        return count_trainings(job, candidates, n_folds, epsilon)

    assert counted(4, n_estimators="9") == 21  # as the searches above say afterwards
    assert counted(2, 2, n_estimators="9") == 6
    assert counted(18, n_estimators="100") == (18 + 6 + 2 + 1) * 3
    assert counted(18, n_estimators="4") == (18 + 6 + 1) * 3  # too few trees for a third turn
    assert counted(3, epsilon=2.0) == 4


def test_a_search_over_real_parties_begins_no_more_jobs_than_an_hour_allows_by_default(place):
    place.job(n_estimators="100")
    job = load_job(place.folder / "job.toml")
    for protocol in TREES:
        candidates = [dict(one) for one in ParameterGrid(dict(DEPLOYED_GRIDS[protocol]))]
        assert 2 * count_trainings(job, candidates, 3, None) < Policy().jobs_per_hour


def test_a_row_is_in_one_fold_whoever_holds_it(place):
    place.job()
    job = load_job(place.folder / "job.toml")
    tables = tables_to_tune(job)
    here = SimulatedWork(job, tables, 3).folds
    assert [len(folds) for folds in here.values()] == [t.n_rows for t in tables.values()]
    there = SimulatedWork(job, dict(reversed(tables.items())), 3).folds
    assert all(np.array_equal(here[name], there[name]) for name in tables)


def test_what_cannot_be_tuned_is_refused_in_words(place):
    place.job()
    code, line = place.refused("tune", "job.toml", "--try", "max_dept=1")
    assert code == 10
    assert "--try names 'max_dept', which is no setting to try" in line
    code, line = place.refused("tune", "job.toml", "--try", "n_estimators=5,10")
    assert "The number of trees is not tried: set it in the job file" in line
    for command in (("tune",), ("job", "check")):
        code, line = place.refused(*command, "some.csv")
        assert "'some.csv' is a table, not a job file. Draft one from it: spinney check" in line
    code, line = place.refused("tune", "job.toml", "--try", "max_depth")
    assert "--try must be a setting and its values, max_depth=4,8" in line
    code, line = place.refused("tune", "job.toml", "--folds", "1")
    assert "--folds must be between 2 and 20" in line
    place.job(place.JOB.replace("n_jobs = 1", "n_jobs = 1\nepsilon = 1.0") + place.TABLE)
    code, line = place.refused("tune", "job.toml")
    assert "Say what the whole search may cost, besides the job itself: --epsilon 1" in line


def test_a_job_with_noise_is_tuned_within_a_budget(place):
    text = place.JOB.replace("[job]", '[job]\nprotocol = "private_forest"')
    place.job(text.replace("n_jobs = 1", "n_jobs = 1\nepsilon = 1.0") + place.TABLE)
    done = place.run("tune", "job.toml", "--epsilon", "6", "--try", "max_depth=2,4")
    assert done.exit_code == 0, done.stderr
    assert "AUC on one fold" in done.stdout
    assert "Tried 2 candidates in 3 trainings" in done.stdout
    assert "All of it cost epsilon 6, besides what the job costs." in done.stdout
    assert "These scores carry no noise" in done.stdout
    code, line = place.refused("tune", "job.toml", "--epsilon", "0")
    assert code == 10
    assert "--epsilon must be a number above 0" in line
