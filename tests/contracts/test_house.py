"""The house: files are short, imports have no cycle, and nobody guesses about protocols."""

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "spinney"
FILES = sorted(SOURCE.rglob("*.py"))
OUTER = ("jobs", "simulation", "deployment", "cli", "report")
MOST_LINES = 600


def name_of(path):
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path, known):
    """Return the modules of ours that a file imports, late ones in functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                found.add(full if full in known else node.module)
    return {module for module in found if module in known} - {name_of(path)}


def test_no_module_imports_itself_through_others():
    known = {name_of(path) for path in FILES}
    graph = {name_of(path): imports_of(path, known) for path in FILES}
    done: set[str] = set()
    path: list[str] = []

    def walk(module):
        assert module not in path, " -> ".join([*path[path.index(module) :], module])
        if module in done:
            return
        path.append(module)
        for other in sorted(graph[module]):
            walk(other)
        path.pop()
        done.add(module)

    for module in sorted(graph):
        walk(module)
    assert len(done) > 200


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_file_holds_one_idea(path):
    assert len(path.read_text().splitlines()) <= MOST_LINES


PROBES = re.compile(
    r"(?:getattr|hasattr)\((?:settings|self\._settings|ask|spec|protocol|training|side|party)\b"
    r"|__class__\.__name__|type\([a-z_]+\)\.__name__ [!=]="
)


@pytest.mark.parametrize(
    "path", [path for path in FILES if path.relative_to(SOURCE).parts[0] in OUTER], ids=name_of
)
def test_the_outer_layers_guess_nothing_about_a_protocol(path):
    """They read its contract; how a run's own numbers are called is no guess."""
    allowed = {"simulation/comparison.py": {"getattr(party"}, "cli/text.py": {"getattr(party"}}
    own = allowed.get(str(path.relative_to(SOURCE)), set())
    found = {probe for probe in PROBES.findall(path.read_text()) if probe not in own}
    assert not found


def test_the_families_have_the_same_files():
    families = [path.parent for path in SOURCE.glob("protocols/*/spec.py")]
    assert len(families) == 9
    for family in families:
        files = {path.stem for path in family.glob("*.py")}
        assert {"__init__", "settings", "messages", "party", "coordinator", "spec"} <= files


def without_literals(path):
    """Return a file without the names by which ledgers know plans: nobody imports by those."""
    lines = path.read_text().splitlines()
    return "\n".join(line for line in lines if "called: ClassVar[str]" not in line)


def test_no_class_is_imported_by_name():
    """Every import can be seen by tools, and no message or file can name code."""
    named = [
        name_of(path)
        for path in FILES
        if re.search(r"[\"']spinney\.[a-z_]+\.[a-z_.]+\.[A-Z]\w+[\"']", without_literals(path))
    ]
    assert not named


def test_no_module_of_ours_is_imported_by_name():
    """Only packages that are extras are: with them, and without them, tools see the same."""
    named = [
        name for path in FILES for name in re.findall(r"import_module\(([^)]*)\)", path.read_text())
    ]
    assert named
    assert all(re.fullmatch(r'"(?!spinney)[a-z0-9_.]+"', name) for name in named)
