"""Matching: parties find the rows that all of them share, and put them in one secret order.

S2 assumes aligned ids and sketches unsalted MD5, which a dictionary attack breaks. Here:

- `matching="psi"`: the leading party runs a private set intersection with each of the others, and
  then sends the tags of the rows that all parties have.
- `matching="keyed_hash"`: every party sends tags of its ids; the coordinator intersects them.

A tag is a keyed hash. The leading party draws the key, and the coordinator carries it in letters it
cannot open. Rows are in the order of their tags, which means nothing to anybody else.

**Who learns what.** Every party learns which of its own rows all parties share; the leading party,
with "psi", also learns which rows it shares with each of the others. The coordinator learns each
party's number of ids and their kind, and the size of the intersection; with "keyed_hash" the tags
of all ids, and so how many ids any parties share.
For the leading party and the coordinator, a size-only check returns how many ids match with each of
the others, not which ones.
**Who never learns what.** Nobody learns an id that it does not hold itself. The coordinator has no
key with which to try ids. It is trusted to carry public keys and requests unchanged: a coordinator
that made up its own could test whether a party has a guessed id.

**Rounds and bytes.** "keyed_hash": 5 rounds, 16 bytes for each id up and each common row down.
"psi": 7 rounds, about 70 bytes for each id.
"""

from typing import Any

import numpy as np

from spinney.errors import ProtocolError, SettingError, TableError
from spinney.privacy.keys import KeyPair
from spinney.privacy.matching import (
    TAG_BYTES,
    Ids,
    PsiClient,
    PsiServer,
    Tags,
    new_matching_key,
    open_key,
    seal_key,
)
from spinney.protocols.vertical_forest.matching_messages import (
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
from spinney.protocols.vertical_forest.settings import MATCHINGS
from spinney.transport.channel import Ask, Channel
from spinney.typing import Integers


class MatchingParty:
    """One organisation's side; after matching, `rows` are its rows in the common order."""

    def __init__(self, ids: Any) -> None:
        self._ids = Ids(ids)
        self._name = ""
        self._pair = KeyPair.fresh()
        self._key = b""
        self._client: PsiClient | None = None
        self._rows: Integers | None = None

    @property
    def rows(self) -> Integers:
        """The party's rows that all parties share, in the common order."""
        if self._rows is None:
            raise ProtocolError("The rows of this party have not been matched.")
        return self._rows

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer a question."""
        match ask:
            case MeetAsk():
                self._name = ask.party
                return MeetReply(self._pair.public, len(self._ids), self._ids.kind)
            case SecretAsk():
                return self._secret(ask)
            case TakeAsk():
                names = (ask.lead, self._name)
                self._key = open_key(ask.letter, self._pair, ask.public_key, names)
                return TakenReply(self._name)
        return self._answer_about_ids(ask)

    def _answer_about_ids(self, ask: Ask[Any]) -> Any:
        match ask:
            case TagsAsk():
                return TagsReply(_sorted(self._ids.tags(self._known_key())))
            case RequestAsk():
                self._client = PsiClient(self._ids, reveal=not ask.size_only)
                return RequestReply(self._client.request())
            case RespondAsk():
                server = PsiServer(self._ids, reveal=not ask.size_only)
                return RespondReply(server.setup(ask.n_ids), server.respond(ask.request))
            case SharedAsk():
                return self._shared(ask)
            case CommonAsk():
                self._rows = self._ids.rows_of(ask.tags, self._known_key())
                return TakenReply(self._name)
        raise ProtocolError(f"A party in matching does not answer {type(ask).__name__}.")

    def _known_key(self) -> bytes:
        if not self._key:
            raise ProtocolError("This party has no matching key yet.")
        return self._key

    def _secret(self, ask: SecretAsk) -> SecretReply:
        self._key = new_matching_key()
        letters = (
            seal_key(self._key, self._pair, public, (self._name, name))
            for name, public in zip(ask.parties, ask.public_keys, strict=True)
        )
        return SecretReply(tuple(letters))

    def _shared(self, ask: SharedAsk) -> SharedReply:
        if self._client is None:
            raise ProtocolError("This party has not asked for common ids.")
        none = np.zeros((0, TAG_BYTES), np.uint8)
        if ask.size_only:
            sizes = tuple(self._client.size(one.setup, one.response) for one in ask.answers)
            return SharedReply(none, sizes)
        common = np.arange(len(self._ids))
        for one in ask.answers:
            common = np.intersect1d(common, self._client.common(one.setup, one.response))
        tags = self._ids.tags(self._known_key())[common]
        return SharedReply(_sorted(tags), (int(common.size),))


def _sorted(tags: Tags) -> Tags:
    return tags[np.lexsort(tags.T[::-1])]


def match(channel: Channel, matching: str, *, lead: str) -> int:
    """Let the parties find their common rows; return how many there are.

    Parameters
    ----------
    channel
        The parties, each a `MatchingParty`.
    matching
        "psi" or "keyed_hash".
    lead
        The leading party, usually the one that holds the labels.
    """
    if matching not in MATCHINGS:
        known = " or ".join(map(repr, MATCHINGS))
        raise SettingError(f"matching must be {known}; got {matching!r}.")
    met = _met(channel, lead)
    others = tuple(name for name in channel.parties if name != lead)
    keys = tuple(met[name].public_key for name in others)
    letters = channel.ask(SecretAsk(others, keys), to=(lead,))[lead].letters
    if len(letters) != len(others):
        raise ProtocolError("The leading party did not write to every other party.")
    channel.ask_each(
        {
            name: TakeAsk(lead, met[lead].public_key, letter)
            for name, letter in zip(others, letters, strict=True)
        }
    )
    tags = _by_psi(channel, met, lead) if matching == "psi" else _by_tags(channel)
    if not len(tags):
        raise TableError(
            "The parties have no row id in common. Check that all parties write ids in the same "
            "way, and that the ids are of the same people."
        )
    channel.ask(CommonAsk(tags))
    return len(tags)


def count_shared(channel: Channel, *, lead: str) -> dict[str, int]:
    """Return how many ids the leading party shares with each other party, not which ones."""
    met = _met(channel, lead)
    others = [name for name in channel.parties if name != lead]
    request = channel.ask(RequestAsk(size_only=True), to=(lead,))[lead].data
    ask = RespondAsk(met[lead].n_ids, request, size_only=True)
    answers = channel.ask(ask, to=others)
    shared = SharedAsk(tuple(answers[name] for name in others), size_only=True)
    sizes = channel.ask(shared, to=(lead,))[lead].sizes
    return dict(zip(others, sizes, strict=True))


def _met(channel: Channel, lead: str) -> dict[str, MeetReply]:
    if lead not in channel.parties:
        raise SettingError(f"The leading party {lead!r} is not one of the job's parties.")
    met = channel.ask_each({name: MeetAsk(name) for name in channel.parties})
    for name, reply in met.items():
        if reply.kind != met[lead].kind:
            raise TableError(
                f"Row ids are {met[lead].kind} at party {lead!r} and {reply.kind} at party "
                f"{name!r}. Write them in the same way at all parties."
            )
    return met


def _by_tags(channel: Channel) -> Tags:
    """Return the tags that every party sent."""
    found = [reply.tags for reply in channel.ask(TagsAsk()).values()]
    common = {bytes(tag) for tag in found[0]}
    for tags in found[1:]:
        common &= {bytes(tag) for tag in tags}
    return np.frombuffer(b"".join(sorted(common)), np.uint8).reshape(-1, TAG_BYTES)


def _by_psi(channel: Channel, met: dict[str, MeetReply], lead: str) -> Tags:
    """Return the tags of the ids that the leading party shares with every other party."""
    others = [name for name in channel.parties if name != lead]
    request = channel.ask(RequestAsk(size_only=False), to=(lead,))[lead].data
    answers: dict[str, RespondReply] = {}
    if others:
        ask = RespondAsk(met[lead].n_ids, request, size_only=False)
        answers = channel.ask(ask, to=others)
    shared = SharedAsk(tuple(answers[name] for name in others), size_only=False)
    return channel.ask(shared, to=(lead,))[lead].tags
