"""A job file is careful where it says nothing; the report says where a job is not."""

from typing import Any

import pytest

from spinney.jobs.careful import careful_settings, weaker_than_default
from spinney.jobs.file import load_job
from spinney.jobs.registry import spec_of
from spinney.protocols.release_terms import EXACT, Hardening
from spinney.protocols.spec import JobFacts

SCHEMA = '[schema]\nlabel = "y"\nclasses = ["no", "yes"]\ncolumns = ["a", "b"]\n'


def job_of(folder, settings="", *, parties=("a", "b", "c"), protocol="horizontal_forest"):
    path = folder / "job.toml"
    path.write_text(
        f'[job]\nname = "q"\nprotocol = "{protocol}"\nparties = {list(parties)}\n'
        f"[settings]\n{settings}\n{SCHEMA}"
    )
    return load_job(path, deployed=True)


def weaker(job, release=Hardening()):  # noqa: B008  frozen
    settings = job.protocol_settings(job.schema.classes)
    return weaker_than_default(job.spec, job.settings, settings, len(job.job.parties), release)


def test_leaves_have_five_rows_and_three_parties_mask_their_sums(tmp_path):
    job = job_of(tmp_path)
    assert (job.settings.min_samples_leaf, job.settings.secure_sum) == (5, True)
    assert weaker(job) == ()
    two = job_of(tmp_path, parties=("a", "b"))
    assert (two.settings.min_samples_leaf, two.settings.secure_sum) == (5, None)


def test_a_coordinator_of_three_parties_does_not_see_their_sums(tmp_path):
    assert job_of(tmp_path).settings.coordinator == "blind"
    assert job_of(tmp_path, "secure_sum = true").settings.coordinator == "blind"
    assert job_of(tmp_path, "secure_sum = false").settings.coordinator is None
    assert job_of(tmp_path, parties=("a", "b")).settings.coordinator is None
    assert job_of(tmp_path, 'coordinator = "sighted"').settings.coordinator == "sighted"
    evolved = job_of(tmp_path, protocol="genetic_tree").settings
    assert (evolved.secure_sum, evolved.coordinator) == (True, None)  # it compares trees' scores


def test_what_a_file_says_is_kept(tmp_path):
    job = job_of(tmp_path, "min_samples_leaf = 2\nsecure_sum = false")
    assert (job.settings.min_samples_leaf, job.settings.secure_sum) == (2, False)


@pytest.mark.parametrize(
    ("protocol", "settings"),
    [("horizontal_forest", 'binning = "adaptive"'), ("extra_trees", 'thresholds = "exchanged"')],
)
def test_what_cannot_be_masked_is_not(tmp_path, protocol, settings):
    job = job_of(tmp_path, settings, protocol=protocol)
    assert (job.settings.min_samples_leaf, job.settings.secure_sum) == (5, None)


def test_a_masked_search_that_asks_one_party_alone_is_not_masked():
    spec: Any = spec_of("genetic_tree")
    alone = spec.job_settings(participation=0.3)
    facts = JobFacts("q", "classification", ("no", "yes"), ("a", "b", "c"))
    for given, is_masked in ((alone, None), (spec.job_settings(), True)):
        settings = spec.settings_of(given, facts)
        assert careful_settings(spec, given, settings, 3).secure_sum is is_masked


def test_a_job_with_noise_keeps_its_own_rules(tmp_path):
    job = job_of(tmp_path, "epsilon = 1.0\nmax_depth = 3")
    assert (job.settings.min_samples_leaf, job.settings.secure_sum) == (None, None)
    assert weaker(job) == ()


WEAK = {
    "min_samples_leaf = 4": "min_samples_leaf = 4: a leaf may hold fewer than 5 rows",
    "min_samples_leaf = 0.01": "min_samples_leaf = 0.01: a leaf may hold fewer than 5 rows",
    'coordinator = "sighted"': 'coordinator = "sighted": the coordinator saw the sums over parties',
    "secure_sum = false": "sums were not masked: the coordinator saw each party's own counts",
}


@pytest.mark.parametrize("settings", WEAK)
def test_a_weaker_job_is_told(tmp_path, settings):
    assert weaker(job_of(tmp_path, settings)) == (WEAK[settings],)


def test_two_parties_and_weaker_terms_are_told(tmp_path):
    two = job_of(tmp_path, parties=("a", "b"))
    assert weaker(two) == ("2 parties: each can subtract its own counts from every sum",)
    exact = weaker(job_of(tmp_path), EXACT)
    assert exact == ("the model left with smallest_leaf=1; the default is smallest_leaf=5",)
