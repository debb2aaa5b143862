"""A party whose policy has limits for an audit lets no model leave before it was audited."""

import json

import pytest
from typer.testing import CliRunner

from deployed.handmade import (  # type: ignore[import-not-found]
    Sites,
    agreed_job,
    attempt_of,
    clinics_in,
    coordinator_in,
    write_party,
)
from spinney.cli.main import app
from spinney.deployment.coordinator.process import Run
from spinney.errors import PolicyError, UnauditedError


def conducted(folder, job, attempt):
    sites = Sites(folder, job, attempt=attempt)
    run = Run(coordinator_in(folder), job, attempt_of(job, attempt=attempt), sites.bytes_to)
    try:
        run.conduct()
    finally:
        sites.close()


def states(folder):
    return json.loads((folder / "runs" / "run-1" / "status.json").read_text())["state"]


def audited(folder):
    return CliRunner().invoke(
        app,
        [
            "audit",
            str(folder / "north" / "records" / "runs" / "run-1"),
            "--party",
            str(folder / "north" / "party.toml"),
        ],
    )


def test_a_run_waits_for_the_audit_and_goes_on_after_it(tmp_path):
    clinics_in(tmp_path)
    write_party(tmp_path, "north", more="[policy.audit]\nleast_group = 2")
    job = agreed_job(tmp_path, min_samples_leaf="5")
    with pytest.raises(UnauditedError, match=r"'north': This model was not audited.*spinney audit"):
        conducted(tmp_path, job, 1)
    assert states(tmp_path) == "paused"
    told = audited(tmp_path)
    assert told.exit_code == 0, told.stderr
    conducted(tmp_path, job, 2)
    assert states(tmp_path) == "finished"


def test_a_model_that_does_not_pass_does_not_leave(tmp_path):
    clinics_in(tmp_path)
    write_party(tmp_path, "north", more="[policy.audit]\nleast_group = 400")
    job = agreed_job(tmp_path, min_samples_leaf="5")
    with pytest.raises(UnauditedError):
        conducted(tmp_path, job, 1)
    assert audited(tmp_path).exit_code == 30
    with pytest.raises(PolicyError, match=r"The audit of this model: the smallest leaf holds \d+"):
        conducted(tmp_path, job, 2)
    assert states(tmp_path) == "failed"
    disclosed = (
        tmp_path / "north" / "records" / "runs" / "run-1" / "disclosures.jsonl"
    ).read_text()
    assert "refused: The audit of this model" in disclosed
