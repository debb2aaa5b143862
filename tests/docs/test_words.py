"""One word for one thing: what people read uses the glossary's words.

Read are the pages of docs, the docstrings, and the messages in the code.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
MADE = {"results.md", "CHANGELOG.md"}  # one is generated, the other tells the past
MODULES = sorted((ROOT / "src/spinney").rglob("*.py"))
INSTEAD = {
    r"worker nodes?|federated clients?|silos": "party",
    r"aggregator|central server": "coordinator",
    r"take(n|s)? (the|a) model out|taken out as": "export",
    r"left the building": "left the parties",
    r"unpromised": "say which charges still count",
    r"agree[sd]? to join the (parts|forest)": "consent to joining",
    r"judg(e|es|ed) (on|by) (other|the same|its own|the) (rows|samples)": "score on",
}
DEFINED = r"elsewhere: site|Coordinator\*\* \(server|^description|cross-silo"  # beside our own word


def wrong_words(text):
    """Return the words of a text that the glossary has another word for, each with that word."""
    kept = "\n".join(line for line in text.splitlines() if not re.search(DEFINED, line))
    found = (
        (re.search(rf"\b({words})\b", kept, re.IGNORECASE), INSTEAD[words]) for words in INSTEAD
    )
    return [f"{match[0]!r}: {instead}" for match, instead in found if match]


def texts_in(module):
    """Return every docstring and message of a module: its texts of three words and more."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in MADE], ids=str)
def test_a_page_uses_the_words_of_the_glossary(page):
    assert wrong_words(page.read_text(encoding="utf-8")) == []


def test_docstrings_and_messages_use_the_words_of_the_glossary():
    found = {
        f"{module.relative_to(ROOT)}:{line}": wrong
        for module in MODULES
        for line, text in texts_in(module)
        if (wrong := wrong_words(text))
    }
    assert found == {}


def documented(tree):
    """Yield the public functions of a module, and whether each is a property."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            marks = {ast.unparse(mark).split(".")[-1] for mark in node.decorator_list}
            yield node, bool(marks & {"property", "cached_property", "kept_beside"})


def test_the_docstring_of_a_function_begins_with_what_it_does():
    """A verb in the imperative; a property says what it is."""
    nouns = ("A ", "An ", "The ", "This ", "It ", "Its ", "Returns ", "Gives ", "Function ")
    wrong = [
        f"{module.relative_to(ROOT)}:{node.lineno} {node.name}"
        for module in MODULES
        for node, is_property in documented(ast.parse(module.read_text(encoding="utf-8")))
        if not is_property and (ast.get_docstring(node) or "").startswith(nouns)
    ]
    assert wrong == []


def test_a_wrong_word_is_noticed():
    assert wrong_words("The central server adds up.") == ["'central server': coordinator"]
    assert wrong_words("The coordinator adds up.") == []
