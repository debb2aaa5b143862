"""Matching: parties find the rows that all of them share, and put them in one secret order.

S2 assumes aligned ids and sketches unsalted MD5, which a dictionary attack breaks. Here:

- `matching="psi"`: the leading party runs a private set intersection with each of the others, and
  then sends the tags of the rows that all parties have.
- `matching="keyed_hash"`: every party sends tags of its ids; the coordinator intersects them.

A tag is a keyed hash. The leading party draws the key, and the coordinator carries it in letters it
cannot open. Rows are in the order of their tags, which means nothing to anybody else. At the end
the leading party signs the common rows, so that all parties have the same.

**Who learns what.** Every party learns which of its own rows all parties share; the leading party,
with "psi", also learns which rows it shares with each of the others. The coordinator learns each
party's number of ids and their kind, and the size of the intersection; with "keyed_hash" the tags
of all ids, and so how many ids any parties share.
For the leading party and the coordinator, a size-only check returns how many ids match with each of
the others, not which ones.
**Who never learns what.** Nobody learns an id that it does not hold itself. The coordinator has no
key with which to try ids, and cannot put one in place: keys, requests and answers are signed by
their parties for this run (`columns.seat`). A party answers one request in a run, from the
leading party, for at most as many ids as its policy allows, and its ledger records how many; the
same request gets the same bytes again. The leading party could ask about invented ids, within that
number. With "keyed_hash" every party has the key of the tags, and one that gave it to the
coordinator would let it try ids; with "psi" no tags are sent but those of common rows.

**Rounds and bytes.** "keyed_hash": 6 rounds, 16 bytes for each id up and each common row down.
"psi": 8 rounds; 32 bytes for each id that is asked about, and for each answered and each own one.
"""

import numpy as np

from spinney.errors import ProtocolError, SettingError, TableError
from spinney.privacy.matching import TAG_BYTES, Tags
from spinney.protocols.columns.matching_messages import (
    CommonAsk,
    MeetAsk,
    MeetReply,
    RequestAsk,
    RespondAsk,
    RespondReply,
    SecretAsk,
    SharedAsk,
    SharedReply,
    TagsAsk,
    TakeAsk,
)
from spinney.protocols.columns.seat import all_signed
from spinney.protocols.columns.settings import MATCHINGS
from spinney.transport.channel import Channel


def match(channel: Channel, matching: str, *, lead: str) -> int:
    """Let the parties find their common rows; return how many there are.

    Parameters
    ----------
    channel
        The parties, each a `matching_party.MatchingParty`.
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
    secret = SecretAsk(others, keys, all_signed(met[name].signed for name in others))
    letters = channel.ask(secret, to=(lead,))[lead].letters
    if len(letters) != len(others):
        raise ProtocolError("The leading party did not write to every other party.")
    channel.ask_each(
        {
            name: TakeAsk(lead, met[lead].public_key, letter, met[lead].signed)
            for name, letter in zip(others, letters, strict=True)
        }
    )
    if matching == "psi":
        tags = _asked_to_share(channel, met, lead, size_only=False).tags
    else:
        tags = _by_tags(channel)
    if not len(tags):
        raise TableError(
            "The parties have no row id in common. Check that all parties write ids in the same "
            "way, and that the ids are of the same people."
        )
    taken = channel.ask(CommonAsk(tags), to=(lead,))
    remaining = [name for name in others if name not in taken]  # 0.1.0 asked all in one round
    if remaining:
        channel.ask(CommonAsk(tags, taken[lead].signed), to=remaining)
    return len(tags)


def count_shared(channel: Channel, *, lead: str) -> dict[str, int]:
    """Return how many ids the leading party shares with each other party, not which ones."""
    shared = _asked_to_share(channel, _met(channel, lead), lead, size_only=True)
    return dict(zip((name for name in channel.parties if name != lead), shared.sizes, strict=True))


def _asked_to_share(
    channel: Channel, met: dict[str, MeetReply], lead: str, *, size_only: bool
) -> SharedReply:
    """Carry the leading party's request to all others, and their answers back."""
    others = tuple(name for name in channel.parties if name != lead)
    request = channel.ask(RequestAsk(size_only=size_only), to=(lead,))[lead]
    answers: dict[str, RespondReply] = {}
    if others:
        ask = RespondAsk(met[lead].n_ids, request.data, size_only, request.signed)
        answers = channel.ask(ask, to=others)
    shared = SharedAsk(tuple(answers[name] for name in others), size_only)
    return channel.ask(shared, to=(lead,))[lead]


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
