"""Job files of private trees and forests: they run, compare, and are refused in words."""

import json
import re

import pytest

from spinney import PrivateForestClassifier, PrivateTreeClassifier, load_model, load_report

JOB = """
[job]
name = "visits"
protocol = "{protocol}"

[settings]
epsilon = 20
n_jobs = 1
{more}
[schema]
label = "ill"
classes = ["no", "yes"]

[schema.columns]
age = {{ kind = "number", range = [0, 110] }}
ward = {{ kind = "category", values = ["eye", "ear"] }}

[table]
source = "csv"
path = "visits.csv"
"""
KINDS = {
    "private_tree": ("method = 'noisy_max'\nn_rows = 120\n", PrivateTreeClassifier),
    "private_forest": ("n_estimators = 10\nmax_depth = 3\n", PrivateForestClassifier),
}


def written(place, protocol, more=None):
    return place.write(JOB.format(protocol=protocol, more=KINDS[protocol][0] + (more or "")))


@pytest.mark.parametrize("protocol", KINDS)
@pytest.mark.parametrize("more", ["", "secure_sum = false\n"])
def test_a_private_job_file_runs_and_is_held_against_models_without_noise(place, protocol, more):
    written(place, protocol, more)
    told = place.run("simulate", "job.toml", "--json")
    assert told.exit_code == 0, told.stderr
    found = json.loads(told.stdout)
    assert found["identical_to_pooled"] is None
    assert set(found["mean"]) == {"local", "federated", "pooled"}
    report = load_report("runs/visits")
    assert report.protocol == protocol
    assert report.is_private
    promised = {c.unit: c.epsilon for c in report.privacy if c.verdict == "EPSILON"}
    assert promised.pop("record, add or remove") == "20"
    assert set(promised.values()) <= {"40"}  # to replace a record is to remove one and add one
    model = load_model("runs/visits/model.spinney")
    assert type(model) is KINDS[protocol][1]
    assert "ill = " in model.export_text()


def test_auto_is_what_a_job_file_gets_if_it_says_how_many_rows(place):
    place.write(JOB.format(protocol="private_tree", more="n_rows = 120\n"))
    assert place.run("simulate", "job.toml").exit_code == 0
    assert load_report("runs/visits").settings["method"] == "distilled"
    place.write(JOB.format(protocol="private_tree", more=""))
    code, line = place.refused("simulate", "job.toml", "--out", "elsewhere")
    assert code == 10
    assert "Declare n_rows, roughly, or name a method" in line


REFUSED = {
    "no epsilon": ("epsilon = 20", "", "needs epsilon, the budget of the whole job"),
    "a setting of another protocol": ("n_jobs = 1", "criterion = 'gini'", "no setting 'criterion'"),
    "a wrong method": ("method = 'noisy_max'", "method = 'best'", "method must be 'auto' or"),
    "honest without masks": (
        "n_jobs = 1",
        "honest = 2\nsecure_sum = false",
        "honest is for",
    ),
    "amounts": ('"private_tree"', '"private_tree"\ntask = "regression"', "is a classifier"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_a_private_job_cannot_do_is_refused_before_a_table_is_opened(place, what):
    old, new, words = REFUSED[what]
    text = written(place, "private_tree").read_text(encoding="utf-8")
    assert old in text
    place.write(text.replace(old, new))
    (place.folder / "visits.csv").unlink()
    code, line = place.refused("simulate", "job.toml")
    assert code == 10
    assert words in line


def test_values_outside_a_declared_range_are_told_once_a_column(place):
    text = written(place, "private_forest").read_text(encoding="utf-8")
    place.write(text.replace("[0, 110]", "[0, 50]"))
    told = place.run("simulate", "job.toml")
    assert told.exit_code == 0, told.stderr
    (line,) = [line for line in told.stderr.splitlines() if "outside" in line]
    above = sum(float(row[0]) > 50 for row in place.visits())
    found = re.match(r"spinney: warning: Column 'age': (\d+) values lie outside", line)
    assert found is not None
    assert above / 2 < int(found[1]) <= above  # held-out rows are not counted
    assert line.endswith(
        "the declared range (0.0, 50.0) and count as its ends. Correct them, or declare a wider "
        "range from public knowledge."
    )


@pytest.mark.parametrize("protocol", ["private_boosting", "private_forest"])
def test_a_delta_above_one_over_the_declared_rows_is_warned_of(place, protocol):
    place.write(JOB.format(protocol=protocol, more="delta = 0.001\nn_rows = 2000\n"))
    told = place.run("simulate", "job.toml")
    assert told.exit_code == 0, told.stderr
    assert "delta=0.001 is above one over the number of rows" in " ".join(told.stderr.split())
    place.write(JOB.format(protocol=protocol, more="delta = 0.0001\nn_rows = 2000\n"))
    assert "above one over" not in place.run("simulate", "job.toml").stderr
