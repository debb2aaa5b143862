"""Private jobs as files: parameters, claims in the output, refusals in one line."""

import json
from fractions import Fraction

import pytest

from spinney import load_model, load_report

PARTIES = "".join(f'[[party]]\nname = "{n}"\nsource = "csv"\npath = "{n}.csv"\n' for n in "abc")


@pytest.fixture
def clinics(place):
    """Three parties with tables of their own, and a way to write their job."""
    rows = place.visits(180)
    for number, name in enumerate("abc"):
        place.csv(f"{name}.csv", rows[number::3])

    def write(*settings, text=place.JOB):
        lines = "".join(f"{line}\n" for line in settings)
        place.job(text.replace("n_jobs = 1\n", f"n_jobs = 1\n{lines}") + PARTIES)
        return place

    return write


@pytest.mark.parametrize(
    ("settings", "promised"),
    [
        (["epsilon = 2"], "One record, added or removed"),
        (['tree_rows = "sampled"', "epsilon = 2", "sample_rate = 0.25"], "Rests on which rows"),
        (["secure_sum = true", "epsilon = 2.0"], "t=2 of K=3 must be honest"),
        (["secure_sum = true", "honest = 1", "epsilon = 2"], "t=1 of K=3 must be honest"),
        (['mechanism = "perturbed_input"', "epsilon = 2"], "One record, replaced by another"),
    ],
)
def test_the_output_says_what_is_promised(clinics, settings, promised):
    place = clinics(*settings)
    told = place.run("simulate", "job.toml")
    assert told.exit_code == 0, told.stderr
    assert told.stderr == ""
    assert "The joint forest carries noise; local and pooled forests carry none." in told.stdout
    assert "epsilon=2 (delta_impl=0: the samplers are exact)" in told.stdout
    assert promised in told.stdout
    assert "bit for bit" not in told.stdout
    claims = [claim for claim in load_report("runs/visits").privacy if claim.epsilon]
    assert claims
    for claim in claims:  # a tree's part of a sample is found by rounding down
        assert Fraction(199, 100) < Fraction(claim.epsilon) <= 2


def test_json_holds_the_promises(clinics):
    place = clinics("epsilon = 1")
    outcome = json.loads(place.run("simulate", "job.toml", "--json").stdout)
    assert outcome["privacy"][0].startswith("One record, added or removed, against readers")
    assert (outcome["identical_to_pooled"], outcome["expects_identical"]) == (None, False)
    place = clinics()
    assert json.loads(place.run("simulate", "job.toml", "--json").stdout)["privacy"] == []


def test_the_paper_s_noise_shows_its_true_total(clinics):
    place = clinics("epsilon_per_count = 0.5", 'tree_rows = "all"', "max_features = 2")
    assert place.run("simulate", "job.toml").exit_code == 0
    totals = {claim.epsilon for claim in load_report("runs/visits").privacy if claim.epsilon}
    assert max(map(Fraction, totals)) <= 4 * 3 * 2 * Fraction(1, 2)  # trees, levels, slots


def test_one_table_dealt_out_may_be_private_too(place):
    text = place.JOB.replace("n_jobs = 1", "n_jobs = 1\nepsilon = 1e9") + place.TABLE
    place.job(text)
    outcome = json.loads(place.run("simulate", "job.toml", "--json").stdout)
    assert outcome["identical_to_pooled"] is None
    assert set(outcome["mean"]) == {"local", "federated", "pooled"}
    assert load_model(outcome["model"]) is not None


def test_ranges_that_are_read_are_named_and_take_the_epsilon_away(clinics):
    text = "".join(
        line for line in clinics().JOB.splitlines(keepends=True) if not line.startswith("age")
    ).replace("[schema.columns]", '[schema.columns]\nage = { kind = "number" }')
    place = clinics("epsilon = 1", text=text)
    told = place.run("simulate", "job.toml")
    assert told.exit_code == 0, told.stderr
    assert "Public facts were read from the tables: range of 'age'." in told.stderr
    assert "UNPROTECTED: the range of 'age' (read from the data in a simulation" in told.stdout
    assert "epsilon=" not in told.stdout
    assert all(claim.epsilon is None for claim in load_report("runs/visits").privacy)


@pytest.mark.parametrize(
    ("settings", "wording"),
    [
        (["epsilon = 0"], "epsilon must be a positive finite number; got 0."),
        (["epsilon = -1.5"], "epsilon must be a positive finite number; got -1.5."),
        (["epsilon = nan"], "epsilon must be a positive finite number; got nan."),
        (["epsilon = inf"], "epsilon must be a positive finite number; got inf."),
        (['epsilon = "one"'], "epsilon must be a number; got 'one'."),
        (["epsilon = true"], "epsilon must be a number"),
        (["epsilon = 1", "epsilon_per_count = 1"], "Give either epsilon"),
        (["epsilon = 1", 'mechanism = "magic"'], "mechanism must be 'noisy_histograms' or"),
        (["epsilon = 1", 'tree_rows = "some"'], "tree_rows must be 'disjoint' or"),
        (["epsilon = 1", "sample_rate = 2"], "sample_rate must be above 0 and at most 1"),
        (["epsilon = 1", "leaf_share = 1"], "leaf_share must be above 0 and below 1"),
        (["epsilon = 1", "honest = 2"], "It needs secure_sum=True"),
        (["epsilon = 1", "honest = 3", "secure_sum = true"], "honest must be between 1 and 2"),
        (["epsilon = 1", "delta = 1e-6"], "Unknown key 'delta'"),
        (["epsilon = 1", 'class_weight = "balanced"'], "exact class counts"),
    ],
    ids=str,
)
def test_what_cannot_be_kept_is_refused_in_one_line(clinics, settings, wording):
    code, line = clinics(*settings).refused("simulate", "job.toml")
    assert code == 10
    assert wording in line


def test_two_parties_that_must_both_be_honest(place):
    text = place.JOB.replace("n_jobs = 1", "n_jobs = 1\nepsilon = 1\nhonest = 2\nsecure_sum = true")
    place.job(text + place.TABLE + "[simulation]\nn_parties = 2\n")
    code, line = place.refused("simulate", "job.toml")
    assert code == 10
    assert "For two parties only honest=1 means anything" in line
