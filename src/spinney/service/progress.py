"""Progress on stderr: one bar over all forests of a command, silent where nobody watches.

A command has stages (read, prepare, grow this forest and that one); a stage has the phases and
levels that training tells of. Nothing heavy is imported here: the bar is up before numpy is.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from spinney.service.exits import say

Step = Callable[[str, int, int], None]  # phase, steps done, steps in all or 0 if unknown

COMPILING = "compiling kernels, once: later runs skip it"
_COMPILING_AFTER = 2.0  # seconds; kernels that are compiled already load faster
_EVOLVING = "evolving"  # its phases go on to tell the best score
_SHARE_OF_PHASE = {"binning": (0.0, 0.15), "growing": (0.15, 0.75), "judging": (0.9, 0.1)}
_UNKNOWN_DEPTH = 8  # half of the bar, where the depth has no limit


class Stages:
    """Stages that nobody watches; only what takes surprisingly long is said, in one line."""

    def expect(self, n_stages: int) -> None:
        """Say how many stages there will be."""

    def begin(self, title: str) -> Step:
        """Begin the next stage; return what is told of its steps."""
        del title
        return _ignored

    def remark(self, text: str) -> None:
        """Say something about the present stage."""
        say(f"spinney: {text}")

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Remark that kernels are being compiled, if they are."""
        timer = Timer(_COMPILING_AFTER, self.remark, [COMPILING])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


class _BarStages(Stages):
    """Stages on a bar: every stage is the same length of it."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("starting", total=None)
        self._begun = 0

    def expect(self, n_stages: int) -> None:
        """Say how many stages there will be."""
        self._begun = 0
        self._bar.update(self._task, total=n_stages, completed=0)

    def begin(self, title: str) -> Step:
        """Begin the next stage; return what is told of its steps."""
        done = self._begun
        self._begun += 1
        self._bar.update(self._task, description=title, completed=done)

        def step(phase: str, n_done: int, total: int) -> None:
            level = f": level {n_done + 1}" + (f" of {total}" if total else "")
            text = f"{title}{level}" if phase == "growing" else f"{title}: {phase}"
            if phase.startswith(_EVOLVING):
                text = f"{title}: generation {n_done} of {total}{phase.removeprefix(_EVOLVING)}"
            completed = done + _share(phase, n_done, total)
            self._bar.update(self._task, description=text, completed=completed)

        return step

    def remark(self, text: str) -> None:
        """Say something about the present stage."""
        self._bar.update(self._task, description=text)


@contextmanager
def shown() -> Iterator[Stages]:
    """Show a bar on stderr while the block runs, if stderr is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield Stages()
        return
    columns = (
        SpinnerColumn(),
        BarColumn(bar_width=24),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        yield _BarStages(bar)


def _share(phase: str, n_done: int, total: int) -> float:
    """Return how much of a stage is done."""
    if phase.startswith(_EVOLVING):
        return n_done / max(total, 1)
    start, length = _SHARE_OF_PHASE.get(phase, (0.0, 0.0))
    if phase != "growing":
        return start
    known = n_done / total if total else n_done / (n_done + _UNKNOWN_DEPTH)
    return start + length * min(known, 1.0)


def _ignored(phase: str, n_done: int, total: int) -> None:
    """Ignore a step."""
