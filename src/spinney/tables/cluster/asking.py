"""Ask all parts of a table at the workers that hold them; a lost part is read again elsewhere."""

from collections.abc import Callable, Sequence
from time import monotonic, sleep
from typing import Any, Final

from spinney.errors import ProtocolError
from spinney.tables.cluster.held import HeldPart, Refused, Settled, Unsettled, run_task
from spinney.tables.cluster.parts import Part
from spinney.tables.cluster.workers import PATIENCE, Look, Missing, Workers
from spinney.tables.schema import Schema

_LOOK: Final = 0.5  # seconds between two looks at which workers are there
_GRACE: Final = 5.0  # seconds for a worker that starts again, before another holds two parts
_MOST_MOVES: Final = 5  # of one part, for one question


class HeldParts:
    """The parts of a table, and the worker that holds each.

    A worker keeps only what it can make again. So a part whose worker is lost begins anew at
    another worker, from its description, and the question is asked there again.
    """

    def __init__(
        self, workers: Workers, parts: Sequence[Part], schema: Schema, row_id: str | None
    ) -> None:
        self.parts = tuple(parts)
        self.settled: Sequence[Settled | None] = [None] * len(parts)
        self._workers = workers
        self._facts = (schema, row_id)
        self._home: dict[int, str] = {}
        self._held: dict[int, Any] = {}  # futures: a worker forgets a part when its future is gone
        for number in range(len(parts)):
            self._place(number)

    def forget(self) -> None:
        """Let the workers forget the parts."""
        self._held.clear()

    def ask(self, function: Callable[..., Any], own: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call `function(held, *arguments)` at every part, each with its own arguments."""

        def submit(number: int) -> Any:
            held, home = self._held[number], self._home[number]
            return self._workers.submit(home, run_task, held, function, own[number])

        asked = {number: submit(number) for number in range(len(self.parts))}
        answers: dict[int, Any] = {}
        moves, calm = dict.fromkeys(asked, 0), monotonic()
        while asked:
            self._workers.wait(list(asked.values()), _LOOK)
            look = self._workers.look()
            for number, future in list(asked.items()):
                answer = self._workers.outcome(future)
                if answer is Missing.PENDING and self._home[number] in look.threads:
                    continue
                if isinstance(answer, Missing | Unsettled):
                    moves[number] += 1
                    self._require_few(moves[number])
                    self._place(number)
                    asked[number] = submit(number)
                elif isinstance(answer, Refused):
                    raise answer.error()
                else:
                    answers[number] = answer
                    del asked[number]
            calm = self._since_when_calm(asked, look, calm)
        return [answers[number] for number in range(len(self.parts))]

    def _place(self, number: int) -> None:
        """Give a part to the worker with the fewest; wait a little for one that has none."""
        others = [home for other, home in self._home.items() if other != number]
        begun = monotonic()
        while True:
            look, waited = self._workers.look(), monotonic() - begun
            home = min(look.threads, key=others.count, default=None)
            if home is not None and (not others.count(home) or waited >= _GRACE):
                break
            if home is None:
                self._workers.wait_for_one()
            else:
                sleep(_LOOK)
        facts = (self.parts[number], *self._facts, self.settled[number], look.threads[home])
        self._home[number] = home
        self._held[number] = self._workers.submit(home, HeldPart, *facts)

    @staticmethod
    def _require_few(moves: int) -> None:
        if moves > _MOST_MOVES:
            raise ProtocolError(
                "This party's cluster loses one worker after another while it counts.",
                local="Look into the workers' logs; most often their memory is too small.",
            )

    def _since_when_calm(self, asked: dict[int, Any], look: Look, calm: float) -> float:
        """Return when all workers that are asked were last at work; raise if it is long ago."""
        now = monotonic()
        if not any(self._home[number] in look.paused for number in asked):
            return now
        if now - calm > PATIENCE:
            raise ProtocolError(
                "A worker of this party's cluster has paused, because its memory is nearly full.",
                local="Give the workers more memory, or add workers.",
            )
        return calm
