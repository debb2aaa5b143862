"""S4 (FedGA-Tree): what parties gain by evolved trees, over their own and over Truex's tree.

Of the paper's 28 tables 21 are in ../shared/data; others of that folder (*) stand in for the rest.
90 % of the rows are dealt at random to N parties, of which the share c takes part; 10 % judge
everybody. Delta = 100 (score of the evolved tree / score of the party's own tree - 1), F1 or MSE.
The sizes of parties are noised with epsilon 1. Truex's tree (the paper's IBM tree) has depth 6, all
parties are honest, and epsilon is 1, or what S4's own account of the noise comes to (`s4_runs`).
"""

from typing import Any

from papers.experiment import Cell, Experiment, Grid, Paper
from papers.s4_runs import SETS, TRUEX, evolved, truex

SETTINGS = ((20, 1.0), (20, 0.1), (20, 0.5), (20, 0.25), (10, 1.0), (30, 1.0), (5, 1.0), (15, 1.0))
_FAST = ("compas", "marketing", "abalone", "soil")


def _grids(
    tasks: list[str], settings: Any, splits: int, runs: int, generations: int, **more: Any
) -> tuple[Grid, ...]:
    """Return the grids of all settings, those first on which most depends."""
    return tuple(
        {
            "n_parties": [n_parties],
            "participation": [share],
            "task": [task],
            "split": range(splits),
            "run": range(runs),
            "data": [d for d in SETS[task] if generations == 100 or d in _FAST],
            "generations": [generations],
            **more,
        }
        for n_parties, share in settings
        for task in tasks
    )


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
            full=_grids(list(SETS), SETTINGS, 3, 3, 100),
            fast=_grids(list(SETS), SETTINGS[:2], 1, 1, 20),
            needs=_needs,
        ),
        Experiment(
            "truex",
            "Figures 3 to 7",
            truex,
            full=_grids(_CLASSES, SETTINGS, 3, 3, 100, **_LEARNERS),
            fast=_grids(_CLASSES, SETTINGS[:2], 1, 1, 20, **_LEARNERS),
            needs=_needs,
        ),
    ),
)
