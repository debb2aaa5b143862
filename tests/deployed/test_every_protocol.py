"""Every protocol, deployed: the same bytes as in one process, masked or not; noise paid once.

Parties and coordinator run as they do in the engine, but messages are passed by hand.
"""

import pytest

from deployed.handmade import (  # type: ignore[import-not-found]
    CLINICS,
    Sites,
    agreed_job,
    attempt_of,
    clinics_in,
    coordinator_in,
    status_of,
)
from deployed.one_process import models_of  # type: ignore[import-not-found]
from spinney import load_model, load_report
from spinney.cli.ledgers import describe_ledger
from spinney.deployment.coordinator.process import Run
from spinney.deployment.job import evaluation_of
from spinney.errors import SettingError
from spinney.jobs.file import load_job

EXACT = {
    "horizontal_forest": {},
    "horizontal_forest adaptive": {"binning": '"adaptive"'},
    "horizontal_boosting": {"max_iter": 4, "batch_trees": 2},
    "extra_trees": {},
    "extra_trees exchanged": {"thresholds": '"exchanged"'},
    "genetic_tree": {"n_generations": 4, "population_size": 6, "max_depth": 3},
    "genetic_tree pooled": {"n_generations": 2, "population_size": 4, "binning": '"pooled"'},
}
IN_THE_OPEN_ONLY = ("horizontal_forest adaptive", "extra_trees exchanged")
_TREE = {"n_estimators": None, "max_depth": 2, "n_rows": 500, "epsilon": 4}
_EVOLVED = {"n_generations": 2, "population_size": 4, "max_depth": 3, "epsilon": 4}
_BOOSTED = {"epsilon": 4, "delta": 1e-6, "n_passes": 1, "max_depth": 2}
NOISY = {
    "horizontal_forest": {"epsilon": 4},
    "horizontal_forest masked": {"epsilon": 4, "secure_sum": "true"},
    "horizontal_forest perturbed": {"epsilon": 4, "mechanism": '"perturbed_input"'},
    "private_tree distilled": _TREE | {"method": '"distilled"'},
    "private_tree histograms": _TREE | {"method": '"histograms"'},
    "private_tree save_budget": _TREE | {"method": '"save_budget"'},
    "private_tree propose": _TREE | {"method": '"propose"'},
    "private_tree noisy_max": _TREE | {"method": '"noisy_max"'},
    "private_forest": {"epsilon": 4},
    "private_boosting": _BOOSTED,
    "private_boosting regression": _BOOSTED | {"n_rows": 30_000},  # with curves beside its trees
    "extra_trees laplace": {"epsilon": 4, "label_privacy": '"laplace"'},
    "genetic_tree sizes": {
        "n_generations": 2,
        "population_size": 4,
        "max_depth": 3,
        "size_epsilon": 1,
    },
    "genetic_tree private": _EVOLVED,
    "genetic_tree private masked": _EVOLVED | {"secure_sum": "true"},
}

QUICK = (
    "private_boosting regression",
    "horizontal_forest masked",
    "private_tree propose",
    "private_tree distilled",
    "private_forest",
    "genetic_tree private masked",
)


def job_of(folder, case, settings, **more):
    protocol = case.split()[0]
    without = ("genetic_tree", "horizontal_boosting", "private_boosting")
    evolved = {"n_estimators": None} if protocol in without else {}
    job = f'protocol = "{protocol}"'
    if case.endswith("regression"):
        job += '\ntask = "regression"'
    return agreed_job(folder, job, **evolved, **settings, **more)


def conducted(folder, agreed, run="run-1"):
    """Run a job as the engine does; return the coordinator's folder of it."""
    sites = Sites(folder, agreed, run=run)
    Run(coordinator_in(folder), agreed, attempt_of(agreed, run), sites.bytes_to).conduct()
    sites.close()
    return folder / "runs" / run


@pytest.mark.parametrize("secure_sum", [False, True])
@pytest.mark.parametrize("case", EXACT)
def test_a_deployed_job_gives_the_bytes_of_one_process(tmp_path, case, secure_sum):
    if secure_sum and case in IN_THE_OPEN_ONLY:
        with pytest.raises(SettingError, match="cannot be masked"):
            job_of(tmp_path, case, EXACT[case], secure_sum="true")
        return
    clinics_in(tmp_path)
    agreed = job_of(tmp_path, case, EXACT[case], secure_sum=str(secure_sum).lower())
    folder = conducted(tmp_path, agreed)
    models = models_of(tmp_path, agreed)
    assert (folder / "model.spinney").read_bytes() == models[""]
    for name in CLINICS:
        kept = tmp_path / name / "records" / "runs" / "run-1" / "model.spinney"
        assert kept.read_bytes() == models[name]
        (job,) = describe_ledger(tmp_path / name / "ledger.db", None).jobs
        assert any("UNPROTECTED" in claim for claim in job.claims)


def paid_by(ledger):
    """Return what the job paid for; what it shows exactly is noted for each run."""
    return [one for one in describe_ledger(ledger, "q3").jobs if one.name == "q3"]


@pytest.mark.parametrize(
    "case",
    [case if case in QUICK else pytest.param(case, marks=pytest.mark.slow) for case in NOISY],
)
def test_a_private_job_pays_once_and_gives_the_same_bytes_again(tmp_path, case):
    clinics_in(tmp_path)
    agreed = job_of(tmp_path, case, NOISY[case])
    first = conducted(tmp_path, agreed, "run-1")
    models = {"all": (first / "model.spinney").read_bytes()}
    spent = {}
    for name in CLINICS:
        kept = tmp_path / name / "records" / "runs"
        models[name] = (kept / "run-1" / "model.spinney").read_bytes()
        spent[name] = paid_by(tmp_path / name / "ledger.db")
    again = conducted(tmp_path, agreed, "run-2")
    assert (again / "model.spinney").read_bytes() == models["all"]
    for name in CLINICS:
        kept = tmp_path / name / "records" / "runs"
        assert (kept / "run-2" / "model.spinney").read_bytes() == models[name]
        assert paid_by(tmp_path / name / "ledger.db") == spent[name]
    masked = agreed.given.secure_sum or case.startswith("private")
    assert agreed.is_masked == bool(masked)


@pytest.mark.parametrize("scheme", ["randomised_response", "unary"])
def test_randomised_labels_are_drawn_once_for_life_and_kept_at_the_party(tmp_path, scheme):
    clinics_in(tmp_path)
    private = {"label_privacy": '"local"', "label_scheme": f'"{scheme}"', "epsilon": 2}
    agreed = job_of(tmp_path, "extra_trees", private)
    model = (conducted(tmp_path, agreed) / "model.spinney").read_bytes()
    assert models_of(tmp_path, agreed)[""] == model  # the answers in memory are those used
    other = job_of(tmp_path, "extra_trees", private | {"random_state": 7})
    for name in CLINICS:
        (tmp_path / name / "records" / "accepted" / "q3.json").unlink()
    kept = {name: (tmp_path / name / "labels" / "table.labels").read_bytes() for name in CLINICS}
    assert (conducted(tmp_path, other, "run-2") / "model.spinney").read_bytes() != model
    for name in CLINICS:  # other trees of the same answers: nothing was drawn
        assert (tmp_path / name / "labels" / "table.labels").read_bytes() == kept[name]


@pytest.mark.parametrize("secure_sum", [False, True])
def test_an_evaluation_is_a_job_that_sums_scores_and_importances(tmp_path, secure_sum):
    clinics_in(tmp_path)
    secure = str(secure_sum).lower()
    agreed = agreed_job(tmp_path, secure_sum=secure, held_out=0.25)
    conducted(tmp_path, agreed)
    trained = status_of(tmp_path)
    judged = evaluation_of(load_job(tmp_path / "job.toml", deployed=True), trained.model)
    folder = conducted(tmp_path, judged, "run-2")
    status = status_of(tmp_path, "run-2")
    report = load_report(folder)
    assert status.message == (
        f"accuracy {report.explanation.baseline:.4f} over {report.explanation.n_rows} held-out rows"
    )
    assert any(importance.permutation is not None for importance in report.importances)
    assert "Explain" in [entry.question for entry in report.disclosures]
    assert load_model(folder).model_.to_bytes() == (folder / "model.spinney").read_bytes()
    notes = describe_ledger(tmp_path / "north" / "ledger.db", "q3-evaluation run-2")
    assert "confusion matrices" in str(notes)


def test_an_evaluation_asks_about_the_named_model_only(tmp_path):
    clinics_in(tmp_path)
    conducted(tmp_path, agreed_job(tmp_path, held_out=0.25))
    job = load_job(tmp_path / "job.toml", deployed=True)
    other = evaluation_of(job, "0" * 64)
    with pytest.raises(SettingError, match="no finished run with this model"):
        conducted(tmp_path, other, "run-2")
