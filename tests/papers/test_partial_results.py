"""An interrupted run can be shown: tables and pictures that have no cells yet are left out."""

import math
from importlib import import_module

import numpy as np
import pytest

experiment = import_module("papers.experiment")
page = import_module("papers.page")
showing = import_module("papers.showing")
PAPERS = ("s2", "s5")
FOUND: dict[str, dict[str, tuple[str, ...]]] = {  # the numbers of a cell, by paper and experiment
    "s2": {
        "two_parties": ("RF1", "RF2", "pooled", "federated", "identical", "labels recovered"),
        "prediction": (
            "score", "rounds", "classical rounds", "train s", "one round s", "classical s",
        ),
    },
    "s5": {
        "overall": ("accuracy", "f1", "f1 weighted"),
        "impact": ("accuracy", "f1", "f1 weighted"),
    },
}  # fmt: skip


def made_up(name, *, fast):
    """Every cell of a paper's setting, as if it had been measured."""
    random = np.random.RandomState(0)
    return [
        (one.name, cell, {what: random.uniform() for what in FOUND[name][one.name]})
        for one, cell in experiment.paper(name).wanted(fast=fast)
    ]


def starts(cells):
    """How many cells are there: very few, or some more, also around where the experiment ends."""
    n, first = len(cells), [cell[0] for cell in cells].count(cells[0][0])
    return sorted({0, 1, 2, 3, 4, 5, first - 1, first, first + 1, *range(9, n, 1 + n // 10), n})


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("name", PAPERS)
def test_every_start_of_a_run_can_be_shown(name, fast):
    cells = made_up(name, fast=fast)
    whole = experiment.shown(name, cells)
    for n in starts(cells):
        part = experiment.shown(name, cells[:n])
        showing.printed(part)
        assert all(table.rows for table in part.tables), n
        assert set(part.facts) <= set(whole.facts), n
        assert all(not isinstance(x, float) or math.isfinite(x) for x in part.facts.values()), n


@pytest.mark.parametrize("name", PAPERS)
def test_the_later_experiment_can_be_shown_without_the_first(name):
    cells = made_up(name, fast=True)
    last = [cell for cell in cells if cell[0] == cells[-1][0]]
    for n in range(1, len(last) + 1):
        assert experiment.shown(name, last[:n]).tables


@pytest.mark.parametrize("name", PAPERS)
def test_pictures_of_a_start_are_drawn_from_what_is_there(name, tmp_path):
    cells = made_up(name, fast=True)
    first = next(i for i, cell in enumerate(cells) if cell[0] == cells[-1][0])
    assert not experiment.shown(name, cells[:first]).pictures
    for n in (first + 1, len(cells)):
        for picture, draw in experiment.shown(name, cells[:n]).pictures.items():
            draw(tmp_path / f"{picture}.png")
            assert (tmp_path / f"{picture}.png").stat().st_size


@pytest.mark.parametrize("name", PAPERS)
def test_the_whole_has_all_that_the_page_asks_for(name, tmp_path, monkeypatch):
    made = experiment.shown(name, made_up(name, fast=False))
    found = {
        "name": name,
        "cells": {"stored": 1, "wanted": 1},
        "runs": [],
        "facts": made.facts,
        "tables": made.tables,
        "pictures": [f"{name}_{picture}.png" for picture in made.pictures],
    }
    showing.keep(found, experiment.Shown([], {}), tmp_path)
    monkeypatch.setattr(page, "PUBLISHED", tmp_path)
    assert f"results/{name}.json" in page._section(name)
