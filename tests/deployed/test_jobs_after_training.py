"""Jobs that use a finished model, on a real federation: evaluation, importances, prediction."""

import json

import numpy as np
import pandas as pd
import pytest

from deployed import by_columns, wide  # type: ignore[import-not-found]
from deployed.loopback import CLINICS, EXAMPLES, Federation  # type: ignore[import-not-found]
from oracles.pooled_explanation import Pooled  # type: ignore[import-not-found]
from spinney import load_model, load_report
from spinney.deployment.job import evaluation_of
from spinney.deployment.party.config import load_party
from spinney.deployment.party.tables import open_table
from spinney.jobs.file import load_job
from spinney.protocols.explanation import explain, question_of
from spinney.transport.in_process import InProcess

pytestmark = pytest.mark.slow
FIVE = (*CLINICS, "west", "island")


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """A federation of five that is up; some jobs are of three of them."""
    with Federation(tmp_path_factory.mktemp("after"), FIVE).up() as made:
        yield made


def run_of(said):
    return json.loads(said.stdout)


@pytest.mark.parametrize("secure_sum", [False, True])
def test_importances_of_five_parties_are_the_pooled_ones(running, secure_sum):
    wide.write_tables(running, 400)
    name = f"five-{'masked' if secure_sum else 'open'}"
    settings = {"n_estimators": 8, "max_depth": 5, "secure_sum": secure_sum}
    path = wide.write_job(running, name, held_out=0.25, **settings)
    trained = run_of(running.job("start", str(path), "--follow", "--json", "--out", name))
    judged = run_of(
        running.job("evaluate", trained["run"], str(path), "--json", "--out", f"{name}-judged")
    )
    found = load_report(running.root / "lead" / f"{name}-judged")
    model = load_model(running.root / "lead" / name).model_
    agreed = evaluation_of(load_job(path, deployed=True), trained["model"])
    tables = [open_table(load_party(running.root / p / "party.toml"), agreed) for p in FIVE]
    pooled = explain(InProcess({"all": Pooled(tables)}), question_of(model))
    assert pooled is not None
    expected = load_report(running.root / "lead" / name).explained(model, pooled, "held-out")
    assert found.importances == expected.importances  # permutation importances among them
    assert max(one.permutation for one in found.importances if one.permutation is not None) > 0
    assert found.explanation == expected.explanation  # and partial dependence
    assert judged["message"] == f"accuracy {pooled.baseline:.4f} over {pooled.n_rows} held-out rows"
    assert pooled.n_rows == sum(table.n_rows for table in tables) == 500


def test_under_an_epsilon_policy_five_parties_evaluate_with_noise_and_pay_once(running):
    wide.write_tables(running, 2000)
    for name in FIVE:
        wide.write_party(
            running, name, "epsilon_per_job = 4\nepsilon_total = 90\nsecure_sum = true"
        )
    job = 'protocol = "private_forest"'
    path = wide.write_job(running, "private", job, held_out=0.5, epsilon=4, n_rows=5000)
    run = run_of(running.job("start", str(path), "--follow", "--json", "--out", "private"))["run"]
    exact = running.job("evaluate", run, str(path), check=False)
    assert "adds no noise (its [evaluation] gives no epsilon)" in exact.stderr
    path.write_text(f"{path.read_text()}[evaluation]\nepsilon = 2\n")  # the training is the same
    judged = [
        run_of(running.job("evaluate", run, str(path), "--json", "--out", f"judged-{n}"))
        for n in range(2)
    ]
    assert "with noise of epsilon 2" in judged[0]["message"]
    first, again = (load_report(running.root / "lead" / f"judged-{n}").evaluation for n in range(2))
    assert first is not None
    assert first == again
    assert first.measured("auc").low > 0.5
    assert first.measured("rows").low < 5000 < first.measured("rows").high + 200
    shown = running.spinney("report", "show", "judged-0", folder="lead").stdout
    assert "with noise: epsilon 2, in addition to what the training cost" in " ".join(shown.split())


def test_an_evaluation_with_another_job_file_or_of_no_training_is_refused(running):
    wide.write_tables(running, 400)
    path = wide.write_job(running, "asked", held_out=0.25, n_estimators=3, max_depth=3)
    run = run_of(running.job("start", str(path), "--follow", "--json"))["run"]
    judged = run_of(running.job("evaluate", run, str(path), "--json", "--out", "asked-judged"))
    twice = running.job("evaluate", judged["run"], str(path), check=False)
    assert "Only a finished training leaves a model" in twice.stderr
    other = wide.write_job(running, "asked", held_out=0.5, n_estimators=3, max_depth=3)
    refused = running.job("evaluate", run, str(other), check=False)
    assert "was started with another job file" in refused.stderr
    rows = running.job("predict", run, str(other), check=False)
    assert "was started with another job file" in rows.stderr
    unknown = running.job("evaluate", "nothing", str(other), check=False)
    assert "No run is called 'nothing'" in unknown.stderr


def test_rows_are_predicted_by_three_parties_and_the_label_party_gets_the_result(running):
    by_columns.write_parties(running)
    path = by_columns.write_job(running, "predicting", join_parts=True)
    run = run_of(running.job("start", str(path), "--follow", "--json", "--out", "whole"))["run"]
    said = run_of(running.job("predict", run, str(path), "--json"))
    written = {
        name: running.root / name / "records" / "runs" / said["run"] / "predictions.csv"
        for name in CLINICS
    }
    assert [name for name in CLINICS if written[name].exists()] == [by_columns.LABEL_PARTY]
    found = pd.read_csv(written[by_columns.LABEL_PARTY]).set_index("id")
    assert said["message"].startswith(f"{len(found)} rows; their predictions are in the label")
    bank, shop = (pd.read_csv(EXAMPLES / f"{name}.csv") for name in ("bank", "shop"))
    rows = bank.merge(shop, on="customer").set_index("customer").loc[found.index]
    forest = load_model(running.root / "lead" / "whole")
    expected = forest.predict_proba(rows[list(forest.feature_names_in_)])
    # The parties predict with the forest they grew; the lead's copy has coarse counts.
    assert np.abs(found[["no", "yes"]].to_numpy() - expected).mean() < 0.02
    evaluated = running.job("evaluate", run, str(path), check=False)
    assert "has no common table for an evaluation" in evaluated.stderr
    shown = running.spinney("model", "show", f"records/runs/{run}/part.spinney", folder="lakeside")
    assert "lakeside's part of a forest of 4 trees" in shown.stdout
    assert "basket" in shown.stdout
    held = {one.party: one.columns for one in load_report(running.root / "lead" / "whole").holders}
    assert set(held[by_columns.LABEL_PARTY]) <= {"age", "balance"}
    assert held["lakeside"]


def test_settings_are_tuned_by_real_parties_and_every_job_leaves_a_fold_out(running):
    wide.write_tables(running, 300)
    path = wide.write_job(running, "tuned", n_estimators=3)
    asked = ("--try", "max_depth=1,4", "--folds", "2", "--kit", "kit", "--json")
    said = running.spinney("tune", str(path), *asked, folder="lead")
    assert "This search begins 12 jobs at every party: 6 trainings and their scores" in said.stderr
    found = json.loads(said.stdout)
    assert found["score"] == "accuracy"
    assert found["best"]["max_depth"] in (1, 4)
    assert found["n_trainings"] == 6
    assert found["bytes_up"] > 0
    jobs = json.loads(running.job("list", "--json").stdout)
    tuning = [one for one in jobs if one["name"].startswith("tuned-tune-")]
    assert {one["kind"] for one in tuning} == {"train", "evaluate"}
    judged = [one["message"] for one in tuning if one["kind"] == "evaluate"]
    held = {message.split(" over ")[1] for message in judged}  # the same two folds every time
    assert len(held) == 2
    assert sum(int(one.split()[0]) for one in held) == 300 * len(FIVE)


def test_settings_of_a_job_with_noise_are_tuned_within_a_budget_that_ledgers_keep(running):
    wide.write_tables(running, 600)
    for name in FIVE:
        wide.write_party(running, name, "epsilon_per_job = 4\nepsilon_total = 200")
    path = wide.write_job(running, "noisy", 'protocol = "private_forest"', epsilon=1, n_rows=3000)
    refused = running.spinney("tune", str(path), "--kit", "kit", folder="lead", check=False)
    assert "Say what the whole search may cost" in refused.stderr
    asked = ("--epsilon", "12", "--try", "max_depth=1,4", "--kit", "kit")
    told = running.spinney("tune", str(path), *asked, folder="lead").stdout
    assert "AUC on one fold" in told
    assert "All of it cost epsilon 12, besides what the job costs." in told
    jobs = json.loads(running.job("list", "--json").stdout)
    ours = [one for one in jobs if one["name"].startswith("noisy-tune-")]
    assert len(ours) == 6  # three trainings and three scores, of epsilon 2 each
    spent = running.spinney("ledger", "show", "ledger.db", folder="west").stdout
    assert "noisy-tune-" in spent
