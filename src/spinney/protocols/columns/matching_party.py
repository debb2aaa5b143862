"""A party's side of matching: what it signs, what it checks, and what it answers only once.

**Who learns what.** See `columns.matching`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import numpy as np

from spinney.errors import PolicyError, ProtocolError
from spinney.privacy.accounting import JobTerms
from spinney.privacy.budget import Unit
from spinney.privacy.intersection import PsiClient, PsiServer, n_asked
from spinney.privacy.keys import KeyPair, encode_parts
from spinney.privacy.ledger import Ledger
from spinney.privacy.matching import (
    TAG_BYTES,
    Ids,
    Tags,
    new_matching_key,
    open_key,
    seal_key,
)
from spinney.privacy.scopes import Disclosure, Protection, Question
from spinney.protocols.columns.matching_messages import (
    CommonAsk,
    MeetAsk,
    MeetReply,
    RequestAsk,
    RequestReply,
    RespondAsk,
    RespondReply,
    SecretAsk,
    SecretReply,
    SharedAsk,
    SharedReply,
    TagsAsk,
    TagsReply,
    TakeAsk,
    TakenReply,
)
from spinney.protocols.columns.notebook import Notebook
from spinney.protocols.columns.seat import UNSIGNED, Seat, Signed, Unsigned
from spinney.transport import codec
from spinney.transport.channel import Ask
from spinney.typing import Integers

NOTES: Final = "matching"
_KEY, _REQUEST, _ANSWER = "matching key", "matching request", "matching answer"  # what is signed
_COMMON: Final = "list of common rows"
_TIMES: Final = 10  # a request may name so many times a party's own ids, unless its policy says
_ONE_REQUEST: Final = (
    "This party has answered another request for common ids in this run. A run has one request. "
    "Nothing was released."
)
_OTHER_ROWS: Final = "This party already received different common rows. Nothing was released."


@dataclass(frozen=True)
class MatchingLimit:
    """How many ids a party answers for, and where it writes down how many it did.

    Attributes
    ----------
    most_ids
        The most ids of a request; None: ten times as many as the party has itself.
    ledger, data
        The ledger, and the name of the data set whose ids they are; None: nothing is written down.
    """

    most_ids: int | None = None
    ledger: Ledger | None = None
    data: str | None = None

    def allow(self, seat: Seat, n_ids: int, n_own: int) -> None:
        """Write down that ids are asked about; raise if they are too many."""
        most = _TIMES * n_own if self.most_ids is None else self.most_ids
        if n_ids > most:
            raise PolicyError(
                f"Party {seat.lead!r} asks which of {n_ids} ids are here; this party answers for "
                f"at most {most} (rule 'max_match_ids'). Nothing was released."
            )
        if self.ledger is None:
            return
        told = Disclosure(
            f"to {seat.lead!r}, which of its {n_ids} ids are here",
            Protection.UNPROTECTED,
            "private set intersection: the leading party learns it, and nobody else",
            (Unit.RECORD_ADD_REMOVE,),
        )
        self.ledger.open_job(JobTerms(seat.run, self.data or "table", len(seat.parties), 1))
        self.ledger.disclose(Question.of(seat.run, 0, _REQUEST.encode()), [told])


_NO_LEDGER: Final = MatchingLimit()


class MatchingParty:
    """One organisation's side; after matching, `rows` are its rows in the common order.

    Parameters
    ----------
    ids
        Its row ids.
    seat
        Its seat in the run.
    way
        How the job matches: "psi" or "keyed_hash". A party answers the questions of that way only.
    notebook
        Where it keeps keys and answers, so that a run that begins anew asks and answers the same.
        None: in memory.
    limit
        The most ids that it answers for, and the ledger that records them.
    """

    def __init__(
        self,
        ids: Any,
        seat: Seat,
        way: str,
        *,
        notebook: Notebook | None = None,
        limit: MatchingLimit = _NO_LEDGER,
    ) -> None:
        self._ids = Ids(ids)
        self._seat = seat
        self._way = way
        self._notebook = notebook or Notebook()
        self._limit = limit
        self._pair = KeyPair.of(self._secret("pair", KeyPair.fresh().private))
        self._client: PsiClient | None = None
        self._rows: Integers | None = None

    def _secret(self, name: str, fresh: bytes) -> bytes:
        """Return a secret of this run: the stored one, or a fresh one that is stored now."""
        known = self._notebook.note(NOTES, name)
        if known is None:
            self._notebook.keep_note(NOTES, name, fresh)
        return known or fresh

    @property
    def rows(self) -> Integers:
        """The party's rows that all parties share, in the common order."""
        if self._rows is None:
            raise ProtocolError("The rows of this party have not been matched.")
        return self._rows

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer a question."""
        answers: dict[type[Any], Callable[[Any], Any]] = {
            MeetAsk: self._introduction,
            SecretAsk: self._letters,
            TakeAsk: self._taken,
            CommonAsk: self._common,
        }
        if self._way == "keyed_hash":
            answers |= {TagsAsk: self._tags}
        else:
            answers |= {
                RequestAsk: self._request,
                RespondAsk: self._response,
                SharedAsk: self._shared,
            }
        if type(ask) not in answers:
            raise ProtocolError(
                f"A party that matches by {self._way!r} does not answer {type(ask).__name__}."
            )
        return answers[type(ask)](ask)

    def _tags(self, _: TagsAsk) -> TagsReply:
        return TagsReply(_sorted(self._ids.tags(self._known_key())))

    # --- keys ------------------------------------------------------------------------------------

    def _introduction(self, ask: MeetAsk) -> MeetReply:
        seat, public = self._seat, self._pair.public
        if ask.party != seat.name:
            raise ProtocolError("The question is for another party. Nothing was released.")
        return MeetReply(public, len(self._ids), self._ids.kind, seat.sign(_KEY, public))

    def _require_lead(self) -> None:
        if self._seat.name != self._seat.lead:
            raise ProtocolError("Only the leading party answers this. Nothing was released.")

    def _require_others(self, names: Iterable[str]) -> None:
        """Raise unless a question brings something of every other party of the run, once."""
        if tuple(sorted(names)) != self._seat.others:
            raise ProtocolError(
                "The question does not name the other parties of this run, each once. Nothing was "
                "released."
            )

    def _letters(self, ask: SecretAsk) -> SecretReply:
        """Send the key of the tags to every other party of the run, and to nobody else."""
        self._require_lead()
        self._require_others(ask.parties)
        signed: tuple[Signed | Unsigned, ...] = ask.signed or (UNSIGNED,) * len(ask.parties)
        if not len(ask.parties) == len(ask.public_keys) == len(signed):
            raise ProtocolError("The question does not bring one key of each party.")
        for name, public, one in zip(ask.parties, ask.public_keys, signed, strict=True):
            self._seat.check(name, one, _KEY, public)
        key = self._secret("key", new_matching_key())
        letters = (
            seal_key(key, self._pair, public, (self._seat.name, name))
            for name, public in zip(ask.parties, ask.public_keys, strict=True)
        )
        return SecretReply(tuple(letters))

    def _taken(self, ask: TakeAsk) -> TakenReply:
        seat = self._seat
        seat.check(seat.lead, ask.signed, _KEY, ask.public_key)
        key = open_key(ask.letter, self._pair, ask.public_key, (seat.lead, seat.name))
        if self._secret("key", key) != key:
            raise ProtocolError("This party already has another matching key of this run.")
        return TakenReply(seat.name)

    def _known_key(self) -> bytes:
        key = self._notebook.note(NOTES, "key")
        if key is None:
            raise ProtocolError("This party has no matching key yet.")
        return key

    # --- private set intersection ----------------------------------------------------------------

    def _asking(self, *, size_only: bool) -> PsiClient:
        """Return the side that asks; a run asks for rows or for their number, not for both."""
        self._notebook.settle(NOTES, "asks", bytes([size_only]))
        if self._client is None:
            stored = self._notebook.note(NOTES, "client")
            self._client = PsiClient(self._ids.texts, key=stored)
            self._secret("client", self._client.key)
        return self._client

    def _request(self, ask: RequestAsk) -> RequestReply:
        self._require_lead()
        request = self._asking(size_only=ask.size_only).request()
        self._notebook.keep_note(NOTES, "asked", sha256(request).digest())
        said = (int(ask.size_only), len(self._ids), request)
        return RequestReply(request, self._seat.sign(_REQUEST, *said))

    def _response(self, ask: RespondAsk) -> RespondReply:
        """Answer the leading party's one request; the same once more gets the same bytes."""
        seat, said = self._seat, (int(ask.size_only), ask.n_ids, ask.request)
        seat.check(seat.lead, ask.signed, _REQUEST, *said)
        self._notebook.settle(NOTES, "request", encode_parts(*said), _ONE_REQUEST)
        stored = self._notebook.note(NOTES, "response")
        if stored is not None:
            return codec.decode(stored, RespondReply)
        if n_asked(ask.request) != ask.n_ids:
            raise ProtocolError("The request has another number of ids than it says.")
        self._limit.allow(seat, ask.n_ids, len(self._ids))
        server = PsiServer(self._ids.texts, reveal=not ask.size_only)
        setup, response = server.setup(), server.respond(ask.request)
        asked = sha256(ask.request).digest()
        signed = seat.sign(_ANSWER, int(ask.size_only), asked, setup, response)
        reply = RespondReply(setup, response, signed)
        self._notebook.keep_note(NOTES, "response", codec.encode(reply))
        return reply

    def _shared(self, ask: SharedAsk) -> SharedReply:
        self._require_lead()
        names = [one.signed.party if one.signed else "" for one in ask.answers]
        self._require_others(names)
        asked = self._notebook.note(NOTES, "asked")
        if asked is None:
            raise ProtocolError("This party has not asked for common ids.")
        client = self._asking(size_only=ask.size_only)
        for name, one in zip(names, ask.answers, strict=True):
            said = (int(ask.size_only), asked, one.setup, one.response)
            self._seat.check(name, one.signed, _ANSWER, *said)
        if ask.size_only:
            sizes = tuple(client.size(one.setup, one.response) for one in ask.answers)
            return SharedReply(np.zeros((0, TAG_BYTES), np.uint8), sizes)
        common = np.arange(len(self._ids))
        for one in ask.answers:
            common = np.intersect1d(common, client.common(one.setup, one.response))
        tags = _sorted(self._ids.tags(self._known_key())[common])
        self._notebook.settle(NOTES, "common", tags.tobytes(), _OTHER_ROWS)
        return SharedReply(tags, (int(common.size),))

    # --- the common rows -------------------------------------------------------------------------

    def _common(self, ask: CommonAsk) -> TakenReply:
        """Take the common rows: the leading party what it found, the others what it signed."""
        seat, tags = self._seat, ask.tags.tobytes()
        is_lead = seat.name == seat.lead
        if not is_lead:
            seat.check(seat.lead, ask.signed, _COMMON, tags)
        elif self._way == "psi" and self._notebook.note(NOTES, "common") is None:
            raise ProtocolError("The leading party has not found the common rows yet.")
        rows = self._ids.rows_of(ask.tags, self._known_key())
        self._notebook.settle(NOTES, "common", tags, _OTHER_ROWS)
        self._rows = rows
        return TakenReply(seat.name, seat.sign(_COMMON, tags) if is_lead else UNSIGNED)


def _sorted(tags: Tags) -> Tags:
    return tags[np.lexsort(tags.T[::-1])]
