"""`spinney party fit`: a party fits a finished run's model to its own rows, and tells nobody."""

import json
from hashlib import sha256

import msgspec
import pytest
from typer.testing import CliRunner

from deployed.handmade import (  # type: ignore[import-not-found]
    EXAMPLES,
    Sites,
    agreed_job,
    clinics_in,
    write_party,
)
from spinney.cli.export import predict_file
from spinney.cli.main import app
from spinney.deployment.party.fitting import fit_run
from spinney.deployment.questions import DerivedAsk, TermsReply
from spinney.errors import SettingError, StorageError, TableError
from spinney.protocols.home import StoredFit
from spinney.protocols.release_terms import Hardening
from spinney.protocols.verified.channel import VerifiedSums

TERMS = TermsReply.of(Hardening())


def skewed(folder):
    """Give a party three yes out of hundred, whose ages and stays are those of the others."""
    head, *lines = (EXAMPLES / "lakeside.csv").read_text().splitlines()
    yes = [line for line in lines if line.endswith(",yes")][:3]
    no = [line for line in lines if line.endswith(",no")]
    path = folder / "lakeside" / "own.csv"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join([head, *yes, *no]) + "\n")
    write_party(folder, "lakeside", table=f'source = "csv"\npath = "{path}"\nrow_id = "visit"')
    return path


def finished(folder, **how):
    """Run a job at three parties to its end; return their folder."""
    agreed = agreed_job(folder, **how)
    sites = Sites(folder, agreed)
    wire = sites.channel()
    channel = VerifiedSums(sites.keyed(wire))
    settings = agreed.protocol_settings()
    model = agreed.spec.train(channel, settings, n_jobs=1, progress=lambda *_: None).model
    wire.ask(DerivedAsk(sha256(model.to_bytes()).hexdigest(), channel.opened, TERMS))
    sites.close()
    return folder


@pytest.fixture
def clinics(tmp_path):
    """Three parties of which one has another share of each class."""
    folder = clinics_in(tmp_path)
    skewed(folder)
    return folder


@pytest.mark.parametrize(
    ("how", "rows"),
    [
        ({"n_estimators": "20"}, "out-of-bag"),
        ({"n_estimators": "20", "held_out": 0.3}, "held-out"),
        (
            {
                "job": 'protocol = "horizontal_boosting"',
                "n_estimators": "None",
                "held_out": 0.3,
                "max_iter": "10",
            },
            "held-out",
        ),
        (
            {"job": 'protocol = "extra_trees"', "n_estimators": "20", "held_out": 0.3},
            "held-out",
        ),
    ],
    ids=["forest", "forest, held out", "boosting", "extra-trees"],
)
def test_a_party_fits_the_model_of_a_run_without_an_answer_leaving(clinics, how, rows):
    finished(clinics, **how)
    records = clinics / "lakeside" / "records" / "runs" / "run-1"
    before = {path: path.read_bytes() for path in clinics.rglob("*") if path.is_file()}
    found = fit_run(clinics / "lakeside" / "party.toml", "run", clinics / "job.toml", "accuracy")
    assert found.rows == rows
    assert found.common == "no"
    assert found.majority > 0.9
    assert found.fitted >= found.majority - 0.02
    assert found.fitted >= found.joint
    after = {path: path.read_bytes() for path in clinics.rglob("*") if path.is_file()}
    assert set(after) - set(before) == {records / "home.json"}
    assert all(after[path] == data for path, data in before.items())


def test_what_a_party_fitted_predicts_from_its_file(clinics, tmp_path):
    finished(clinics, n_estimators="20")
    records = clinics / "lakeside" / "records" / "runs" / "run-1"
    fit_run(clinics / "lakeside" / "party.toml", "run-1", clinics / "job.toml", "accuracy")
    table = clinics / "lakeside" / "own.csv"
    joint, n_rows = predict_file(records, table, None)
    fitted, n_fitted = predict_file(records, table, None, home=records / "home.json")
    assert n_rows == n_fitted > 90
    assert joint.splitlines()[0] == fitted.splitlines()[0]
    yes = [
        sum(float(line.split(",")[2]) for line in text.splitlines()[1:]) / n_rows
        for text in (joint, fitted)
    ]
    assert yes[1] < 0.15 < yes[0]  # 3 rows of about 130 say yes
    other = finished(clinics_in(tmp_path / "other"), n_estimators="3")
    with pytest.raises(SettingError, match="'lakeside' fitted another model than"):
        predict_file(
            other / "north" / "records" / "runs" / "run-1", table, None, home=records / "home.json"
        )


def test_the_command_says_what_came_of_it(clinics):
    finished(clinics, n_estimators="20")
    said = CliRunner().invoke(
        app,
        [
            *("party", "fit", str(clinics / "lakeside" / "party.toml"), "run-1"),
            *(str(clinics / "job.toml"), "--metric", "f1", "--out", str(clinics / "fit.json")),
        ],
    )
    assert said.exit_code == 0, said.output
    assert "Nothing left this machine." in said.output
    assert "most common class   'no', 0.9" in said.output
    assert json.loads((clinics / "fit.json").read_text())["metric"] == "f1"
    table = str(clinics / "lakeside" / "own.csv")
    model = str(clinics / "lakeside" / "records" / "runs" / "run-1")
    said = CliRunner().invoke(
        app, ["model", "predict", model, table, "--home", str(clinics / "fit.json")]
    )
    assert said.exit_code == 0, said.output
    assert said.output.startswith("readmitted,share of no,share of yes\n")


def test_what_a_party_cannot_fit_is_refused(clinics):
    finished(clinics, n_estimators="3", bootstrap="false")
    own, job = clinics / "lakeside" / "party.toml", clinics / "job.toml"
    with pytest.raises(SettingError, match="Every row of this party was trained on"):
        fit_run(own, "run-1", job, "accuracy")
    with pytest.raises(SettingError, match=r"'run-2' is no run that left a model here.* run-1"):
        fit_run(own, "run-2", job, "accuracy")
    with pytest.raises(SettingError, match="--metric must be 'accuracy', 'balanced_accuracy'"):
        fit_run(own, "run-1", job, "profit")
    agreed_job(clinics, n_estimators="4", bootstrap="false")
    with pytest.raises(SettingError, match="was trained by another job file"):
        fit_run(own, "run-1", job, "accuracy")


def test_a_table_that_changed_is_not_fitted_to(clinics):
    finished(clinics, n_estimators="3")
    table = clinics / "lakeside" / "own.csv"
    table.write_text("\n".join(table.read_text().splitlines()[:-1]) + "\n")
    with pytest.raises(TableError, match="The table changed since this party accepted"):
        fit_run(clinics / "lakeside" / "party.toml", "run-1", clinics / "job.toml", "accuracy")


@pytest.mark.parametrize(
    "change",
    [{"format": 2}, {"slope": 1e999}, {"weight": (1.0, -1.0)}, {"more": 1}, {"offset": "no"}],
)
def test_a_file_that_is_no_fit_is_refused(tmp_path, change):
    fit = StoredFit(
        party="a",
        model="0" * 64,
        metric="f1",
        rows="held-out",
        n_rows=3,
        slope=1.0,
        offset=(0.0, 0.0),
        weight=(1.0, 1.0),
    )
    path = tmp_path / "home.json"
    path.write_bytes(msgspec.json.encode(fit))
    assert StoredFit.load(path) == fit
    said = {**msgspec.to_builtins(fit), **change}
    path.write_text(json.dumps(said))
    with pytest.raises(StorageError, match="is no fit that this Spinney can read"):
        StoredFit.load(path)
    with pytest.raises(StorageError, match="Cannot read"):
        StoredFit.load(tmp_path / "none.json")
