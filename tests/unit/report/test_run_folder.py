"""A run's files appear whole and together, or not at all."""

import os
from pathlib import Path
from typing import Any

import pytest

from spinney.errors import StorageError
from spinney.report import run_folder as module
from spinney.report.file_names import (
    MODEL,
    PAGE,
    REPORT,
)
from spinney.report.run_folder import require_writable, write_run


class Model:
    released = None

    def __init__(self, data=b"model"):
        self.data = data

    def to_bytes(self):
        return self.data


class Report:
    release = None

    def to_json(self):
        return '{"n": 1}'


@pytest.fixture(autouse=True)
def _a_plain_page(monkeypatch):
    monkeypatch.setattr(module, "page_of", lambda *_: "page")


def write(folder, data=b"model"):
    model: Any = Model(data)
    report: Any = Report()
    write_run(folder, model, report)


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("out", ["run", "a/b/run", "."])
def test_a_run_is_three_files(tmp_path, monkeypatch, out):
    monkeypatch.chdir(tmp_path)
    folder = Path(out)
    require_writable(folder)
    write(folder)
    assert names(folder) == [MODEL, PAGE, REPORT]
    assert (folder / MODEL).read_bytes() == b"model"
    assert (folder / REPORT).read_text(encoding="utf-8") == '{"n": 1}'
    wanted = 0o666 & ~_umask()
    assert all((folder / name).stat().st_mode & 0o777 == wanted for name in (MODEL, REPORT, PAGE))


def test_a_later_run_replaces_the_files_and_nothing_else(tmp_path):
    write(tmp_path / "run", b"old")
    (tmp_path / "run" / "notes.txt").write_text("mine", encoding="utf-8")
    write(tmp_path / "run", b"new")
    assert names(tmp_path / "run") == [MODEL, "notes.txt", PAGE, REPORT]
    assert (tmp_path / "run" / MODEL).read_bytes() == b"new"


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), OSError(28, "No space left on device")])
@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("at", ["writing", "moving"])
def test_a_failure_on_the_way_leaves_all_as_it_was(tmp_path, monkeypatch, failure, exists, at):
    out = tmp_path / "a" / "run"
    if exists:
        write(out, b"old")
    before = names(tmp_path)

    def fail(*_):
        raise failure

    if at == "writing":
        monkeypatch.setattr(Report, "to_json", fail)
    else:
        monkeypatch.setattr(module, "_move", fail)
    is_disk = isinstance(failure, OSError)
    with pytest.raises(StorageError if is_disk else KeyboardInterrupt) as told:
        write(out)
    if is_disk:
        assert told.match(r"Cannot write into the folder '.*run': No space left on device\. Choose")
    assert names(tmp_path) == before
    if exists:
        assert (out / MODEL).read_bytes() == b"old"


def _umask():
    before = os.umask(0)
    os.umask(before)
    return before
