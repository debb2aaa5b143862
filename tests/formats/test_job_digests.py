"""A job that was accepted under Spinney 0.1.0 is the same job after an upgrade.

`data/job_digests.json` has job files, the digest that parties accepted for each, the job as it
travelled, and the settings that it meant. A party refuses a job whose digest is another, and a run
that has begun is held to its settings.
"""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from msgspec import UNSET

from spinney.deployment.job import PROPOSE, Agreed, agreement_of
from spinney.jobs.file import load_job

KNOWN = json.loads((Path(__file__).parent / "data" / "job_digests.json").read_text("utf-8"))
each_job = pytest.mark.parametrize("known", KNOWN.values(), ids=KNOWN.keys())


@pytest.fixture
def job(known, tmp_path):
    path = tmp_path / "job.toml"
    path.write_text(known["toml"], encoding="utf-8")
    return load_job(path, deployed=True)


@each_job
def test_a_job_file_has_the_digest_that_parties_accepted(known, job):
    agreed = agreement_of(job)
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
    meant = asdict(agreed.protocol_settings())
    said = {name: value for name, value in meant.items() if value is not UNSET}  # or newer
    assert json.loads(json.dumps(said)) == known["settings"]
