"""The coordinator's channel to parties in other organisations.

A question is sent to all parties, and sent again to those that have not answered. That costs a
party nothing: it has stored its answer, or replies that it is still working. A party that stays
silent for too long is lost.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic, perf_counter
from typing import Any

from spinney.errors import PartyLostError, ProtocolError, SpinneyError, StorageError
from spinney.transport import codec
from spinney.transport.channel import Ask, Channel, Reply, Round, Summand, sum_replies
from spinney.transport.remote.ahead import with_running
from spinney.transport.remote.wire import REFUSED, WORKING, Answer, Envelope, error_of, open_message

_NOTHING = "none: the coordinator sees each party's reply"
_ADDED = "summed by the coordinator; not masked"
_SLOWEST = 1 << 22  # bytes per second, to all parties together

Send = Callable[[Sequence[str], bytes], Mapping[str, object]]
"""Sends bytes to parties and returns the answers that arrived in time, by party."""


@dataclass(frozen=True)
class Limits:
    """Limits of time and size."""

    silence: float = 60.0  # seconds after which a silent party is lost
    working: float = 3600.0  # seconds after which one that still works on an answer is lost
    message_bytes: int = codec.MESSAGE_LIMIT


@dataclass
class Hearing:
    """Which parties have answered the current question, for progress displays."""

    question: str = ""
    number: int = 0
    answered: list[str] = field(default_factory=list)
    asked: tuple[str, ...] = ()


def transfer_seconds(n_bytes: int) -> float:
    """Return how long this many bytes may take, in addition to the time of any message."""
    return n_bytes / _SLOWEST


class RemoteChannel(Channel):
    """A channel over `send`.

    Parameters
    ----------
    send
        Carries bytes to parties.
    run, attempt
        The job, and which of its engine jobs this is.
    parties
        All parties of the job.
    present
        Those that take part in this attempt.
    least
        How many must answer, unless the protocol needs more.
    watch
        Called whenever a party has answered.
    heads
        The heads of all parties' ledgers, for everybody's first question.
    heard
        Called with a party's name and where its ledger ends, after every answer.
    """

    def __init__(
        self,
        send: Send,
        *,
        run: str,
        attempt: int,
        parties: Sequence[str],
        present: Sequence[str],
        least: int,
        limits: Limits,
        watch: Callable[[Hearing], None] = lambda _: None,
        heads: Sequence[bytes] = (),
        heard: Callable[[str, bytes], None] = lambda *_: None,
    ) -> None:
        self.parties = tuple(parties)
        self.rounds: list[Round] = []
        self._send = send
        self._run, self._attempt = run, attempt
        self._present = tuple(present)
        self._least = least
        self._limits = limits
        self._watch = watch
        self._heads = tuple(heads)
        self._heard_head = heard
        self._shown: set[str] = set()  # the parties that were shown the heads
        self._number = 0

    def ask(
        self, ask: Ask[Reply], *, to: Sequence[str] | None = None, quorum: int | None = None
    ) -> dict[str, Reply]:
        """Put a question to all parties, or to some; return every party's reply."""
        begin = perf_counter()
        heard = self._heard(ask, to, quorum)
        replies = {name: self._reply(name, ask, answer) for name, answer in heard.items()}
        self._note(ask, "ask", _NOTHING, heard, begin)
        return replies

    def sum(self, ask: Ask[Summand], *, quorum: int | None = None) -> Summand:
        """Put a question to all parties; return only the sum of their replies."""
        begin = perf_counter()
        heard = self._heard(ask, None, quorum)
        first, *others = heard
        total: Summand = sum_replies(
            self._reply(first, ask, heard[first]),
            (self._reply(name, ask, heard[name]) for name in others),
        )
        self._note(ask, "sum", _ADDED, heard, begin)
        return total

    def _heard(
        self, ask: Ask[Any], to: Sequence[str] | None, quorum: int | None
    ) -> dict[str, Answer]:
        """Return the answers, in the order of the parties."""
        asked = tuple(self.parties if to is None else to)
        if quorum is None:
            quorum = self._least if to is None else len(asked)
        present = [name for name in asked if name in self._present]
        if len(present) < quorum:
            raise _too_few(ask, present, asked, quorum)
        self._number += 1
        kind = type(ask).__name__
        heads = self._heads if set(present) - self._shown else ()
        self._shown |= set(present)
        question = Envelope(self._run, self._attempt, self._number, kind, _encoded(ask), heads)
        hearing = Hearing(kind.removesuffix("Ask"), self._number, [], asked)
        is_over_all = len(present) == quorum == len(self.parties)
        running = ask.running(len(present), is_masked=False) if is_over_all else None
        data = with_running(codec.encode(question), running)
        answers = self._asked(data, question, present, hearing)
        if len(answers) < quorum:
            raise _too_few(ask, list(answers), asked, quorum)
        self._bytes_down = len(question.body)
        return {name: answers[name] for name in asked if name in answers}

    def _asked(
        self, data: bytes, question: Envelope, present: Sequence[str], hearing: Hearing
    ) -> dict[str, Answer]:
        answers: dict[str, Answer] = {}
        begin = monotonic()
        silence = self._limits.silence + transfer_seconds(len(data) * len(present))
        last_heard = dict.fromkeys(present, begin)
        pending = list(present)
        while pending:
            self._watch(hearing)
            came = self._send(pending, data)
            now = monotonic()
            for name, answer in came.items():
                found = self._checked(name, question, answer)
                last_heard[name] = now
                if found.state != WORKING:
                    self._heard_head(name, found.head)
                    answers[name] = found
                    hearing.answered.append(name)
            if now - begin > self._limits.working:
                break
            pending = [
                name for name in pending if name not in answers and now - last_heard[name] < silence
            ]
        self._watch(hearing)
        return answers

    def _checked(self, name: str, question: Envelope, data: object) -> Answer:
        """Return a party's answer; raise if it refuses or answers another question."""
        try:
            answer = open_message(data, Answer, self._limits.message_bytes)
        except SpinneyError as error:
            error.party = name
            raise
        assert isinstance(answer, Answer)
        here = (question.run, question.attempt, question.number)
        if (answer.run, answer.attempt, answer.number) != here:
            stray = ProtocolError("Its answer belongs to another question; nothing was used.")
            stray.party = name
            raise stray
        if answer.state == REFUSED:
            raise error_of(answer, name)
        return answer

    def _reply(self, name: str, ask: Ask[Any], answer: Answer) -> Any:
        try:
            return codec.decode(
                answer.body,
                ask.reply_type,
                limit=self._limits.message_bytes,
                unpacked=ask.reply_bytes,
            )
        except SpinneyError as error:
            error.party = name
            raise

    def _note(
        self, ask: Ask[Any], verb: str, protection: str, heard: dict[str, Answer], begin: float
    ) -> None:
        question = ask.called()
        down = dict.fromkeys(heard, self._bytes_down)
        up = {name: len(answer.body) for name, answer in heard.items()}
        numbered = (len(self.rounds) + 1, question, verb, ask.reveals, protection)
        self.rounds.append(Round(*numbered, down, up, perf_counter() - begin, tuple(heard)))


def _encoded(ask: Ask[Any]) -> bytes:
    """Return a question's bytes; raise if no party would unpack it."""
    try:
        return codec.encode(ask, unpacked=codec.UNPACKED_LIMIT)
    except StorageError as error:
        raise ProtocolError(
            f"{error} The job is too large for one question: use fewer trees, less depth, or more "
            "rows per leaf."
        ) from None


def _too_few(
    ask: Ask[Any], answered: Sequence[str], asked: Sequence[str], quorum: int
) -> PartyLostError:
    missing = ", ".join(name for name in asked if name not in answered)
    error = PartyLostError(
        f"Only {len(answered)} of {len(asked)} parties answered {type(ask).__name__}; {quorum} are "
        f"needed. Missing: {missing}."
    )
    error.missing = tuple(name for name in asked if name not in answered)
    return error
