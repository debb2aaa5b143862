"""How a command ends: an error prints one line and sets an exit code, without a traceback.

```text
0          done
2          the command line itself is wrong
10 to 19   settings       20 to 29   tables and files
30 to 39   privacy        40 to 49   transport
70         a bug in Spinney
130        interrupted
```
"""

import logging
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from types import FrameType
from typing import Annotated, Any, cast

import typer

from spinney.errors import InternalError, SpinneyError, SpinneyWarning, StorageError

INTERNAL = InternalError.exit_code
INTERRUPTED = 130
_BROKEN_PIPE = 141  # as a shell reports a program that SIGPIPE ended
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


@dataclass
class Ending:
    """The facts needed to report correctly how a command ended."""

    interrupted: bool = False
    written: bool = False  # the command's files are in place


def reporting(body: Callable[..., None]) -> Callable[..., None]:
    """Give a command the option --debug, and report its errors.

    A command that writes files takes its `Ending` as the parameter `ending`.
    """
    own = dict(signature(body).parameters)
    takes_ending = own.pop("ending", None) is not None

    @wraps(body)
    def run(context: typer.Context, *, debug: bool = False, **given: Any) -> None:
        with report_errors(debug=debug or context.obj) as ending:
            body(**given, **({"ending": ending} if takes_ending else {}))

    added = (
        Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context),
        Parameter("debug", Parameter.KEYWORD_ONLY, default=False, annotation=Debug),
    )
    seen = [*own.values(), *added]
    run.__signature__ = Signature(seen)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in seen}
    return run


@contextmanager
def report_errors(*, debug: bool) -> Iterator[Ending]:
    """Run a command; if it fails, print one line on stderr and exit with its code.

    Parameters
    ----------
    debug
        Also show the traceback.
    """
    ending = Ending()
    try:
        with _warnings_last(), _watching(ending):
            yield ending
    except (typer.Exit, typer.Abort):
        raise
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  report every failure
        if debug:
            traceback.print_exception(error)
        raise typer.Exit(_tell(error, ending)) from None


def say(text: str) -> None:
    """Write one line to stderr."""
    typer.echo(" ".join(text.split()), err=True)


def _tell(error: BaseException, ending: Ending) -> int:
    """Print how a command failed and return its exit code."""
    if ending.interrupted or isinstance(error, KeyboardInterrupt):
        say("Interrupted." if ending.written else "Interrupted; nothing was written.")
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):  # nobody reads our output any more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    if isinstance(error, SpinneyError) and not isinstance(error, InternalError):
        say(f"spinney: {error}")
        return error.exit_code
    if isinstance(error, OSError) and error.filename:  # from the system, not a bug of ours
        reason = error.strerror or type(error).__name__
        say(f"spinney: {reason}: {str(error.filename)!r}. Check the path, and that you may use it.")
        return StorageError.exit_code
    if isinstance(error, MemoryError):
        say("spinney: There is not enough memory. Use fewer trees, shallower trees or fewer rows.")
        return INTERNAL
    what = f"{type(error).__name__}: {error}".strip(". ")
    say(f"spinney: internal error ({what}); please report it. --debug shows the traceback.")
    return INTERNAL


@contextmanager
def _warnings_last() -> Iterator[None]:
    """Print Spinney's warnings after the work, one per line; an error is printed alone."""
    met: dict[str, None] = {}

    def keep(message: Warning | str, category: type[Warning], *_: object) -> None:
        if issubclass(category, SpinneyWarning):
            met[str(message)] = None

    outside = _Outside()
    with warnings.catch_warnings(), outside.listening():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", SpinneyWarning)
        warnings.showwarning = keep  # type: ignore[assignment]
        yield
    for text in (*met, *outside.told()):
        say(f"spinney: warning: {text}")


class _Outside(logging.Handler):
    """Collects what simulated parties log about values outside a declared range, by column."""

    def __init__(self) -> None:
        super().__init__()
        self._met: dict[str, tuple[str, int, object]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Add one party's count."""
        name = getattr(record, "outside", None)
        if name is None or not isinstance(record.args, tuple):
            return
        _, count, range_ = record.args
        so_far = self._met.get(name, (record.msg, 0, range_))[1]
        self._met[name] = (record.msg, so_far + cast("int", count), range_)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen to the parties' own log for a while."""
        log = logging.getLogger("spinney.party")
        log.addHandler(self)
        try:
            yield
        finally:
            log.removeHandler(self)

    def told(self) -> list[str]:
        """Return one sentence for each column, counted over all parties."""
        return [text % (name, count, ends) for name, (text, count, ends) in self._met.items()]


@contextmanager
def _watching(ending: Ending) -> Iterator[None]:
    """Remember an interrupt, because a library may turn it into its own error."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        ending.interrupted = True
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
