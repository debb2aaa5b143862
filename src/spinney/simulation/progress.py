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

Step = Callable[[str, int, int], None]  # phase, steps done, total steps or 0 if unknown
COMPILING = "compiling kernels, once: later runs skip it"
_COMPILING_AFTER = 2.0  # seconds; kernels that are compiled already load faster
_EVOLVING = "evolving"  # its phases also give the best score
_SHARE_OF_PHASE = {"binning": (0.0, 0.15), "growing": (0.15, 0.75), "judging": (0.9, 0.1)}
_UNKNOWN_DEPTH = 8  # half of the bar, where the depth has no limit


class Stages:
    """Stages without a bar; only a step that takes surprisingly long prints a line."""

    def expect(self, n_stages: int) -> None:
        """Set the number of stages."""

    def begin(self, title: str, n_trees: int = 0) -> Step:
        """Begin the next stage, which may grow trees; return a function that receives its steps."""
        del title, n_trees
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

    def begin(self, title: str, n_trees: int = 0) -> Step:
        """Begin the next stage, which may grow trees; return a function that receives its steps."""
        done = self._begun
        self._begun += 1
        self._heard = ""
        self._say(title, done)
        trees = f"{n_trees} trees, " if n_trees else ""

        def step(phase: str, n_done: int, total: int) -> None:
            level = f"level {n_done + 1}" + (f" of {total}" if total else "")
            text = f"{title}: {trees}{level}" if phase == "growing" else f"{title}: {phase}"
            if phase.startswith(_EVOLVING):
                text = f"{title}: generation {n_done} of {total}{phase.removeprefix(_EVOLVING)}"
            self._say(text, done + _share(phase, n_done, total))

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


def _share(phase: str, n_done: int, total: int) -> float:
    """Return the share of a stage that is done."""
    if phase.startswith(_EVOLVING):
        return n_done / max(total, 1)
    start, length = _SHARE_OF_PHASE.get(phase, (0.0, 0.0))
    if phase != "growing":
        return start
    known = n_done / total if total else n_done / (n_done + _UNKNOWN_DEPTH)
    return start + length * min(known, 1.0)


def _ignored(phase: str, n_done: int, total: int) -> None:
    """Ignore a step."""
