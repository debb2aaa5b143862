"""The page of threats names the tests that show what it says; they exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(test_\w+\.py)(?:::(test_\w+))?`|`(test_\w+)`")


def test_every_test_that_the_page_names_exists():
    files = {path.name: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    page = (ROOT / "docs" / "threats.md").read_text()
    found, file = 0, ""
    for named, test, alone in NAMED.findall(page):
        file = named or file  # a test named alone is in the file named before it
        assert file in files, file
        if test or alone:
            assert re.search(rf"def {test or alone}\b", files[file]), (file, test or alone)
        found += 1
    assert found > 15
