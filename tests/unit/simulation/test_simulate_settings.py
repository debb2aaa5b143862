"""`spinney simulate`: settings of a job file do what the estimators' do."""

from dataclasses import replace

import numpy as np
import pytest

from spinney import HorizontalForestClassifier, HorizontalForestRegressor, load_report
from spinney.protocols.horizontal_forest.settings import ForestJobSettings, settings_of
from spinney.protocols.settings import ForestSettings
from spinney.protocols.spec import JobFacts
from unit.simulation.simulating import simulated  # type: ignore[import-not-found]


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


IN_ONE_PROCESS = {"message_limit"}  # an estimator's may be larger: its messages do not travel
NOT_IN_A_JOB = {
    "verbose", "schema", "categorical_features", "unknown_categories", "max_samples", "warm_start",
    "baselines",
}  # fmt: skip


@pytest.mark.parametrize(
    ("task", "face"),
    [
        ("classification", HorizontalForestClassifier),
        ("regression", HorizontalForestRegressor),
    ],
)
def test_settings_have_the_names_and_defaults_of_the_estimators(task, face):
    parameters = face().get_params()
    facts = JobFacts(name="simulation", task=task)
    settings = settings_of(ForestJobSettings(), facts)
    for name in ForestJobSettings.__struct_fields__:
        if name in parameters and hasattr(settings, name) and name not in IN_ONE_PROCESS:
            assert getattr(settings, name) == parameters[name], name
    known = {*ForestJobSettings.__struct_fields__, *NOT_IN_A_JOB}
    assert set(parameters) <= known
    private = settings_of(ForestJobSettings(epsilon=1, max_depth=2), facts).privacy
    own = face(epsilon=1, max_depth=2)._settings((), {}).privacy
    assert private is not None
    assert private == replace(own, job="simulation")


def test_class_weights_are_given_by_name():
    given = ForestJobSettings(class_weight={"yes": 3.0})
    settings = settings_of(given, JobFacts("j", "classification", ("no", "yes")))
    assert settings.class_weight == (1.0, 3.0)
    assert isinstance(settings, ForestSettings)
    numbered = ForestJobSettings(class_weight={"2": 3.0})
    facts = JobFacts("j", "classification", (1, 2))
    assert settings_of(numbered, facts).class_weight == (1.0, 3.0)
