"""A simulated job with [evaluation] measures its model with noise, and says what it found."""

import json

import pytest

from spinney import load_report

JOB = """
[job]
name = "judged"
protocol = "{protocol}"

[settings]
{settings}

[schema]
label = "ill"
classes = ["no", "yes"]

[schema.columns]
age = {{ kind = "number", range = [0, 110] }}
ward = {{ kind = "category", values = ["eye", "ear"] }}

[table]
source = "csv"
path = "visits.csv"

[simulation]
n_parties = 2

[evaluation]
epsilon = 50
by = "ward"
"""


def write(place, protocol, settings):
    place.csv("visits.csv", place.visits(600))
    place.write(JOB.format(protocol=protocol, settings=settings))


@pytest.mark.parametrize(
    ("protocol", "settings"),
    [
        ("private_forest", "epsilon = 20\nn_rows = 600"),
        ("horizontal_forest", "n_estimators = 3\nmax_depth = 3"),
    ],
)
def test_a_model_is_measured_after_training(place, protocol, settings):
    write(place, protocol, settings)
    told = place.run("simulate", "job.toml", "--json", "--out", "out")
    assert told.exit_code == 0, told.stderr
    assert json.loads(told.stdout)["measured"].startswith("accuracy ")
    report = load_report(place.folder / "out")
    assert [part.of for part in report.evaluation.parts][1:] == [
        "ward = eye", "ward = ear", "ward = missing",
    ]  # fmt: skip
    assert report.evaluation.rows == "held-out"
    shown = place.run("simulate", "job.toml", "--out", "again")
    assert "Measured with noise: accuracy" in shown.stdout


def test_trees_of_single_parties_have_no_evaluation(place):
    write(place, "genetic_tree", "n_generations = 2\npopulation_size = 4")
    told = place.run("simulate", "job.toml")
    assert told.exit_code != 0
    words = "[evaluation] is for one model that all parties have; protocol = 'genetic_tree' leaves"
    assert words in " ".join(told.stderr.split())
