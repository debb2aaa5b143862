"""What a release is made of: workflows that the public CI reads, and the script that makes it."""

import subprocess
import sys
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_workflows_fit_the_public_schema():
    assert [path.name for path in WORKFLOWS] == ["release.yml", "tests.yml"]
    told = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows",
         *map(str, WORKFLOWS)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stdout + told.stderr


def test_a_release_is_published_without_a_secret_and_with_attestations():
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))
    assert "secrets." not in str(workflow)
    assert workflow["permissions"] == {"contents": "read"}
    publish = workflow["jobs"]["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["steps"][-1]["with"]["attestations"] is True


def test_the_public_ci_tries_every_python_that_is_promised():
    workflow = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8"))
    tried = workflow["jobs"]["test"]["strategy"]["matrix"]["python"]
    said = [
        one.split()[-1] for one in PROJECT["project"]["classifiers"] if ":: Python :: 3." in one
    ]
    assert tried == said == ["3.11", "3.12", "3.13", "3.14"]
    assert PROJECT["project"]["requires-python"] == ">=3.11"


def test_every_fragment_has_a_category_of_the_changelog():
    known = {kind["directory"] for kind in PROJECT["tool"]["towncrier"]["type"]}
    for path in (ROOT / "changes").glob("*.md"):
        assert path.name == "README.md" or path.name.split(".")[1] in known, path.name


@pytest.fixture
def release():
    spec = spec_from_file_location("release", ROOT / "tools" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_release_of_changed_files_is_refused(release, monkeypatch):
    monkeypatch.setattr(release, "_run", lambda *_: " M README.md\n")
    with pytest.raises(SystemExit, match="A release is made of a commit: commit them, or clone"):
        release._require_clean()


def test_the_changelog_has_the_fragments_in_place_of_unreleased(release, monkeypatch, tmp_path):
    (tmp_path / "CHANGELOG.md").write_text("# C\n\n## Unreleased (9.0)\n\nSee.\n\n## 8.0\n\nOld.\n")
    monkeypatch.setattr(release, "ROOT", tmp_path)
    monkeypatch.setattr(release, "_run", lambda *_: "## 9.0\n\n- New.\n")
    assert release._changelog("9.0") == "# C\n\n## 9.0\n\n- New.\n\n## 8.0\n\nOld.\n"
