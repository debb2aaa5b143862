"""Job files, folders and models that cannot be used: refused in one line, before any work."""

import os
import re

import pytest


def test_a_job_file_that_cannot_be_read_is_refused(place):
    code, line = place.refused("simulate", "nowhere.toml")
    assert code == 10
    assert re.search("Cannot read the job file 'nowhere.toml': No such file", line)
    (place.folder / "latin.toml").write_bytes(b"# caf\xe9\n")
    code, line = place.refused("simulate", "latin.toml")
    assert code == 10
    assert re.search("'latin.toml' is not a job file: it is not UTF-8 text", line)


@pytest.mark.parametrize(
    ("out", "wording"),
    [
        ("visits.csv", "'visits.csv' is not a folder"),
        ("visits.csv/a/b", "'visits.csv' is not a folder"),
        ("taken", "'taken/model.spinney' is a folder"),
    ],
)
@pytest.mark.parametrize("command", [("demo",), ("simulate", "job.toml")])
def test_a_folder_that_cannot_be_written_is_refused_before_the_work(place, command, out, wording):
    place.job(path='"nowhere.csv"')  # the folder is looked at first
    (place.folder / "taken" / "model.spinney").mkdir(parents=True)
    code, line = place.refused(*command, "--out", out)
    assert code == 22
    assert line.startswith(f"spinney: Cannot write into the folder {out!r}: {wording}. Choose")


def test_a_folder_without_the_right_to_write_is_refused(place, monkeypatch):
    place.job()
    (place.folder / "locked").mkdir()
    # Root may write everywhere, so the system's answer is given for it.
    monkeypatch.setattr(os, "access", lambda path, _: "locked" not in str(path))
    code, line = place.refused("simulate", "job.toml", "--out", "locked/run")
    assert code == 22
    assert re.search("'locked' may not be written to", line)


@pytest.mark.parametrize(
    ("name", "wording"),
    [
        ("cut.spinney", "'cut.spinney' is damaged or cut short: its checksum does not match"),
        ("stub.spinney", "'stub.spinney' is cut short"),
        ("visits.csv", "'visits.csv' is not a Spinney file. Give the path of a model"),
        ("nowhere", "Cannot read 'nowhere': No such file or directory"),
        (".", "Cannot read 'model.spinney': No such file or directory"),
    ],
)
def test_a_truncated_or_foreign_model_is_refused(place, name, wording):
    place.job()
    assert place.run("simulate", "job.toml").exit_code == 0
    whole = (place.folder / "runs/visits/model.spinney").read_bytes()
    (place.folder / "cut.spinney").write_bytes(whole[:-7])
    (place.folder / "stub.spinney").write_bytes(whole[:12])
    code, line = place.refused("model", "show", name)
    assert code == 22
    assert wording in line
    shown = place.run("model", "show", "runs/visits")
    assert shown.exit_code == 0
    assert "horizontal_forest, 4 trees, depth 3" in shown.stdout
