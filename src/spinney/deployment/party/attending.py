"""A party at its coordinator: it takes part in one attempt at a time, and answers its questions."""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Final

from spinney.deployment.job import Attempt
from spinney.deployment.logs import JsonLines
from spinney.deployment.party.config import PartyFile, load_party
from spinney.deployment.party.gate import admit
from spinney.deployment.party.process import RunParty
from spinney.deployment.standing import StandingFile
from spinney.deployment.text import printable
from spinney.errors import InternalError, ProtocolError, SpinneyError, StorageError
from spinney.transport.remote.frames import Decision, Offer
from spinney.transport.remote.resident import Resident
from spinney.transport.remote.wire import full_disk

_LOG: Final = logging.getLogger("spinney.gate")
_AUDIT: Final = logging.getLogger("spinney.audit")
_WAIT: Final = 60.0  # seconds for an answer that nobody wants any more


class AttendingParty:
    """What the coordinator can reach at a party: offers, questions, and their end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self._attempt = ("", 0)
        self._last: dict[str, int] = {}  # run -> the last attempt that was offered
        self._side: RunParty | None = None
        self._resident: Resident | None = None

    @property
    def attempt(self) -> tuple[str, int]:
        """Which attempt of which run the party is in."""
        return self._attempt

    def take(self, offer: Offer) -> Decision:
        """Take part in an attempt, or say why not."""
        try:
            self._leave(_WAIT)
            self._require_newer(offer)
            side, joined = admit(self._party_file(), offer)
            resident = Resident(
                side,
                run=offer.run,
                attempt=offer.attempt,
                known=side.known,
                meet=side.heads.meet,
                head=side.heads.stated,
            )
        except SpinneyError as error:
            _AUDIT.warning("A job of the coordinator was refused: %s", error)
            return Decision(offer.number, type(error).__name__, error.public)
        except Exception as error:  # noqa: BLE001  its text may hold data and stays here
            _LOG.exception("A job was refused because it could not be read.")
            full = full_disk(error)
            text = full.public if full else "The job cannot be read."
            return Decision(offer.number, type(full or InternalError("")).__name__, text)
        with self._lock:
            JsonLines.job = offer.run
            self._side, self._attempt = side, (offer.run, offer.attempt)
            self._resident = resident
        return Decision(offer.number, "", "", joined)

    def _require_newer(self, offer: Offer) -> None:
        """Refuse an attempt that is not newer than the last of its run: it has been offered."""
        Attempt(offer.run, offer.attempt, offer.present)  # raises if it names no run
        if offer.attempt <= self._last.get(offer.run, 0):
            raise ProtocolError("This attempt was offered before. Nothing was released.")
        self._last[offer.run] = offer.attempt

    def _party_file(self) -> PartyFile:
        """Return the party's file; what is wrong with it is nobody else's business."""
        try:
            return load_party(self._path)
        except (SpinneyError, OSError) as error:
            raise StorageError("This party's file cannot be read.", local=str(error)) from None

    def answer(self, body: bytes) -> Iterator[bytes]:
        """Yield that the party is still working, from time to time, and then the answer."""
        resident = self._resident
        if resident is not None:
            yield from resident.answers(body)

    def end(self, run: str, attempt: int, heads: Sequence[bytes] = (), why: str = "") -> None:
        """Stop taking part in an attempt; keep where the others' ledgers end."""
        with self._lock:  # or the next offer would close the ledger under it
            if (run, attempt) != self._attempt:
                return
            if self._side is not None:
                self._side.heads.end(heads)
        if why:
            _LOG.warning("The attempt ended: %s", printable(why))
        self._leave(0.0)

    def _leave(self, seconds: float) -> None:
        """Leave the present attempt; wait for an answer that is still being worked on."""
        with self._lock:
            resident, side = self._resident, self._side
            self._attempt = ("", 0)
            if resident is None or side is None:
                return
            resident.close()
            if not resident.wait(seconds):
                if seconds:
                    raise ProtocolError(
                        "This party is still working on an earlier question. Try again later. If "
                        "that does not help, its operator restarts it."
                    )
                return  # the next attempt waits for it
            side.close()
            self._resident = self._side = None
            JsonLines.job = ""


class Noted:
    """A party whose contacts and answers are noted in its standing."""

    def __init__(self, party: AttendingParty, standing: StandingFile) -> None:
        self._party = party
        self.standing = standing

    @property
    def attempt(self) -> tuple[str, int]:
        """Which attempt of which run it is in."""
        return self._party.attempt

    def take(self, offer: Offer) -> Decision:
        """Take part in an attempt, or say why not."""
        self.standing.heard()
        verdict = self._party.take(offer)
        self.standing.note(run=self._party.attempt[0])
        return verdict

    def answer(self, body: bytes) -> Iterator[bytes]:
        """Yield that it is still working, as often as it likes, and then the answer."""
        self.standing.heard()
        for said in self._party.answer(body):
            self.standing.count(answered=0, bytes_out=len(said))
            yield said
        self.standing.count(answered=1, bytes_out=0)

    def end(self, run: str, attempt: int, heads: Sequence[bytes] = (), why: str = "") -> None:
        """Stop taking part in an attempt."""
        self.standing.heard()
        self._party.end(run, attempt, heads, why)
        self.standing.note(run=self._party.attempt[0])
