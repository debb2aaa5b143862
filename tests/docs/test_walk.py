"""The walk along one histogram: at most twenty stops, in order, each of them passed by a run."""

import re
import sys
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spinney.cli.main import app

ROOT = Path(__file__).parents[2]
WALK = ROOT / "docs" / "walk.md"
ELSEWHERE = {  # stops that the page says are not passed by parties in one process
    "spinney.transport.codec.encode",
}
STOPS = re.findall(
    r"^(\d+)\. `(spinney[\w.]+)`: \S", WALK.read_text(encoding="utf-8"), re.MULTILINE
)


def found(dotted):
    """Return what a full name means: the longest module in it, then attributes."""
    parts = dotted.split(".")
    for n in range(len(parts), 0, -1):
        try:
            module = import_module(".".join(parts[:n]))
        except ModuleNotFoundError as error:
            if not ".".join(parts).startswith(str(error.name)):
                raise  # the module is there, and something that it imports is not
            continue
        return reduce(getattr, parts[n:], module)
    raise ModuleNotFoundError(dotted)


def test_the_walk_has_at_most_twenty_stops_in_order():
    numbered = re.findall(r"^\d+\. ", WALK.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(numbered) == len(STOPS)  # every stop has the form that this test reads
    assert [int(number) for number, _ in STOPS] == list(range(1, len(STOPS) + 1))
    assert 10 <= len(STOPS) <= 20


@pytest.mark.parametrize("name", [name for _, name in STOPS])
def test_a_stop_is_a_function_of_the_code(name):
    assert callable(found(name))


def test_the_run_that_the_page_follows_passes_every_stop(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "spinney.simulation.progress._COMPILING_AFTER", 3600
    )  # a slow start is fine
    passed = set()
    job = ROOT / "docs/examples/three_clinics.toml"
    before = sys.getprofile()
    sys.setprofile(lambda frame, *_: passed.add(frame.f_code))
    try:
        told = CliRunner().invoke(app, ["simulate", str(job), "--out", str(tmp_path / "run")])
    finally:
        sys.setprofile(before)
    assert told.exit_code == 0, told.stderr
    missed = {name for _, name in STOPS if found(name).__code__ not in passed}
    assert missed == ELSEWHERE


def test_a_name_that_is_not_there_is_noticed():
    with pytest.raises(AttributeError):
        found("spinney.jobs.file.load_jobs")
    with pytest.raises(AttributeError):
        found("spinney.service.file.load_job")
