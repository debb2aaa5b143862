"""The tutorials, one notebook for each reader: every cell runs, in order, in an empty folder."""

import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples" / "notebooks").glob("*.ipynb"))
READERS = ["coordinator", "data_scientist", "operator", "privacy_officer", "researcher"]


def test_every_reader_of_the_readme_has_a_notebook():
    assert [path.stem for path in NOTEBOOKS] == READERS


def cells(path):
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in found if cell["cell_type"] == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=READERS)
def test_a_notebook_is_stored_without_output(path):
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.slow  # they start commands and grow forests: half a minute
@pytest.mark.parametrize("path", NOTEBOOKS, ids=READERS)
def test_a_notebook_runs(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for cell in cells(path):
        exec(compile(cell, path.name, "exec"), names)
    assert capsys.readouterr().out
