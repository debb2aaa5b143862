"""The harness of the papers' experiments: stores resume, runs repeat, what is missing is named."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

experiment = import_module("papers.experiment")
running = import_module("papers.running")
main = import_module("papers.__main__").main
Store = import_module("papers.store").Store
S3 = import_module("papers.s3").PAPER
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
FACTS: dict[str, list[Any]] = {"part": ["propose"], "n": [100], "p": [10], "rho": [0.3]}


def tiny(*repetitions):
    """S3 with a grid of few small cells."""
    grid = replace(S3.experiment("grid"), fast=({"repetition": repetitions, **FACTS},))
    return replace(S3, experiments=(grid,))


def cells_of(path):
    lines = path.read_text().split("\n")[:-1]  # the last may be cut short
    return [line for line in map(json.loads, lines) if "cell" in line]


def ran(folder, *repetitions):
    """Run some repetitions; return the store, read again, and what was told."""
    told = running.run(Store(folder, tiny(*repetitions)), fast=True, workers=1, minutes=0)
    return Store(folder, tiny(*repetitions)), told


# ------------------------------------------------------------------------------- the store


@pytest.fixture
def written(tmp_path):
    """A store with two cells of a run at another commit, written by hand."""
    run = {"id": "then", "commit": "abc", "noise": "none"}
    cells = [
        {
            "experiment": "grid",
            "cell": {name: values[0] for name, values in FACTS.items()} | {"repetition": seed},
            "seed": None,
            "found": {"propose 5 1.0": 0.5 + seed / 10},
            "seconds": 1.0,
            "run": "then",
        }
        for seed in (0, 1)
    ]
    path = tmp_path / "old" / "s3.jsonl"
    path.parent.mkdir()
    path.write_text("".join(json.dumps(line) + "\n" for line in (run, *cells)))
    return path


def test_a_cell_cut_short_is_measured_again_and_nothing_else_is_lost(written):
    whole = written.read_text()
    written.write_text(whole[:-20])
    store = Store(written.parent, tiny(0, 1))
    assert len(store.found(store.paper.wanted(fast=True))) == 1

    store.open()
    store.close()
    assert len(cells_of(written)) == 1
    assert written.read_text() in whole


def test_a_line_that_is_no_cell_is_refused_with_its_number(written):
    with written.open("a") as file:
        file.write('{"cell": {}, "experiment": "another"}\n')
    with pytest.raises(SystemExit, match=r"s3\.jsonl, line 4, is not a run or a cell of s3"):
        Store(written.parent, S3)


def test_two_runs_cannot_write_to_one_store(written):
    first, second = Store(written.parent, S3), Store(written.parent, S3)
    first.open()
    with pytest.raises(SystemExit, match=r"Another run writes to .* or give this one another"):
        second.open()
    first.close()


def test_rows_measured_before_keep_their_commit(written, tmp_path):
    store = Store(tmp_path / "new", tiny(0, 1))
    assert store.take(written) == 2
    assert store.take(written) == 0
    store.open()
    store.close()

    again = Store(tmp_path / "new", tiny(0, 1))
    assert again.origins(again.paper.wanted(fast=True)) == [
        {"id": "then", "commit": "abc", "noise": "none", "cells": 2}
    ]


def test_cells_are_exported_with_their_origin(written, tmp_path):
    Store(written.parent, S3).export(tmp_path / "s3.parquet")
    found = import_module("pyarrow.parquet").read_table(tmp_path / "s3.parquet").to_pylist()
    assert [(row["repetition"], row["value"], row["commit"]) for row in found] == [
        (0, 0.5, "abc"),
        (1, 0.6, "abc"),
    ]
    assert {row["metric"] for row in found} == {"propose 5 1.0"}


def test_a_commit_is_dirty_by_code_and_not_by_results(tmp_path, monkeypatch):
    store = import_module("papers.store")
    monkeypatch.setattr(store, "_HOME", tmp_path)
    (tmp_path / "docs" / "results").mkdir(parents=True)
    for name in ("code.py", "docs/results/s1.json", "docs/results.md"):
        (tmp_path / name).write_text("before")
    as_somebody = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    for command in (["init", "-q"], ["add", "."], [*as_somebody, "commit", "-qm", "first"]):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    (tmp_path / "docs" / "results" / "s1.json").write_text("after")
    (tmp_path / "docs" / "results.md").write_text("after")
    clean = store.commit()
    assert len(clean) == 9
    (tmp_path / "code.py").write_text("after")
    assert store.commit() == f"{clean}-dirty"


# ------------------------------------------------------------------------------- running


@pytest.mark.slow(reason="it tests the benchmarks' own harness, with processes of its own: seconds")
def test_an_interrupted_run_goes_on_where_it_was(tmp_path):
    command = [sys.executable, "-m", "papers", "s3", "--fast", "--workers", "1"]
    path = tmp_path / "s3.jsonl"
    with subprocess.Popen(
        [*command, "--into", str(tmp_path)], cwd=BENCHMARKS, start_new_session=True
    ) as process:
        while not (path.exists() and cells_of(path)) and process.poll() is None:
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGKILL)
    (kept, *_) = cells_of(path)

    once_more = {name: [value] for name, value in kept["cell"].items()}
    grid = replace(S3.experiment("grid"), fast=(once_more, {"repetition": [7], **FACTS}))
    store = Store(tmp_path, replace(S3, experiments=(grid,)))
    assert running.run(store, fast=True, workers=1, minutes=0) == []
    origins = store.origins(store.paper.wanted(fast=True))
    assert [origin["cells"] for origin in origins] == [1, 1]
    assert origins[0]["id"] == kept["run"]


@pytest.mark.slow(reason="it tests the benchmarks' own harness, with processes of its own: seconds")
def test_a_cell_that_fails_is_told_and_the_others_go_on(tmp_path):
    store, told = ran(tmp_path, "no number", 0)
    assert [line.split(" failed: ")[0] for line in told] == [
        "grid {'repetition': 'no number', 'part': 'propose', 'n': 100, 'p': 10, 'rho': 0.3}"
    ]
    assert len(store.found(store.paper.wanted(fast=True))) == 1


def measured_or_killed(_, name, cell):
    """Stand in for `measured`: the process of repetition 1 dies, as for want of memory."""
    if cell["repetition"] == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return {name: 0.5}, 0.1


@pytest.mark.slow(reason="it tests the benchmarks' own harness, with processes of its own: seconds")
def test_a_process_that_is_killed_takes_no_other_cell_with_it(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "measured", measured_or_killed)
    store = Store(tmp_path, tiny(0, 1, 2, 3))
    (told,) = running.run(store, fast=True, workers=2, minutes=0)
    assert told.startswith("grid {'repetition': 1,")
    assert told.endswith(" failed: its process was killed")
    found = Store(tmp_path, store.paper).found(store.paper.wanted(fast=True))
    assert [cell["repetition"] for _, cell, _ in found] == [0, 2, 3]


def measured_twice(paper, name, **facts):
    first, second = (running.measured(paper, name, facts)[0] for _ in range(2))
    assert {k: v for k, v in first.items() if not k.endswith(" s")} == {
        k: v for k, v in second.items() if not k.endswith(" s")
    }
    return first


@pytest.mark.slow  # two whole experiments: eight seconds
@pytest.mark.parametrize("part", ["sums", "published"])
def test_s3_gives_the_same_twice(part):
    assert measured_twice("s3", "grid", repetition=0, part=part, n=100, p=10, rho=0.9)


@pytest.mark.usefixtures("telco_package")
@pytest.mark.parametrize("mechanism", ["noisy_histograms", "perturbed_input"])
def test_s1_gives_the_same_twice(mechanism):
    facts = {"mechanism": mechanism, "given": "epsilon", "epsilon": 1.0, "repetition": 0}
    assert measured_twice("s1", "private", **facts)["total"] == pytest.approx(1.0)


@pytest.mark.slow
@pytest.mark.usefixtures("shared_data")
@pytest.mark.parametrize("name", ["s2", "s4", "s5"])
def test_others_give_the_same_twice(name):
    for one in experiment.paper(name).experiments:
        assert measured_twice(name, one.name, **next(one.cells(fast=True)))


@pytest.mark.slow
@pytest.mark.usefixtures("telco_package", "shared_data")
@pytest.mark.parametrize("name", experiment.NAMES)
def test_fast_settings_give_the_same_tables_twice(name, tmp_path):
    tables = []
    for folder in (tmp_path / "once", tmp_path / "again"):
        assert main([name, "--fast", "--into", str(folder)]) == 0
        found = json.loads((folder / f"{name}_fast.json").read_text())
        tables.append([table for table in found["tables"] if not table["timed"]])
    assert tables[0] == tables[1]


# ------------------------------------------------------------------------------- bad input


def test_without_the_data_folder_it_says_what_is_missing_and_what_still_runs(
    tmp_path, monkeypatch, capsys
):
    nowhere = tmp_path / "nowhere"
    monkeypatch.setattr(import_module("data"), "SHARED", nowhere)
    monkeypatch.setattr(running, "SHARED", nowhere)
    assert main(["s5", "--fast", "--into", str(tmp_path)]) == 2
    told = capsys.readouterr().out
    assert f"The folder {nowhere} is absent. Missing: audit_2018_trial (no " in told
    assert "What still runs: nothing." in told

    s1 = experiment.paper("s1")
    here, (told,) = running.possible(s1, s1.wanted(fast=False))
    assert "Missing: bank_additional_full" in told
    assert told.endswith("What still runs: Figures 1 to 4, Figures 6 and 7, Figure 8.")
    assert {cell.get("data", "telco") for _, cell in here} == {"telco"}


def test_showing_what_was_never_run_is_refused(tmp_path):
    with pytest.raises(SystemExit, match=r"s4: nothing is stored in .* run it first"):
        main(["s4", "--show", "--into", str(tmp_path)])


def test_taking_over_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="does not exist, so nothing can be taken over"):
        main(["s3", "--show", "--into", str(tmp_path), "--take", str(tmp_path / "no.jsonl")])


# ------------------------------------------------------------------------------- what is declared


@pytest.mark.parametrize("name", experiment.NAMES)
def test_every_cell_has_a_name_of_its_own(name):
    declared = experiment.paper(name)
    for fast in (True, False):
        keys = [one.key(cell) for one, cell in declared.wanted(fast=fast)]
        assert len(set(keys)) == len(keys)
        assert keys
