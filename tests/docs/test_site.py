"""The documentation site: it builds without a warning, its Python runs, its lists are complete."""

import inspect
import os
import re
import subprocess
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import pytest
from matplotlib import pyplot as plt

import spinney
from spinney import errors
from spinney.transport.channel import Ask

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
GUIDES = sorted(
    path.name
    for path in DOCS.glob("*.md")
    if path.name != "files.md" and BLOCK.search(path.read_text(encoding="utf-8"))
)  # the reader in files.md is tried on a model, in test_documents.py


def test_there_are_guides_to_run():
    assert {"start.md", "report.md", "export.md", "vertical.md", "extra-trees.md"} <= set(GUIDES)


@pytest.mark.parametrize("name", GUIDES)
@pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
@pytest.mark.usefixtures("tree_explainer")  # SHAP warns when it is first imported
def test_the_python_of_a_guide_runs(name, tmp_path, monkeypatch):
    plt.switch_backend("agg")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in BLOCK.findall((DOCS / name).read_text(encoding="utf-8")):
        exec(compile(block, name, "exec"), names)  # a later one goes on from the ones before
    plt.close("all")


def test_every_error_has_its_line_and_code():
    text = (DOCS / "errors.md").read_text(encoding="utf-8")
    for name, kind in inspect.getmembers(errors, inspect.isclass):
        if name in {"SpinneyError", "SpinneyWarning", "Fraction"} or not name[0].isupper():
            continue
        assert f"`{name}`" in text, name
        if issubclass(kind, errors.SpinneyError):
            assert f"| `{name}` | {kind.exit_code} |" in text


def test_every_public_name_is_in_the_api():
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    for name in spinney.__all__:
        assert name == "__version__" or f"`{name}`" in text, name


GENERATED = ("messages", "api", "protocols", "examples")


@pytest.mark.parametrize("page", GENERATED)
def test_a_page_that_is_generated_says_so_before_it_is_built(page):
    before, mark, _ = (DOCS / f"{page}.md").read_text(encoding="utf-8").partition(f"::: {page}")
    assert mark
    assert "`make docs` writes" in before
    assert f"*site/{page}/index.html*" in before


def test_the_messages_page_lists_every_question():
    for module in walk_packages(spinney.__path__, "spinney."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    page = "\n".join(hooks()._messages())
    asks = {ask for ask in questions(Ask) if ask.__module__.startswith("spinney.")}
    assert len(asks) > 50
    for ask in asks:
        assert f"| `{ask.__name__}` | {ask.reveals} | each party's reply" in page, ask
    words = "each party's reply; with `secure_sum` only the sum"
    for name in ("QualityAsk", "ExplainAsk", "LevelAsk"):
        assert re.search(rf"\| `{name}` \|[^\n]*{words} \|", page), name


def questions(kind):
    """Return the kinds of questions below a kind."""
    for below in kind.__subclasses__():
        yield below
        yield from questions(below)


def hooks():
    found = spec_from_file_location("docs_hooks", DOCS / "hooks.py")
    assert found is not None
    assert found.loader is not None
    module = module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_the_site_builds_with_every_link_whole(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    quick = {**os.environ, "SPINNEY_DOCS_QUICK": "1"}  # the examples run in a test of their own
    done = subprocess.run(command, cwd=ROOT, env=quick, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    listed = re.findall(r": ([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(path.name for path in DOCS.glob("*.md"))
    for page in listed:
        place = "index.html" if page == "index.md" else f"{page.removesuffix('.md')}/index.html"
        assert (tmp_path / place).is_file()
        assert ":::" not in (tmp_path / place).read_text(encoding="utf-8")
    told = (tmp_path / "messages/index.html").read_text(encoding="utf-8")
    assert "<code>LevelAsk</code>" in told
    told = (tmp_path / "protocols/index.html").read_text(encoding="utf-8")
    assert told.count("Who never learns what") >= 5
    told = (tmp_path / "api/index.html").read_text(encoding="utf-8")
    assert all(f'id="{name.lower()}"' in told for name in spinney.__all__ if name[0] != "_")
