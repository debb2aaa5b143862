"""S4 (FedGA-Tree): what parties gain by evolved trees, over their own and over Truex's tree.

Of the paper's 28 tables 21 are in ../shared/data; others of that folder (*) stand in for the rest.
90 % of the rows are dealt at random to N parties, of which the share c takes part; 10 % judge
everybody. Delta = 100 (score of the evolved tree / score of the party's own tree - 1), F1 or MSE.
The sizes of parties are noised with epsilon 1. Truex's tree (the paper's IBM tree) has depth 6, all
parties are honest (but for two: one), and epsilon is 1, or what S4's own account of the noise comes
to (`s4_runs`). Its parties are drawn once, those of evolved trees anew in every generation.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any

from papers.experiment import Cell, Experiment, Grid, Paper
from papers.s4_runs import SETS, TRUEX, evolved, truex

MAIN = ((20, 1.0), (20, 0.1))  # three divisions of rows x three runs; of the others one run each
OTHERS = ((20, 0.5), (20, 0.25), (10, 1.0), (30, 1.0), (5, 1.0), (15, 1.0))
_FAST = ("compas", "marketing", "abalone", "soil")


def _grids(tasks: list[str], **more: Any) -> tuple[Grid, ...]:
    """Return the full setting, that first on which most depends."""
    main = (
        _grid(task, setting, range(3), range(3), 100, **more)
        for setting, task in product(MAIN, tasks)
    )
    others = (
        _grid(task, setting, [split], [0], 100, **more)
        for split, setting, task in product(range(3), OTHERS, tasks)
    )
    return (*main, *others)


def _fast(tasks: list[str], **more: Any) -> tuple[Grid, ...]:
    return tuple(
        _grid(task, setting, [0], [0], 20, **more) for setting, task in product(MAIN, tasks)
    )


def _grid(
    task: str,
    setting: tuple[int, float],
    splits: Sequence[int],
    runs: Sequence[int],
    generations: int,
    **more: Any,
) -> Grid:
    return {
        "n_parties": [setting[0]],
        "participation": [setting[1]],
        "task": [task],
        "split": splits,
        "run": runs,
        "data": [d for d in SETS[task] if generations == 100 or d in _FAST],
        "generations": [generations],
        **more,
    }


def _needs(cell: Cell) -> str:
    return SETS[cell["task"]][cell["data"]]


_CLASSES, _LEARNERS = ["classification"], {"learner": TRUEX}
PAPER = Paper(
    name="s4",
    title="FedGA-Tree: Federated Decision Tree using Genetic Algorithm",
    experiments=(
        Experiment(
            "evolved",
            "Figures 3 to 10",
            evolved,
            full=_grids(list(SETS)),
            fast=_fast(list(SETS)),
            needs=_needs,
        ),
        Experiment(
            "truex",
            "Figures 3 to 7",
            truex,
            full=_grids(_CLASSES, **_LEARNERS),
            fast=_fast(_CLASSES, **_LEARNERS),
            needs=_needs,
        ),
    ),
)
