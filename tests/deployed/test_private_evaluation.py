"""An evaluation with noise is a job: parties pay for it, and answer the same question once."""

from typing import Any

import msgspec
import pytest

from deployed.handmade import (  # type: ignore[import-not-found]
    ASKER,
    CLINICS,
    Sites,
    agreed_job,
    attempt_of,
    clinics_in,
    coordinator_in,
    status_of,
    write_party,
)
from spinney import load_report
from spinney.cli.ledgers import describe_ledger
from spinney.deployment.coordinator.process import Run
from spinney.deployment.job import Agreed, evaluation_of
from spinney.deployment.party.config import load_party
from spinney.deployment.party.policy import Policy, check_policy
from spinney.errors import BudgetError, PolicyError, SettingError
from spinney.jobs.file import load_job
from spinney.privacy.budget import Unit
from spinney.privacy.ledger import Ledger
from spinney.protocols.private_evaluation.messages import EvaluationAsk


def conducted(folder, agreed, run="run-1"):
    """Run a job as the engine does; return the coordinator's folder of it."""
    sites = Sites(folder, agreed, run=run)
    try:
        Run(coordinator_in(folder), agreed, attempt_of(agreed, run), sites.bytes_to).conduct()
    finally:
        sites.close()
    return folder / "runs" / run


def trained(folder, policy="", **settings):
    """Train a private forest under a policy; return the model's digest."""
    clinics_in(folder)
    for name in CLINICS:
        write_party(folder, name, policy=policy)
    given = {"epsilon": 8} | settings
    conducted(folder, agreed_job(folder, 'protocol = "private_forest"', held_out=0.5, **given))
    return status_of(folder).model


def judging(folder, model, evaluation="epsilon = 4"):
    """Return the job that evaluates the model, after an [evaluation] was added to its file."""
    path = folder / "job.toml"
    path.write_text(path.read_text().split("[evaluation]")[0] + f"[evaluation]\n{evaluation}\n")
    return evaluation_of(load_job(path, deployed=True), model)


def spent(folder, name="north"):
    """Return what a party's jobs have cost a record: of the training, of all evaluations."""
    ledger = Ledger.open(folder / name / "ledger.db")
    jobs = {job.name for job in describe_ledger(folder / name / "ledger.db", None).jobs}
    found: dict[str, Any] = {}
    for job in jobs:
        name = "-".join(job.split("-")[:2])
        found[name] = found.get(name, 0) + ledger.spent(job, Unit.RECORD_ADD_REMOVE)
    ledger.close()
    return found


def test_under_an_epsilon_policy_a_model_is_evaluated_with_noise_and_charged(tmp_path):
    model = trained(tmp_path, "epsilon_per_job = 8\nepsilon_total = 24\nsecure_sum = true")
    folder = conducted(tmp_path, judging(tmp_path, model, 'epsilon = 4\nby = "ward"'), "run-2")
    report = load_report(folder)
    assert report.evaluation is not None
    assert report.evaluation.epsilon == "4"
    assert report.evaluation.rows == "held-out"
    over_all = report.evaluation.parts[0]
    assert {"accuracy", "auc", "log_loss", "brier"} <= {*over_all.measures, *over_all.unknown}
    assert {part.of for part in report.evaluation.parts[1:]} >= {"ward = surgery", "ward = missing"}
    (row,) = [one for one in report.disclosures if one.question == "Evaluation"]
    assert row.protection.startswith("masked")
    assert "accuracy" in status_of(tmp_path, "run-2").message
    assert all(claim.epsilon == "4" for claim in report.evaluation_privacy if claim.epsilon)
    assert spent(tmp_path) == {"q3": 8, "q3-evaluation": 4}


def test_the_same_evaluation_is_paid_once_and_answered_from_the_stored_reply(tmp_path):
    model = trained(tmp_path)
    first = conducted(tmp_path, judging(tmp_path, model), "run-2")
    again = conducted(tmp_path, judging(tmp_path, model), "run-3")
    assert load_report(first).evaluation == load_report(again).evaluation
    assert spent(tmp_path) == {"q3": 8, "q3-evaluation": 4}
    other = conducted(tmp_path, judging(tmp_path, model, "epsilon = 5"), "run-4")
    assert load_report(other).evaluation != load_report(first).evaluation
    assert spent(tmp_path) == {"q3": 8, "q3-evaluation": 9}


def test_each_party_s_own_quality_carries_its_own_noise(tmp_path):
    model = trained(tmp_path)
    judged = judging(tmp_path, model, "epsilon = 4\nper_party = true")
    assert not judged.is_masked
    report = load_report(conducted(tmp_path, judged, "run-2"))
    assert report.evaluation is not None
    assert [part.of for part in report.evaluation.parts] == ["all parties", *CLINICS]
    (row,) = [one for one in report.disclosures if one.question == "Evaluation"]
    assert row.seen_by == "the coordinator, party by party"
    words = "does not mask its sums; the policy of 'north' requires masked sums"
    with pytest.raises(PolicyError, match=words):
        check_policy("north", Policy(secure_sum=True), judged, ASKER)


def test_a_budget_that_an_evaluation_would_overspend_refuses_it_before_noise_is_drawn(tmp_path):
    model = trained(tmp_path, "epsilon_total = 20")
    with pytest.raises(
        BudgetError, match=r"the whole of job 'q3-evaluation-\w+ \w+': asked epsilon=8"
    ):
        conducted(tmp_path, judging(tmp_path, model), "run-2")
    assert spent(tmp_path)["q3"] == 8
    assert not spent(tmp_path).get("q3-evaluation")


def test_policies_judge_an_evaluation_by_its_own_epsilon(tmp_path):
    model = trained(tmp_path)
    judged, policy = judging(tmp_path, model), Policy(epsilon_per_job=2)
    words = r"asks for epsilon=4; the policy of 'north' allows 2 \(rule 'epsilon_per_job'\)"
    with pytest.raises(PolicyError, match=words):
        check_policy("north", policy, judged, ASKER)
    check_policy("north", policy, judging(tmp_path, model, "epsilon = 2"), ASKER)
    (tmp_path / "job.toml").write_text((tmp_path / "job.toml").read_text().split("[evalua")[0])
    exact = evaluation_of(load_job(tmp_path / "job.toml", deployed=True), model)
    words = r"adds no noise \(its \[evaluation\] gives no epsilon\); the policy of 'north' allows"
    with pytest.raises(PolicyError, match=words):
        check_policy("north", policy, exact, ASKER)


def test_an_evaluation_of_another_model_is_outside_the_job(tmp_path):
    model = trained(tmp_path)
    judged = judging(tmp_path, model)
    sites = Sites(tmp_path, judged, run="run-2")
    ask = EvaluationAsk(judged.settings_asked(), len(CLINICS), (b"another model",))
    party = sites.sides[0]
    party._begin()
    with pytest.raises(PolicyError, match=r"its model is not the agreed one. Nothing was released"):
        party._opened().answer(ask)
    fewer = EvaluationAsk(judged.settings_asked(), 10 * len(CLINICS), ask.models)
    words = "it divides the noise among 30 parties, and the job has 3. Nothing was released"
    with pytest.raises(PolicyError, match=words):
        party._opened().answer(fewer)
    cheaper = msgspec.structs.replace(
        judged, evaluation=judging(tmp_path, model, "epsilon = 1").evaluation
    )
    asked = EvaluationAsk(cheaper.settings_asked(), len(CLINICS), ask.models)
    with pytest.raises(PolicyError, match="outside the job that this party accepted: its settings"):
        party._opened().answer(asked)
    sites.close()


def test_a_model_of_rows_chosen_by_class_is_not_evaluated_with_noise(tmp_path):
    clinics_in(tmp_path)
    agreed_job(tmp_path, held_out=0.25)
    with pytest.raises(
        SettingError, match=r"no epsilon would hold for an evaluation on these. Drop"
    ):
        judging(tmp_path, "0" * 64)
    agreed_job(tmp_path, held_out=0.0)
    assert judging(tmp_path, "0" * 64).privacy.price == 4


def test_only_an_evaluation_says_how_it_evaluates(tmp_path):
    clinics_in(tmp_path)
    agreed = agreed_job(tmp_path, 'protocol = "private_forest"', epsilon=8)
    plain = agreed.to_bytes()
    assert b"evaluation" not in plain
    judged = judging(tmp_path, "0" * 64)
    assert Agreed.of_bytes(judged.to_bytes()) == judged
    with pytest.raises(SettingError, match=r"Only a job that evaluates may have an \[evaluation\]"):
        msgspec.structs.replace(agreed, evaluation=judged.evaluation)
    with pytest.raises(SettingError, match="needs all its parties until the end"):
        msgspec.structs.replace(judged, quorum=2)
    job = load_job(tmp_path / "job.toml", deployed=True)
    assert job.evaluation is not None  # and the training is the same job with or without it
    from spinney.deployment.job import agreement_of  # noqa: PLC0415

    assert agreement_of(job).to_bytes() == plain


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ('by = "ward"', "the key 'epsilon' is missing. Add it."),
        ("epsilon = 0", r"\[evaluation\] epsilon must be a positive finite number; got 0"),
        ('epsilon = "much"', "epsilon must be a number; got 'much'"),
        ("epsilon = 1\nbins = 3", "Unknown key 'bins' in .evaluation. .* Known keys: epsilon, by"),
    ],
)
def test_a_bad_section_is_refused(tmp_path, given, words):
    clinics_in(tmp_path)
    agreed_job(tmp_path, 'protocol = "private_forest"', epsilon=8)
    with pytest.raises(SettingError, match=words):
        judging(tmp_path, "0" * 64, given)


@pytest.mark.parametrize(
    ("by", "words"),
    [
        ("age", "by = 'age' is a number, and subgroups are the declared categories of a column"),
        ("sex", "by = 'sex' names no column of the model. Its columns are: age"),
    ],
)
def test_a_column_without_categories_has_no_subgroups(tmp_path, by, words):
    model = trained(tmp_path)
    with pytest.raises(SettingError, match=words):
        conducted(tmp_path, judging(tmp_path, model, f'epsilon = 4\nby = "{by}"'), "run-2")
    assert spent(tmp_path) == {"q3": 8}
    assert load_party(tmp_path / "north" / "party.toml").ledger.data
