"""Job files that grow extra-trees."""

import json
from pathlib import Path

import pytest

from spinney.errors import SettingError
from spinney.jobs.file import load_job
from spinney.simulation.progress import Stages
from spinney.simulation.run import simulate

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"


def job_of(tmp_path, settings, task="classification", protocol="extra_trees"):
    path = tmp_path / "job.toml"
    path.write_text(
        f'[job]\nname = "j"\nprotocol = "{protocol}"\ntask = "{task}"\n'
        f'[settings]\n{settings}\n[table]\nsource = "csv"\npath = "t.csv"\nlabel = "y"\n',
        encoding="utf-8",
    )
    return load_job(path)


def test_what_is_left_out_has_the_estimator_s_default_or_what_shows_less(tmp_path):
    settings = job_of(tmp_path, "n_estimators = 7").protocol_settings()
    assert (settings.n_estimators, settings.bootstrap, settings.privacy) == (7, False, None)
    assert (settings.binning, settings.thresholds, settings.max_features) == (
        "magnitudes",
        "public",
        "sqrt",
    )


def test_privacy_is_the_job_s(tmp_path):
    job = job_of(tmp_path, 'label_privacy = "local"\nlabel_scheme = "bloom"')
    privacy = job.protocol_settings().privacy
    assert (privacy.job, privacy.mechanism, privacy.label_scheme) == (
        "j",
        "randomised_labels",
        "bloom",
    )
    noisy = job_of(tmp_path, 'label_privacy = "laplace"\nepsilon = 1.0\nmax_depth = 3')
    assert noisy.protocol_settings().binning == "ranges"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("max_cells = 8", "has no setting 'max_cells'"),
        ('thresholds = "exchanged"\nsecure_sum = true', "cannot be masked"),
        ('label_privacy = "laplace"', "needs epsilon"),
        ('thresholds = "exchanged"\nlabel_privacy = "local"', "in a private job"),
    ],
)
def test_what_cannot_work_is_refused(settings, words, tmp_path):
    with pytest.raises(SettingError, match=words):
        job_of(tmp_path, settings).protocol_settings()


def test_a_forest_that_seeks_its_cuts_has_no_thresholds(tmp_path):
    words = (
        "protocol = 'horizontal_forest' has no setting 'thresholds': it belongs to 'extra_trees'"
    )
    with pytest.raises(SettingError, match=words):
        job_of(tmp_path, 'thresholds = "public"', protocol="horizontal_forest")


def test_the_example_runs(tmp_path):
    outcome = simulate(EXAMPLES / "extra_clinics.toml", tmp_path / "run", Stages())
    assert outcome.rounds <= 6 + 6 + 3  # labels are random: nodes may draw on
    report = json.loads((tmp_path / "run" / "report.json").read_text(encoding="utf-8"))
    assert report["protocol"] == "extra_trees"
    assert any(claim["epsilon"] == "2" for claim in report["privacy"] if claim["unit"] == "label")
