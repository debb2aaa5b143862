"""README, guides and examples run as they are written, and name only what exists."""

import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from spinney import __version__, load_model
from spinney.cli.main import app
from spinney.errors import PrivacyLeakWarning
from spinney.jobs.file import (
    JobConfig,
    PartyConfig,
    SchemaConfig,
    SimulationConfig,
    TableConfig,
)
from spinney.jobs.registry import SPECS
from spinney.protocols.release_terms import Hardening

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("changes/*.md")])
EXAMPLES = sorted(ROOT.glob("docs/examples/*.toml"))


def blocks(document, language):
    text = document.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_there_are_documents_and_examples_to_test():
    assert {path.name for path in DOCUMENTS} >= {
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "files.md",
    }
    assert len(EXAMPLES) == 6


def test_the_readme_fits_a_screen_and_its_python_runs(capsys):
    readme = ROOT / "README.md"
    assert len(readme.read_text(encoding="utf-8").splitlines()) <= 70
    (code,) = blocks(readme, "python")
    names: dict[str, Any] = {}
    with pytest.warns(PrivacyLeakWarning, match="classes of 'y'"):
        exec(compile(code, "README.md", "exec"), names)
    assert "5 parties   100 trees" in capsys.readouterr().out
    assert names["forest"].score(names["X"], names["y"]) > 0.95


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_links_and_folders_exist(document):
    commands: Any = get_command(app)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)
    text = document.read_text(encoding="utf-8")
    written = re.findall(r"--write (\S+)", text)
    for block in blocks(document, "console"):
        for line in block.splitlines():
            words = line.removeprefix("$ ").split("#")[0].split()
            if words[0].endswith("spinney"):
                assert words[1] in commands.commands
            elif words[0] == "make":
                assert words[1] in targets
            named = (word for word in words[2:] if word.endswith(".toml"))
            assert all((ROOT / word).exists() or word in written for word in named)
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert link.startswith("http") or (document.parent / link).exists(), link
    for folder in re.findall(r"`([a-z_]+/(?:[\w.]+/?)*)`", text):
        places = (ROOT, ROOT / "src/spinney")
        if folder.split("/")[0] in {
            "tables",
            "trees",
            "privacy",
            "protocols",
            "jobs",
            "simulation",
            "deployment",
            "cli",
            "docs",
        }:
            assert any((place / folder).exists() for place in places), folder


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_job_runs_without_a_warning(example, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "spinney.simulation.progress._COMPILING_AFTER", 3600
    )  # a slow start is fine
    told = CliRunner().invoke(app, ["simulate", str(example), "--out", str(tmp_path / "run")])
    assert told.exit_code == 0, told.stderr
    assert told.stderr == ""
    assert "joining helped" in told.stdout.lower()
    job = example.read_text(encoding="utf-8")
    if "[[party]]" not in job and "genetic_tree" not in job:  # whose trees are the parties' own
        assert "identical to the pooled one, bit for bit." in told.stdout


def test_the_model_file_can_be_read_by_its_description_alone(tmp_path):
    (code,) = blocks(ROOT / "docs/files.md", "python")
    reader: dict[str, Any] = {}
    exec(compile(code, "files.md", "exec"), reader)
    told = CliRunner().invoke(
        app, ["simulate", str(ROOT / "docs/examples/one_table.toml"), "--out", str(tmp_path)]
    )
    assert told.exit_code == 0
    meta, arrays = reader["read_model"](tmp_path / "model.spinney")
    columns = meta["schema"]["columns"]
    frame = pd.read_csv(ROOT / "docs/examples/visits.csv").head(60)
    frame = frame[[column["name"] for column in columns]]
    frame.loc[3, "ward"] = None
    number_of_ward = {ward: number for number, ward in enumerate(columns[3]["categories"])}
    assert frame["stay_days"].isna().any()
    rows = frame.assign(ward=frame["ward"].map(number_of_ward)).astype(float).to_numpy()
    found = np.array([reader["predict"](arrays, row) for row in rows])
    expected = load_model(tmp_path / "model.spinney").predict_proba(frame)
    assert np.allclose(found, expected, rtol=0, atol=1e-12)
    assert (arrays["subset"] >= 0).any()


def test_every_key_of_a_job_file_is_described():
    text = (ROOT / "docs/files.md").read_text(encoding="utf-8")
    configs: tuple[Any, ...] = (
        JobConfig,
        *(spec.job_settings for spec in SPECS.values()),
        SchemaConfig,
        TableConfig,
        PartyConfig,
        SimulationConfig,
        Hardening,
    )
    for config in configs:
        for key in config.__struct_fields__:
            assert f"`{key}`" in text, key


def test_the_version_is_one():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == __version__
    assert f"({__version__})" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
