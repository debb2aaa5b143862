"""Start kits and engine jobs of Spinney 0.1.0: a kit works, a job is refused with what to do.

What stands in `data/kit_version_1` was written by the old code, `@KIT@` where the kit is. A kit's
settings are written anew whenever it is run, so that the names in it are always the present ones.
An engine job is signed by who submitted it, and nobody else can change it.
"""

import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from spinney.deployment import process
from spinney.errors import PolicyError
from spinney.transport.flare import entry_points
from spinney.transport.flare.jobs import app_files, job_of_app

DATA = Path(__file__).parent / "data" / "kit_version_1"
NAMED = {
    name: value
    for name, value in vars(entry_points).items()
    if name.isupper() and name != "EARLIER"
}


def names_in(value: Any) -> Iterator[str]:
    """Give every class of ours that a file names."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from names_in(one)
    elif isinstance(value, str) and re.fullmatch(r"spinney\.[a-z_.]+\.[A-Z]\w+", value):
        yield value


@pytest.mark.parametrize("name", NAMED)
def test_every_entry_point_is_a_class(name):
    module, kind = NAMED[name].rsplit(".", 1)
    assert isinstance(getattr(import_module(module), kind), type)


def test_an_engine_job_of_version_1_is_refused_with_what_to_do(tmp_path):
    folder = copytree(DATA / "engine_job", tmp_path / "app")
    words = "written by an earlier version of Spinney. Have its lead resume the run"
    with pytest.raises(PolicyError, match=words):
        job_of_app(folder, frozenset())


def test_an_engine_job_of_today_is_let_in(tmp_path):
    for path, text in app_files(b"job").items():
        file = tmp_path / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert job_of_app(tmp_path, frozenset()) == b"job"


@pytest.mark.parametrize(("kind", "run"), [("party", "run_party"), ("server", "run_coordinator")])
def test_a_kit_of_version_1_is_settled_anew_when_it_is_run(kind, run, tmp_path, monkeypatch):
    kit = copytree(DATA / kind, tmp_path / "kit")
    old = {name for file in kit.rglob("*.json") for name in names_in(json.loads(file.read_text()))}
    assert all(name.startswith(entry_points.EARLIER) for name in old)
    assert old
    (tmp_path / "party.toml").write_text(
        '[party]\nname = "north"\n[table]\nsource = "csv"\npath = "visits.csv"\n'
    )
    (tmp_path / "coordinator.toml").write_text(
        '[coordinator]\nname = "clinics"\nhost = "localhost"\nport = 18002\n'
    )
    monkeypatch.setattr(process, "_require_kit", lambda *_: "north")
    monkeypatch.setattr(process, "_run", lambda *_: (0, b""))
    file = "party.toml" if kind == "party" else "coordinator.toml"
    assert getattr(process, run)(tmp_path / file, lambda _: None) == 0
    files = sorted(kit.rglob("*.json"))
    new = {name for path in files for name in names_in(json.loads(path.read_text()))}
    assert new <= set(NAMED.values())
    assert len(new) == len(old)
