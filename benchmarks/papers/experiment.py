"""What an experiment is: grids of cells, a function that measures one, and how they are shown."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

Cell = dict[str, Any]
Found = dict[str, Any]
Grid = Mapping[str, Sequence[Any]]
NAMES = ("s1", "s2", "s3", "s4", "s5")


def _set_of(cell: Cell) -> str | None:
    return cell.get("data")


@dataclass(frozen=True)
class Experiment:
    """Cells in grids, the first axis outermost, and what measures one of them.

    `needs` names the data set of a cell, as `data.absent` knows it. What is timed runs `alone`.
    """

    name: str
    shows: str  # the paper's tables and figures that it redraws
    measure: Callable[..., Found]
    full: tuple[Grid, ...]
    fast: tuple[Grid, ...]
    needs: Callable[[Cell], str | None] = _set_of
    alone: bool = False

    def cells(self, *, fast: bool) -> Iterator[Cell]:
        for grid in self.fast if fast else self.full:
            for values in product(*grid.values()):
                yield dict(zip(grid, values, strict=True))

    def key(self, cell: Cell) -> str:
        """Return the name of a cell in the store."""
        return json.dumps([self.name, sorted(cell.items())])

    def seed(self, cell: Cell) -> int:
        """Return what seeds the simulated noise of a cell; splits and draws have their own."""
        return int.from_bytes(sha256(self.key(cell).encode()).digest()[:6])


@dataclass(frozen=True)
class Table:
    """Rows to show. Those of a `timed` table depend on the clock; all others repeat exactly."""

    title: str
    rows: list[dict[str, Any]]
    note: str = ""
    timed: bool = False


@dataclass(frozen=True)
class Shown:
    """What a paper's cells come to: tables, single numbers for the page's text, pictures."""

    tables: list[Table]
    facts: dict[str, Any]
    pictures: dict[str, Callable[[Path], None]] = field(default_factory=dict)  # name -> draws it


@dataclass(frozen=True)
class Paper:
    """One paper: what it is called, and its experiments."""

    name: str
    title: str
    experiments: tuple[Experiment, ...]

    def wanted(self, *, fast: bool) -> list[tuple[Experiment, Cell]]:
        return [(one, cell) for one in self.experiments for cell in one.cells(fast=fast)]

    def experiment(self, name: str) -> Experiment:
        return next(one for one in self.experiments if one.name == name)


def paper(name: str) -> Paper:
    """Return a paper's declaration."""
    found: Paper = import_module(f"papers.{name}").PAPER
    return found


def shown(name: str, cells: list[tuple[str, Cell, Found]]) -> Shown:
    """Return what a paper's stored cells (experiment, facts, found) come to."""
    made: Shown = import_module(f"papers.{name}_shown").shown(cells)
    return made
