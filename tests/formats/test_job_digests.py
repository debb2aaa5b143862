"""A job that was accepted under Spinney 0.1.0 is the same job after an upgrade.

`data/job_digests.json` has job files, the digest that parties accepted for each, the job as it
travelled, and the settings that it meant. A party refuses a job whose digest is another, and a run
that has begun is held to its settings. Only a job file that says nothing about leaves, masks or its
coordinator is another job now, because job files have other defaults since (`jobs.careful`).
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from spinney.deployment.job import PROPOSE, Agreed, agreement_of
from spinney.jobs.file import load_job

KNOWN = json.loads((Path(__file__).parent / "data" / "job_digests.json").read_text("utf-8"))
each_job = pytest.mark.parametrize("known", KNOWN.values(), ids=KNOWN.keys())


SINCE: dict[str, dict[str, Any]] = {  # what job files without noise that do not say it say now
    "docs/examples/three_clinics.toml": {"secure_sum": True, "coordinator": "blind"},
    "forest, all said": {"coordinator": "blind"},  # it came after these files
    "forest, nothing said": {"min_samples_leaf": 5},
    "forest, adaptive, regression": {"min_samples_leaf": 5},  # cannot be masked
    "forest, balanced, no bootstrap": {
        "min_samples_leaf": 5,
        "secure_sum": True,
        "coordinator": "blind",
    },
    "extra-trees": {"min_samples_leaf": 5},  # cannot be masked
    "evolved trees, regression, sizes": {"secure_sum": True},
    "columns, psi, encrypted": {"min_samples_leaf": 5},
}


@pytest.mark.parametrize("name", KNOWN)
def test_a_job_file_has_the_digest_that_parties_accepted(name, tmp_path):
    known = KNOWN[name]
    path = tmp_path / "job.toml"
    path.write_text(known["toml"], encoding="utf-8")
    job = load_job(path, deployed=True)
    agreed, before = agreement_of(job), Agreed.of_bytes(known["json"].encode())
    settings = before.settings | SINCE.get(name, {})
    assert agreed == msgspec.structs.replace(before, settings=settings)
    if not SINCE.get(name):
        assert agreed.to_bytes().decode() == known["json"]
        assert agreed.digest == known["digest"]
        assert agreement_of(job, PROPOSE).digest == known["digest"]


@each_job
def test_a_job_that_was_sent_is_read_as_it_was(known):
    agreed = Agreed.of_bytes(known["json"].encode())
    assert agreed.to_bytes().decode() == known["json"]
    assert agreed.digest == known["digest"]


@each_job
def test_a_job_means_the_settings_that_it_meant(known):
    agreed = Agreed.of_bytes(known["json"].encode())
    said = said_in(asdict(agreed.protocol_settings()))
    assert json.loads(json.dumps(said)) == known["settings"]


def said_in(meant):
    """Return settings without those that are left out because they are newer."""
    if not isinstance(meant, dict):
        return meant
    return {name: said_in(value) for name, value in meant.items() if value is not UNSET}
