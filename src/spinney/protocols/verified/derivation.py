"""Which question comes next: a party runs the job's own `train` on what it has been told."""

import logging
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final, Protocol

from spinney.errors import ProtocolError, SpinneyError
from spinney.protocols.training import Trained
from spinney.protocols.verified.messages import BLIND, StepAsk
from spinney.transport.channel import Ask, Channel, Reply, Round, Summand

Train = Callable[[Channel], Trained]
_LOG: Final = logging.getLogger("spinney.party")


class Derivation(Protocol):
    """Derives the questions of a job, one after another."""

    is_shared: bool  # whether a coordinator in the same process derives for all
    asks_all: bool  # whether the present question is put to all parties
    parties: frozenset[str] | None  # who may be in a step; None: it is not checked

    def question(self, step: StepAsk) -> Ask[Any]:
        """Return the question of a step; raise if another step, or none, comes next."""
        ...

    def present(self) -> tuple[str, Ask[Any]] | None:
        """Return the present step's verb and question; None if it is not known here."""
        ...

    def tell(self, result: Any, answered: Sequence[str]) -> None:
        """Go on with what the present step came to, and who is in it."""
        ...

    def to_a_sum(self, answer: Callable[[Ask[Any]], Any]) -> bool:
        """Go on to the next sum; return whether there is one.

        A blind coordinator knows no question, so it cannot ask those that parties answer singly.
        The party's own reply then stands for all: nothing that follows depends on who said what.
        """
        ...


class SharedQuestions:
    """The questions of a coordinator that is in one process with its parties."""

    def __init__(self) -> None:
        self.last: Ask[Any] | None = None


class SharedDerivation:
    """A party in one process with the coordinator: its question is what the party would derive.

    Deriving is a pure function of the settings and of the sums, and both hold the same.
    """

    is_shared = True
    asks_all = False  # nobody lies in one process
    parties: frozenset[str] | None = None

    def __init__(self, questions: SharedQuestions) -> None:
        self._questions = questions
        self._present: tuple[str, Ask[Any]] | None = None

    def question(self, step: StepAsk) -> Ask[Any]:
        """Return the coordinator's question."""
        about = self._questions.last
        assert about is not None
        self._present = ("sum" if step.verb == BLIND else step.verb, about)
        return about

    def present(self) -> tuple[str, Ask[Any]] | None:
        """Return the last question."""
        return self._present

    def tell(self, result: Any, answered: Sequence[str]) -> None:
        """Forget the question; the coordinator knows what follows."""
        del result, answered
        self._present = None

    def to_a_sum(self, answer: Callable[[Ask[Any]], Any]) -> bool:
        """Do nothing: the coordinator asks every question."""
        del answer
        return True


class OwnDerivation:
    """A training of the party's own, in a thread, that asks nobody and is told what came out.

    Parameters
    ----------
    train
        Runs the job's `train` on a channel.
    parties
        All parties of the job.
    is_masked
        Whether the job's sums are masked.
    """

    is_shared = False

    def __init__(self, train: Train, parties: tuple[str, ...], *, is_masked: bool) -> None:
        self.asks_all = True
        self.parties: frozenset[str] | None = frozenset(parties)
        self._channel = _Told(parties, is_masked=is_masked)
        self._train = train
        self._thread: Thread | None = None
        self._asked: tuple[str, Ask[Any]] | None = None
        self.training: Trained | None = None
        self.error: SpinneyError | None = None

    def question(self, step: StepAsk) -> Ask[Any]:
        """Return the question of a step; raise if another step, or none, comes next."""
        verb, ask = self._next()
        if verb != ("sum" if step.verb == BLIND else step.verb):
            raise not_the_next()
        return ask

    def present(self) -> tuple[str, Ask[Any]] | None:
        """Return the present step's verb and question; None if the job has ended."""
        if self._asked is None:
            self._wait()
        if self._asked is None and self.error is not None:
            raise self.error
        return self._asked

    def to_a_sum(self, answer: Callable[[Ask[Any]], Any]) -> bool:
        """Go on to the next sum; return whether there is one."""
        parties = self._channel.parties
        while (present := self.present()) is not None and present[0] == "ask":
            if present[1].is_relayed:
                raise ProtocolError("This job has steps that a blind coordinator cannot relay.")
            self.tell(dict.fromkeys(parties, answer(present[1])), parties)
        return present is not None

    def tell(self, result: Any, answered: Sequence[str]) -> None:
        """Go on with what the present step came to, and who is in it."""
        self._next()
        self._asked = None
        self._channel.results.put((result, tuple(answered)))

    def finished(self) -> Trained:
        """Return the finished training; raise if a step is missing."""
        if self._asked is None and self.training is None:
            self._wait()
        if self.training is None:
            raise self.error or ProtocolError(
                "The job is not finished: this party's own derivation has another step."
            )
        return self.training

    def close(self) -> None:
        """End the thread; it ends where it would ask its next question."""
        self._channel.results.put(None)
        if self._thread is not None:
            self._thread.join()

    def _next(self) -> tuple[str, Ask[Any]]:
        """Return the next question and its verb."""
        if self._asked is None:
            self._wait()
        if self._asked is None:
            raise self.error or ProtocolError(
                "The job has no further step. This party answers only the questions that follow "
                "from the job it accepted. Nothing was released."
            )
        return self._asked

    def _wait(self) -> None:
        """Wait until the training asks, ends or fails."""
        if self._thread is None:
            self._thread = Thread(target=self._run, name="spinney-derivation", daemon=True)
            self._thread.start()
        elif self.training is not None or self.error is not None:
            return
        found = self._channel.questions.get()
        self._asked = None if found is None else found[:2]
        self.asks_all = found is None or found[2]

    def _run(self) -> None:
        try:
            self.training = self._train(self._channel)
        except _ClosedError:
            pass
        except SpinneyError as error:
            self.error = error
        except Exception as error:  # noqa: BLE001  told what no training expects
            _LOG.exception("The job cannot be derived.")
            self.error = ProtocolError(
                "This party cannot derive the job from what it was told. It answers no further "
                "question of the run.",
                local=str(error),
            )
        finally:
            self._channel.questions.put(None)


def not_the_next() -> ProtocolError:
    """Return the refusal of a question that does not follow."""
    return ProtocolError(
        "The question is not the job's next step. This party answers only the questions that "
        "follow from the job it accepted. Nothing was released."
    )


class _ClosedError(Exception):
    """Nobody needs the training any more."""


class _Told(Channel):
    """A channel whose questions go to nobody; somebody else says what came out."""

    def __init__(self, parties: tuple[str, ...], *, is_masked: bool) -> None:
        self.parties = parties
        self.rounds: list[Round] = []
        self.is_masked = is_masked
        self.questions: SimpleQueue[tuple[str, Ask[Any], bool] | None] = SimpleQueue()
        self.results: SimpleQueue[tuple[Any, tuple[str, ...]] | None] = SimpleQueue()

    def ask(
        self, ask: Ask[Reply], *, to: Sequence[str] | None = None, quorum: int | None = None
    ) -> dict[str, Reply]:
        """Return the replies that were told."""
        del quorum
        replies: dict[str, Reply] = self._result("ask", ask, asks_all=to is None)
        return {name: replies[name] for name in replies if to is None or name in to}

    def sum(self, ask: Ask[Summand], *, quorum: int | None = None) -> Summand:
        """Return the sum that was told."""
        del quorum
        total: Summand = self._result("sum", ask)
        return total

    def _result(self, verb: str, ask: Ask[Any], *, asks_all: bool = True) -> Any:
        self.questions.put((verb, ask, asks_all))
        told = self.results.get()
        if told is None:
            raise _ClosedError
        result, answered = told
        number = len(self.rounds) + 1
        self.rounds.append(
            Round(number, ask.called(), verb, ask.reveals, "", {}, {}, 0.0, answered)
        )
        return result
