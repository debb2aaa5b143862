"""Key exchange between organisations: every party knows the owner of each key.

A party signs a fresh key with the key of its own certificate; the others check the signature and
the certificate. So the coordinator can pass keys on but cannot substitute its own. The keys serve
the masks of secure sums. They also seal a secret that one party draws for all of them, from which
the tags of verified sums are derived.

**Who learns what.** Everybody learns the parties' public keys, signatures and certificates. The
parties learn the secret that they share. **Who never learns what.** The coordinator never learns
that secret, and nothing of any table is involved. **Rounds.** Three.
"""

from dataclasses import replace
from typing import Any, ClassVar, Protocol

from spinney.errors import ProtocolError
from spinney.privacy.entropy import secret_bytes
from spinney.privacy.keys import (
    KEY_BYTES,
    KeyPair,
    Roster,
    SumSettings,
    digest,
    encode_parts,
)
from spinney.privacy.letters import LetterBox
from spinney.privacy.masking import SecureSumParty
from spinney.transport.channel import Ask, Channel
from spinney.transport.messages import message


class Identity(Protocol):
    """What a party's certificate lets it do."""

    def sign(self, data: bytes) -> bytes:
        """Return this party's signature."""
        ...

    @property
    def certificate(self) -> bytes:
        """The certificate that others see."""
        ...

    def check(self, name: str, certificate: bytes, signature: bytes, data: bytes) -> None:
        """Raise unless the named party signed this, with a certificate of the same authority."""
        ...


@message
class KeyReply:
    """A fresh mask key, signed."""

    public: bytes
    signature: bytes
    certificate: bytes


@message
class KeyAsk(Ask[KeyReply]):
    """Which key do you use for the masks of this job?"""

    job: str
    reveals: ClassVar[str] = "a public key; nothing of the table"
    reply_type: ClassVar[type[Any]] = KeyReply


@message
class RosterReply:
    """The party knows the others' keys; the first of them sends the secret that all share."""

    n_parties: int
    letters: tuple[bytes, ...]  # one per party, in the roster's order; of others than the first: ()


@message
class RosterAsk(Ask[RosterReply]):
    """Do you accept these keys for the job's masks, and this many colluders and dropouts?"""

    job: str
    names: tuple[str, ...]
    keys: tuple[KeyReply, ...]
    honest: int
    threshold: int
    min_survivors: int
    reveals: ClassVar[str] = "nothing"
    reply_type: ClassVar[type[Any]] = RosterReply


@message
class GroupReply:
    """The party has the secret."""

    n_parties: int


@message
class GroupAsk(Ask[GroupReply]):
    """Will you take the secret that the parties share? (Each party opens its own letter.)"""

    job: str
    letters: tuple[bytes, ...]
    reveals: ClassVar[str] = "nothing"
    reply_type: ClassVar[type[Any]] = GroupReply


ROSTER_ASKS: tuple[type[Ask[Any]], ...] = (KeyAsk, RosterAsk, GroupAsk)


class RosterParty:
    """A party's side: one key for the job, and one roster."""

    def __init__(self, name: str, job: str, identity: Identity) -> None:
        self._name = name
        self._job = job
        self._identity = identity
        self._key = KeyPair.fresh()

    def key(self, ask: KeyAsk) -> KeyReply:
        """Return this party's key, signed."""
        self._require_job(ask.job)
        signature = self._identity.sign(_signed(self._job, self._name, self._key.public))
        return KeyReply(self._key.public, signature, self._identity.certificate)

    def take(
        self,
        ask: RosterAsk,
        parties: tuple[str, ...],
        least: int,
        honest: int,
        *,
        needs_all: bool = False,
    ) -> SumSettings:
        """Return what the roster settles; raise unless every key belongs to its party.

        Parameters
        ----------
        ask
            The roster.
        parties
            The parties of the job this party has accepted; the roster may name no others.
        least
            How many parties a sum must contain for this party to open it.
        honest
            The most parties whose honesty this party is willing to rely on.
        needs_all
            Whether no party of the job may ever be missing.
        """
        self._require_job(ask.job)
        if len(ask.names) != len(ask.keys) or not set(ask.names) <= set(parties):
            raise ProtocolError("The roster does not name the parties of the accepted job.")
        if ask.min_survivors < least:
            raise ProtocolError(
                f"The roster would open sums over {ask.min_survivors} parties; this party accepts "
                f"no fewer than {least}."
            )
        if ask.honest > honest:
            raise ProtocolError(
                f"The roster relies on {ask.honest} honest parties; this party relies on at most "
                f"{honest}."
            )
        _require_one_list(ask)
        for name, key in zip(ask.names, ask.keys, strict=True):
            data = _signed(self._job, name, key.public)
            self._identity.check(name, key.certificate, key.signature, data)
        settings = _settings(ask, needs_all=needs_all)
        settings.roster.check(self._name, self._key.public)
        return settings

    def masks(self, settings: SumSettings) -> SecureSumParty:
        """Return what masks this party's replies."""
        return SecureSumParty(settings, self._name, self._key)

    def letters(self, settings: SumSettings, held: bytes | None = None) -> tuple[bytes, ...]:
        """Return a secret, sealed for every party; only the first of the roster sends one.

        It is fresh, unless this party already shares one with the others: a run keeps its secret.
        """
        names = settings.roster.names
        if self._name != names[0]:
            return ()
        secret = secret_bytes(KEY_BYTES) if held is None else held
        return tuple(self._box(settings, name).seal(secret, _about(name)) for name in names)

    def secret(self, settings: SumSettings, ask: GroupAsk) -> bytes:
        """Return the secret that the parties share."""
        self._require_job(ask.job)
        first, own = settings.roster.names[0], settings.roster.position(self._name)
        letter = ask.letters[own] if own < len(ask.letters) else b""
        secret = self._box(settings, first).open(letter, _about(self._name))
        if secret is None or len(secret) != KEY_BYTES:
            raise ProtocolError(
                f"The letter from party {first!r} cannot be opened: somebody changed it. "
                "Nothing was released."
            )
        return secret

    def _box(self, settings: SumSettings, other: str) -> LetterBox:
        secret = self._key.shared_with(settings.roster.public_key(other))
        return LetterBox(secret, "group", settings.agreed(), 0, (self._name, other))

    def _require_job(self, job: str) -> None:
        if job != self._job:
            raise ProtocolError("The masks are for a different job from the one this party joined.")


def exchange_keys(
    channel: Channel,
    job: str,
    present: tuple[str, ...],
    *,
    honest: int | None = None,
    min_survivors: int | None = None,
    needs_all: bool = False,
) -> SumSettings:
    """Collect the keys of all present parties, pass them on, and let them share a secret.

    A sum must contain all of them, unless `min_survivors` gives a smaller number. `needs_all` says
    that no party of the job may ever be missing, which each party reads from the job.
    """
    keys = channel.ask(KeyAsk(job), to=present)
    roster = Roster.of({name: key.public for name, key in keys.items()})
    least = len(present) if min_survivors is None else min_survivors
    # As high as possible, so that no two lists of survivors can be opened for the same round.
    settings = replace(
        SumSettings.of(job, roster, honest=honest, threshold=least, min_survivors=least),
        needs_all=needs_all,
    )
    ask = RosterAsk(
        job,
        roster.names,
        tuple(keys[name] for name in roster.names),
        settings.honest,
        settings.threshold,
        settings.min_survivors,
    )
    replies = channel.ask(ask, to=present)
    channel.ask(GroupAsk(job, replies[roster.names[0]].letters), to=present)
    return settings


def _require_one_list(ask: RosterAsk) -> None:
    """Raise if two lists of survivors could reach the threshold in one round.

    Every honest party opens a round for one list only; a colluding party opens it for both. So both
    are opened if `honest` + 2 * colluders provide 2 * threshold shares.
    """
    n_parties = len(ask.names)
    colluders = n_parties - ask.honest
    if 2 * ask.threshold <= n_parties + colluders:
        raise ProtocolError(
            f"With threshold={ask.threshold} a coordinator could have one round opened for two "
            f"lists of parties: {colluders} of {n_parties} parties may collude with it. The "
            f"threshold must be above {(n_parties + colluders) / 2:g}. Nothing was released."
        )


def _settings(ask: RosterAsk, *, needs_all: bool) -> SumSettings:
    roster = Roster(ask.names, tuple(key.public for key in ask.keys))
    least = (ask.threshold, ask.min_survivors)
    return SumSettings(ask.job, roster, ask.honest, *least, needs_all=needs_all)


def _signed(job: str, name: str, public: bytes) -> bytes:
    return digest("mask key", job, name, public)


def _about(recipient: str) -> bytes:
    return encode_parts("a secret of all parties", recipient)
