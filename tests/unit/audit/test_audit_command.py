"""`spinney audit`: what it tries, what it catches, and what it refuses, in words."""

import json
from typing import Any

import msgspec
import numpy as np
import pytest

from spinney.audit.rehearsal import rehearsal_of
from spinney.audit.run import hardened
from spinney.errors import PolicyError
from spinney.privacy import samplers
from spinney.protocols.model import ForestModel
from spinney.protocols.release_terms import Hardening
from spinney.report.audit_limits import AuditLimits, refuse_unaudited
from spinney.report.audited import load_audit

FEW = ("--models", "4", "--runs", "20")
PARTY = """
[party]
name = "north"
[table]
source = "csv"
path = "visits.csv"
"""
PRIVATE = """
[job]
name = "noisy"
protocol = "private_forest"

[settings]
n_estimators = 2
max_depth = 2
epsilon = 1.0
n_jobs = 1

[schema]
label = "ill"
classes = ["no", "yes"]

[schema.columns]
age = { kind = "number", range = [0, 110] }
ward = { kind = "category", values = ["eye", "ear"] }

[table]
source = "csv"
path = "visits.csv"

[simulation]
n_parties = 2
"""


@pytest.fixture
def run(place):
    """A run of a forest whose leaves may hold one row."""
    text = (place.JOB + place.TABLE).replace("n_jobs = 1", "n_jobs = 1\nmin_samples_leaf = 1")
    place.job(text, n_estimators="20", max_depth="9")
    assert place.run("simulate", "job.toml", "--out", "run").exit_code == 0
    exact = rehearsal_of(place.folder / "job.toml", None)[0].model()
    (place.folder / "exact").mkdir()
    exact.save(place.folder / "exact" / "model.spinney")
    return place


def found_in(path) -> Any:
    return load_audit(path)


def party_of(place, limits):
    (place.folder / "party.toml").write_text(PARTY + limits, encoding="utf-8")
    return "--party", "party.toml"


def test_a_run_is_audited_with_the_job_that_grew_it(run):
    told = run.run("audit", "run", "--job", "job.toml", *FEW)
    assert told.exit_code == 0, told.stderr
    for words in ("rows isolated", "members found at 1 % false", "another party"):
        assert words in told.stdout
    found = found_in(run.folder / "run")
    assert [one.name for one in found.models] == ["as trained", "hardened"]
    assert found.n_rows == 95
    trained, hardened = found.models
    assert trained.groups.exact_counts
    assert not hardened.groups.exact_counts
    assert trained.membership.n_models == 4
    assert trained.auc is not None
    assert {one.view for one in found.sums} == {"another party"}  # as it is blind
    page = (run.folder / "run" / "report.html").read_text(encoding="utf-8")
    assert "What do attacks get?" in page
    assert trained.digest[:16] in page


def test_json_is_what_the_file_holds(run):
    told = run.run("audit", "run", "--job", "job.toml", "--json", *FEW)
    assert json.loads(told.stdout) == json.loads((run.folder / "run/audit.json").read_text())


def test_a_model_alone_says_what_it_could_not_try(run):
    told = run.run("audit", "run/model.spinney")
    assert told.exit_code == 0, told.stderr
    assert "Membership, attributes, the sums and epsilon were not tried" in told.stdout
    assert "--job FILE" in told.stdout


def test_a_folder_without_its_journal_says_so(run):
    told = run.run("audit", "run")
    assert "no journal of its rounds (a finished run keeps none)" in told.stdout


def test_a_proposed_job_is_audited_with_a_local_table(place):
    text = place.JOB.replace('name = "visits"', 'name = "visits"\nparties = ["a", "b", "c"]')
    place.write(text)
    code, said = place.refused("audit", "job.toml", *FEW)
    assert code == 10
    assert "'job.toml' names no table" in said
    assert "--table FILE" in said
    told = place.run("audit", "job.toml", "--table", "visits.csv", "--out", "a.json", *FEW)
    assert told.exit_code == 0, told.stderr
    views = [one.view for one in found_in(place.folder / "a.json").sums]
    assert views == ["another party"]  # the coordinator of three parties is blind by default


# --- planted faults ------------------------------------------------------------------------------


def test_a_model_with_exact_counts_is_caught(run):
    limits = party_of(run, "")
    told = run.run("audit", "exact/model.spinney", *limits)
    assert told.exit_code == 30
    assert "nodes hold exact counts of rows, and exact_counts = false" in told.stderr
    model = ForestModel.load(run.folder / "exact" / "model.spinney")
    hardened(model, Hardening()).save(run.folder / "hard.spinney")
    assert run.run("audit", "hard.spinney", *limits).exit_code == 0
    allowed = party_of(run, "[policy]\nexact_counts = true\n")
    assert run.run("audit", "exact/model.spinney", *allowed).exit_code == 0


def test_a_leaf_of_one_row_is_caught(run):
    limits = party_of(run, "[policy]\nexact_counts = true\n[policy.audit]\nleast_group = 5\n")
    told = run.run("audit", "exact/model.spinney", *limits)
    assert told.exit_code == 30
    assert "the smallest leaf holds 1 row, and least_group = 5" in told.stderr
    assert run.run("audit", "exact", *limits).exit_code == 0  # as it is hardened before it leaves


def test_noise_left_out_of_a_private_job_is_caught(place, monkeypatch):
    place.write(PRIVATE)
    assert place.run("audit", "job.toml", *FEW).exit_code == 0

    def without(decay, honest, count):
        return np.zeros(count, np.int64)

    monkeypatch.setattr(samplers, "shares", without)
    told = place.run("audit", "job.toml", *FEW)
    assert told.exit_code == 30
    assert "the job claims epsilon = 1, but 20 runs gave the same numbers" in told.stderr


def test_too_little_noise_is_caught_by_the_bound(place, monkeypatch):
    place.write(PRIVATE)
    random = np.random.default_rng(0)

    def little(decay, honest, count):
        return random.integers(0, 11, count) // 10  # seldom anything but 0

    monkeypatch.setattr(samplers, "shares", little)
    told = place.run("audit", "job.toml", "--models", "4", "--runs", "60", "--out", "a.json")
    found = found_in(place.folder / "a.json").epsilon
    assert not found.always_same
    assert found.bound > found.claim == 1
    assert told.exit_code == 30
    assert "but the job claims 1" in told.stderr


# --- limits and hand-outs ------------------------------------------------------------------------


def test_limits_decide_the_exit_code(run):
    strict = party_of(run, "[policy.audit]\nmost_isolated_in_sums = 0.0\n")
    told = run.run("audit", "run", "--job", "job.toml", *strict, *FEW)
    assert told.exit_code == 30
    assert "another party isolates" in told.stderr
    assert "and most_isolated_in_sums = 0" in told.stderr
    assert found_in(run.folder / "run").broken


def test_too_few_rows_do_not_keep_a_limit(run):
    strict = party_of(run, "[policy.audit]\nmost_tpr_at_01_percent = 0.01\n")
    told = run.run("audit", "run", "--job", "job.toml", *strict, *FEW)
    assert told.exit_code == 30
    assert "cannot be judged with so few rows: 5,000 are needed" in told.stderr


@pytest.mark.parametrize("limit", ["most_isolated", "most_cells", "most_isolated_in_sums"])
def test_a_limit_that_could_not_be_tried_is_not_kept(run, limit):
    strict = party_of(run, f"[policy.audit]\n{limit} = 0.5\n")
    told = run.run("audit", "run", *strict)
    assert told.exit_code == 30
    assert f"{limit} = 0.5 was not tried: the audit had no" in told.stderr


def test_an_export_is_refused_after_an_audit_that_did_not_pass(run):
    strict = party_of(run, "[policy.audit]\nmost_isolated_in_sums = 0.0\n")
    run.run("audit", "run", "--job", "job.toml", *strict, *FEW)
    code, said = run.refused("model", "export", "run", "out.onnx")
    assert code == 30
    assert "The audit of this run does not pass: another party isolates" in said
    plain = run.run("audit", "run", "--job", "job.toml", *FEW)  # without limits
    assert "That audit stays in the run's folder" in plain.stdout.replace("\n", " ")
    assert "No limit was set ([policy.audit]), so nothing was compared." in plain.stdout
    assert found_in(run.folder / "run").broken
    assert run.refused("model", "export", "run", "out.onnx")[0] == 30
    kind = party_of(run, "[policy.audit]\nmost_isolated_in_sums = 1.0\n")
    run.run("audit", "run", "--job", "job.toml", *kind, *FEW)
    assert run.run("model", "export", "run", "out.onnx").exit_code == 0
    assert "What do attacks get?" in (run.folder / "run/report.html").read_text(encoding="utf-8")


def test_a_model_leaves_only_after_its_own_audit(run):
    folder, limits = run.folder / "exact", AuditLimits(least_group=5)
    model = ForestModel.load(folder / "model.spinney")
    leaving = hardened(model, Hardening()).to_bytes()
    refuse_unaudited(None, folder, leaving)  # who sets no limits asks for no audit
    with pytest.raises(PolicyError, match="This model was not audited"):
        refuse_unaudited(limits, folder, leaving)
    run.run("audit", "exact")
    refuse_unaudited(limits, folder, leaving)
    with pytest.raises(PolicyError, match="nodes hold exact counts of rows"):
        refuse_unaudited(limits, folder, model.to_bytes())
    with pytest.raises(PolicyError, match="the smallest leaf holds 1 row"):
        refuse_unaudited(limits, folder, model.to_bytes(), exact_counts=True)
    other = hardened(model, Hardening(smallest_leaf=9)).to_bytes()
    with pytest.raises(PolicyError, match="is about another model"):
        refuse_unaudited(limits, folder, other)


KINDS: dict[str, dict[str, Any]] = {
    "horizontal_forest": {"epsilon": 1.0, "max_depth": 2},
    "extra_trees": {"label_privacy": '"laplace"', "epsilon": 1.0, "max_depth": 2},
    "extra_trees, local": {"label_privacy": '"local"', "epsilon": 1.0, "max_depth": 2},
    "horizontal_boosting": {"max_iter": 2, "max_depth": 2},
    "private_boosting": {"epsilon": 1.0},
    "private_tree": {"epsilon": 1.0, "max_depth": 2, "method": '"histograms"'},
}


LONGER = ("extra_trees", "private_boosting", "private_tree")  # forty fits with noise each


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=pytest.mark.slow) if k in LONGER else k for k in KINDS]
)
def test_every_learner_over_rows_is_audited(place, kind):
    protocol = kind.split(",")[0]
    given = {"n_estimators": 2} if protocol in ("horizontal_forest", "extra_trees") else {}
    settings = "\n".join(f"{k} = {v}" for k, v in (given | KINDS[kind]).items())
    text = PRIVATE.replace("private_forest", protocol)
    old = "n_estimators = 2\nmax_depth = 2\nepsilon = 1.0"
    assert old in text
    place.csv("visits.csv", place.visits(60))
    place.write(text.replace(old, settings))
    told = place.run("audit", "job.toml", *FEW, "--json")
    assert told.exit_code == 0, told.stderr
    found = json.loads(told.stdout)
    is_noisy = kind not in ("horizontal_boosting", "extra_trees, local")
    assert {one["groups"]["noisy"] for one in found["models"]} == {is_noisy}
    assert [one["groups"]["exact_counts"] for one in found["models"]] == [not is_noisy, False]
    assert (found["epsilon"] is not None) == is_noisy


# --- bad input -----------------------------------------------------------------------------------


def test_a_model_of_another_version_is_refused(run):
    file = run.folder / "run" / "model.spinney"
    data = file.read_bytes()
    file.write_bytes(data[:8] + (9).to_bytes(4, "little") + data[12:])
    words = "has format version 9; this Spinney reads version 1. Install the Spinney that wrote it"
    for command in (
        ("audit", "run"),
        ("audit", "run/model.spinney"),
        ("model", "export", "run", "out.onnx"),
        ("report", "--for-officer", "run"),
    ):
        code, said = run.refused(*command)
        assert code == 22
        assert words in said


def test_what_is_no_model_is_refused(run):
    (run.folder / "run" / "model.spinney").write_bytes(b"not a model")
    code, said = run.refused("audit", "run/model.spinney")
    assert code == 22
    assert "is not a Spinney file" in said


def test_a_folder_without_a_model_is_refused(place):
    (place.folder / "empty").mkdir()
    code, said = place.refused("audit", "empty")
    assert code == 22
    assert "holds no model.spinney: it is no run, or one that has not finished" in said


def test_a_job_that_grows_another_model_is_refused(run):
    text = (run.folder / "job.toml").read_text()
    (run.folder / "other.toml").write_text(text.replace("max_depth = 9", "max_depth = 2"))
    code, said = run.refused("audit", "run", "--job", "other.toml", *FEW)
    assert code == 10
    assert "grows another model than the one that is audited" in said


def test_a_table_without_a_job_is_refused(run):
    code, said = run.refused("audit", "run", "--table", "visits.csv")
    assert code == 10
    assert "A table alone does not say how the model was grown" in said


def test_a_job_that_leaves_parts_is_refused(place):
    place.write(place.JOB.replace('name = "visits"', 'name = "v"\nprotocol = "genetic_tree"')
                .replace("n_estimators = 4\n", "").replace("max_depth = 3", "max_depth = 2")
                + place.TABLE)  # fmt: skip
    code, said = place.refused("audit", "job.toml")
    assert code == 10
    assert "leaves no single model over rows" in said


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--models", "5"), "--models must be an even number from 4 on; got 5."),
        (("--runs", "3"), "--runs must be at least 20; got 3."),
    ],
)
def test_an_effort_that_finds_nothing_is_refused(run, option, said):
    code, line = run.refused("audit", "run", *option)
    assert code == 10
    assert said in line


def test_a_table_too_small_for_halves_says_how_many_rows_it_needs(place):
    place.csv("visits.csv", place.visits(30))
    place.job()
    told = place.run("audit", "job.toml", *FEW)
    assert told.exit_code == 0, told.stderr
    assert "rows are too few to train on halves of them; 40 are needed" in told.stdout


def test_an_audit_of_another_format_is_refused(run):
    run.run("audit", "run")
    file = run.folder / "run" / "audit.json"
    given = msgspec.json.decode(file.read_bytes())
    file.write_bytes(msgspec.json.encode({**given, "format": 2}))
    code, said = run.refused("model", "export", "run", "out.onnx")
    assert code == 22
    assert "has audit format 2; this Spinney" in said


def test_a_model_that_left_hardened_is_judged_as_it_is(run):
    model = ForestModel.load(run.folder / "exact" / "model.spinney")
    hardened(model, Hardening()).save(run.folder / "hard.spinney")
    alone = run.run("audit", "hard.spinney", "--out", "a.json")
    assert alone.exit_code == 0, alone.stderr
    assert [one.name for one in found_in(run.folder / "a.json").models] == ["hardened"]
    told = run.run("audit", "hard.spinney", "--job", "job.toml", "--out", "b.json", *FEW)
    assert told.exit_code == 0, told.stderr
    digest = found_in(run.folder / "a.json").models[0].digest
    assert found_in(run.folder / "b.json").judged.digest == digest


def test_a_party_audits_the_joint_model_with_its_own_rows(run):
    rows = (run.folder / "visits.csv").read_text().splitlines(keepends=True)
    (run.folder / "own.csv").write_text("".join(rows[:60]))
    deployed = run.JOB.replace('name = "visits"', 'name = "visits"\nparties = ["a", "b"]')
    deployed = deployed.replace("n_estimators = 4", "n_estimators = 20")
    (run.folder / "deployed.toml").write_text(deployed.replace("max_depth = 3", "max_depth = 9"))
    party = party_of(run, "[policy.audit]\nmost_isolated = 0.9\nleast_group = 5\n")
    text = (run.folder / "party.toml").read_text().replace("visits.csv", "own.csv")
    (run.folder / "party.toml").write_text(text)
    told = run.run("audit", "run", "--job", "deployed.toml", *party, *FEW)
    assert told.exit_code == 0, told.stderr
    assert "The rows are a party's own" in told.stdout
    found = found_in(run.folder / "run")
    assert found.n_rows == 59
    assert found.models[0].rebuilt.isolated.hits == 0  # hardened: no count is told
    model = ForestModel.load(run.folder / "run" / "model.spinney")
    limits = AuditLimits(most_isolated=0.9, least_group=5)
    refuse_unaudited(limits, run.folder / "run", hardened(model, Hardening()).to_bytes())


@pytest.mark.parametrize(
    ("more", "views"),
    [
        ('\nsecure_sum = true\ncoordinator = "blind"', ["another party"]),
        ("", ["another party"]),  # it is blind by default
        ('\ncoordinator = "sighted"', ["the coordinator", "another party"]),
    ],
)
def test_a_blind_coordinator_has_no_view_of_the_sums(place, more, views):
    place.write(place.JOB.replace("n_jobs = 1", f"n_jobs = 1{more}") + place.TABLE)
    told = place.run("audit", "job.toml", "--out", "a.json", *FEW)
    assert told.exit_code == 0, told.stderr
    assert [one.view for one in found_in(place.folder / "a.json").sums] == views


def test_a_forest_too_large_for_memory_is_refused(run, monkeypatch):
    monkeypatch.setattr("spinney.audit.run._MOST_SIDES", 100)
    code, said = run.refused("audit", "run", "--job", "job.toml", *FEW)
    assert code == 10
    assert "more than an audit holds in memory" in said
    assert "--table FILE" in said


def test_a_run_that_left_without_what_nobody_declared_is_audited_with_its_job(place):
    """Its schema lacks a rare category and the ends of a range, which the job reads again."""
    rows = [(age, "knee" if n == 4 else ward, float(age or 50) * 1.37) for n, (age, ward, _) in
            enumerate(place.visits())]  # fmt: skip
    place.csv("costs.csv", rows, header=("age", "ward", "cost"))
    job = """
        [job]
        name = "costs"
        task = "regression"
        [table]
        source = "csv"
        path = "costs.csv"
        label = "cost"
        [settings]
        n_estimators = 2
        random_state = 0
        [simulation]
        n_parties = 3
    """
    (place.folder / "costs.toml").write_text(job)
    assert place.run("simulate", "costs.toml", "--out", "run").exit_code == 0
    report = (place.folder / "run/report.json").read_text()
    assert "1 range that nobody declared rounded outward: the ends are cells of rows" in report
    done = place.run("audit", "run", "--job", "costs.toml", *FEW)
    assert done.exit_code == 0, done.stderr
