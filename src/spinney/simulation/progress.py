"""Progress on stderr: one bar for all forests of a command, silent outside a terminal.

A command has stages (read, prepare, grow this forest and that one); a stage has the phases and
levels that training reports. Nothing heavy is imported here: the bar appears before numpy loads.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column

from spinney.report.words import some

Step = Callable[[str, int, int], None]  # see `spinney.typing.Progress`
COMPILING = "compiling kernels, once: later runs skip it"
_COMPILING_AFTER = 2.0  # seconds; kernels that are compiled already load faster
_STEPS_FROM, _STEPS_TO = 0.15, 0.9  # the part of a stage in which steps are done
_UNKNOWN_DEPTH = 8  # half of the bar, where the depth has no limit


class Stages:
    """Stages without a bar; only a step that takes surprisingly long prints a line."""

    def expect(self, n_stages: int) -> None:
        """Set the number of stages."""

    def begin(self, title: str, n_trees: int = 0, unit: str = "level") -> Step:
        """Begin the next stage, which may grow trees; return a function that receives its steps.

        `unit` says what a step is; see `Spec.step`.
        """
        del title, n_trees, unit
        return _ignored

    def heard(self, n_answered: int, n_parties: int) -> None:
        """Show how many parties have answered the present question."""

    def remark(self, text: str) -> None:
        """Print a remark about the present stage."""
        print(f"spinney: {text}", file=sys.stderr)  # noqa: T201  a command's own words

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Print a remark if kernels are being compiled."""
        timer = Timer(_COMPILING_AFTER, self.remark, [COMPILING])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


class _BarStages(Stages):
    """Stages on a bar, on which every stage has the same length."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("starting", total=None)
        self._begun = 0
        self._said = self._heard = ""

    def expect(self, n_stages: int) -> None:
        """Set the number of stages."""
        self._begun = 0
        self._bar.update(self._task, total=n_stages, completed=0)

    def begin(self, title: str, n_trees: int = 0, unit: str = "level") -> Step:
        """Begin the next stage, which may grow trees; return a function that receives its steps."""
        done = self._begun
        self._begun += 1
        self._heard = ""
        self._say(title, done)
        trees = f"{some(n_trees, 'tree', 'trees')}, " if n_trees else ""
        share = 0.0

        def step(phase: str, n_done: int, total: int) -> None:
            from spinney.typing import step_under_way  # noqa: PLC0415  it loads numpy

            nonlocal share
            text = f"{title}: {phase}"
            if number := step_under_way(n_done, total):
                of = f" of {total}" if total > 0 else ""
                _, comma, more = phase.partition(",")
                text = f"{title}: {trees}{unit} {number}{of}{comma}{more}"
                share = _share(n_done, total)
            elif share:  # all steps are done
                share = _STEPS_TO
            self._say(text, done + share)

        return step

    def heard(self, n_answered: int, n_parties: int) -> None:
        """Show how many parties have answered the present question."""
        self._heard = f", {n_answered}/{n_parties} answered"
        self._bar.update(self._task, description=self._said + self._heard)

    def _say(self, text: str, completed: float) -> None:
        self._said = text
        self._bar.update(self._task, description=text + self._heard, completed=completed)

    def remark(self, text: str) -> None:
        """Print a remark about the present stage."""
        self._bar.update(self._task, description=text)


@contextmanager
def show_progress() -> Iterator[Stages]:
    """Show a bar on stderr while the block runs, if stderr is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield Stages()
        return
    with bar_on(console) as bar:
        yield _BarStages(bar)


def bar_on(console: Console) -> Progress:
    """Return a bar; on a short line, the text is shortened before the times are."""
    columns = (
        SpinnerColumn(table_column=Column(min_width=1)),
        BarColumn(bar_width=8, table_column=Column(min_width=8)),
        TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, ratio=1)),
        TimeElapsedColumn(table_column=Column(no_wrap=True, min_width=7)),
        TextColumn("left:", table_column=Column(no_wrap=True, min_width=5)),
        TimeRemainingColumn(compact=True, table_column=Column(no_wrap=True, min_width=5)),
    )
    return Progress(*columns, console=console, transient=True, expand=True)


def _share(n_done: int, total: int) -> float:
    """Return the share of a stage that is done, in a phase with steps."""
    known = n_done / total if total > 0 else n_done / (n_done + _UNKNOWN_DEPTH)
    return _STEPS_FROM + (_STEPS_TO - _STEPS_FROM) * min(known, 1.0)


def _ignored(phase: str, n_done: int, total: int) -> None:
    """Ignore a step."""
