"""Shamir shares of the secrets behind masks, and the sealed letters that carry them.

Keys are made for an *epoch*, a run of rounds agreed in advance. For each round a party draws two
independent secrets of 32 bytes from the operating system: a *self seed* and a *pair key*. It deals
Shamir shares of both to all parties of the roster, including itself. The coordinator carries them,
so one party's shares for another are in a letter sealed with ChaCha20-Poly1305 under a key that
only these two can derive from the roster. A letter opens only for the job, roster, thresholds,
epoch, rounds, sender and recipient that it was sealed for. So a coordinator cannot read it, replace
it, or pass off its own key as a party's.

Two parties mask with a *pair secret* of the round: a part of a stream whose key they derive from
the agreement of their roster keys, for this epoch alone. So a round needs no key agreement of its
own. For the case that it drops out, each party publishes its pair secrets of a round sealed under
its pair key of that round: whoever recovers the key opens them, and nothing of any other round. The
coordinator compares them with checks from the parties that answer.

A party forgets a round's secrets when a later one begins. That does not protect them from a thief
of its roster key who also has the messages of the epoch; see `masking`.

Shares leave a party only through `EpochKeys.reveal`: for each party and round the share of the self
seed or the share of the pair key, never both, because a round has one list of survivors. `masking`
explains why that is enough.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from spinney.errors import ProtocolError
from spinney.privacy import keys
from spinney.privacy.entropy import secret_bytes
from spinney.privacy.keys import (
    KEY_BYTES,
    KeyPair,
    KeysAsk,
    KeysReply,
    Roster,
    SharesAsk,
    SharesReply,
    SumSettings,
    Words,
)
from spinney.privacy.letters import LetterBox, letter_bytes
from spinney.privacy.pair_masks import MaskKey
from spinney.privacy.streams import add_stream

PRIME = 2**256 + 297  # the smallest prime above every 32-byte secret
SHARE_BYTES = 33
MAX_EPOCH_ROUNDS = 4096  # the most that a coordinator can make a party hold in memory

Revealed = tuple[bytes, ...]  # one per party of the epoch, in the roster's order
Secrets = Mapping[str, bytes]  # what a party and each other can compute, by the other's name

_WIDE_BYTES = 48  # reduced modulo PRIME, these are uniform up to 2^-127
_SECRETS = 1 << 256  # how many secrets there are
_BOTH_SHARES = struct.Struct(f"{SHARE_BYTES}s{SHARE_BYTES}s")  # of the self seed, of the pair key
_SEAL_BYTES = 16
_ONLY_NONCE = bytes(12)  # a pair key seals once


def agree_with_all(key: KeyPair, roster: Roster) -> Secrets:
    """Return what the owner of a key shares with each party of a roster, itself included."""
    pairs = zip(roster.names, roster.public_keys, strict=True)
    return {name: key.shared_with(public) for name, public in pairs}


def deal_shares(secret: bytes, *, threshold: int, n_parties: int) -> list[bytes]:
    """Return one share of a 32-byte secret per party; any `threshold` of them recover it.

    Fewer shares reveal nothing about it (Shamir 1979).
    """
    wide = secret_bytes(_WIDE_BYTES * (threshold - 1))
    rest = (wide[i : i + _WIDE_BYTES] for i in range(0, len(wide), _WIDE_BYTES))
    coefficients = [int.from_bytes(piece, "little") % PRIME for piece in rest]
    shares = []
    for point in range(1, n_parties + 1):
        value = 0
        for coefficient in coefficients:
            value = (value + coefficient) * point % PRIME
        value = (value + int.from_bytes(secret, "little")) % PRIME
        shares.append(value.to_bytes(SHARE_BYTES, "little"))
    return shares


def weights(positions: Sequence[int]) -> list[int]:
    """Return the Lagrange weights at zero for the shares of the parties at these positions."""
    points = [position + 1 for position in positions]
    result = []
    for own in points:
        top, bottom = 1, 1
        for other in points:
            if other != own:
                top = top * other % PRIME
                bottom = bottom * (other - own) % PRIME
        result.append(top * pow(bottom, -1, PRIME) % PRIME)
    return result


def recover_secret(weight_of_share: Iterable[int], shares: Iterable[bytes]) -> bytes:
    """Return the secret behind the shares; meaningless if they do not belong to one secret."""
    terms = zip(weight_of_share, shares, strict=True)
    value = sum(weight * int.from_bytes(share, "little") for weight, share in terms) % PRIME
    # Correct shares give less than 2^256; the caller's check refuses the result of wrong ones.
    return (value % _SECRETS).to_bytes(KEY_BYTES, "little")


def check_pieces(sender: str, pieces: Sequence[bytes], *, number: int, length: int) -> None:
    """Raise if parts of a message are missing, too many, truncated or padded."""
    if len(pieces) != number or any(len(piece) != length for piece in pieces):
        raise ProtocolError(
            f"A message from party {sender!r} is truncated or padded: it must have {number} "
            f"parts of {length} bytes."
        )


@dataclass(slots=True)
class _RoundKeys:
    """What a party holds for one round."""

    self_seed: bytes = field(repr=False)
    pair_key: bytes = field(repr=False)
    pair_with: dict[str, bytes] = field(default_factory=dict, repr=False)  # the pair secrets
    shares_from: dict[str, tuple[bytes, bytes]] = field(default_factory=dict, repr=False)
    masked: bytes | None = None  # fingerprint of the only vector that the round's masks hide
    survivors: frozenset[str] | None = None  # the only list that the round was opened for


class _Epoch:
    """What both sides know about an epoch."""

    def __init__(self, settings: SumSettings, ask: KeysAsk) -> None:
        self.ask = ask
        self._settings = settings
        self._agreed = settings.agreed()
        self._letter_bytes = letter_bytes(ask.n_rounds * _BOTH_SHARES.size)
        self._sealed_bytes = KEY_BYTES * len(settings.roster) + _SEAL_BYTES  # of one round

    def _of_round(self, published: bytes, number: int, length: int = KEY_BYTES) -> bytes:
        """Return one round's part of what a party published for all rounds of the epoch."""
        start = (number - self.ask.first_round) * length
        return published[start : start + length]

    def _seal(self, pair_key: bytes, number: int, name: str) -> ChaCha20Poly1305:
        """Return what seals a party's pair secrets of a round."""
        key = keys.derive_key(
            pair_key, "pair secrets", job=self._agreed, round_number=number, names=(name,)
        )
        return ChaCha20Poly1305(key)


class EpochKeys(_Epoch):
    """A party's secrets of an epoch and its shares of the others' secrets."""

    def __init__(self, settings: SumSettings, name: str, secrets: Secrets, ask: KeysAsk) -> None:
        if not 1 <= ask.n_rounds <= MAX_EPOCH_ROUNDS:
            raise ProtocolError(
                f"An epoch must have between 1 and {MAX_EPOCH_ROUNDS} rounds; got {ask.n_rounds}."
            )
        super().__init__(settings, ask)
        self._name = name
        self._secrets = secrets
        self._taken: SharesAsk | None = None
        rounds = range(ask.first_round, ask.first_round + ask.n_rounds)
        self._rounds = {
            r: _RoundKeys(secret_bytes(KEY_BYTES), secret_bytes(KEY_BYTES)) for r in rounds
        }
        for other in settings.roster.names:
            if other != name:
                drawn = self._draw_pair_secrets(other)
                for number, held in self._rounds.items():
                    held.pair_with[other] = self._of_round(drawn, number)
        self.reply = self._dealt()

    def _draw_pair_secrets(self, other: str) -> bytes:
        """Return the pair secrets with another party, of all rounds of the epoch."""
        key = keys.derive_key(
            self._secrets[other],
            "pair secrets of an epoch",
            job=keys.digest(self._agreed, self.ask.epoch, self.ask.n_rounds),
            round_number=self.ask.first_round,
            names=(self._name, other),
        )
        words = np.zeros(self.ask.n_rounds * KEY_BYTES // 8, "<u8")
        add_stream([words], key)
        return words.tobytes()

    def _dealt(self) -> KeysReply:
        """Deal shares of this epoch's secrets."""
        roster = self._settings.roster
        contents = [bytearray() for _ in roster.names]
        sealed, checks = bytearray(), bytearray()
        for number, held in self._rounds.items():
            pairs = b"".join(held.pair_with.get(name, bytes(KEY_BYTES)) for name in roster.names)
            seal = self._seal(held.pair_key, number, self._name)
            sealed += seal.encrypt(_ONLY_NONCE, pairs, None)
            checks += keys.self_check(held.self_seed, self._agreed, number, self._name)
            for secret in (held.self_seed, held.pair_key):
                shares = deal_shares(
                    secret, threshold=self._settings.threshold, n_parties=len(roster)
                )
                for content, share in zip(contents, shares, strict=True):
                    content.extend(share)
        letters = tuple(
            self._letters(name).seal(bytes(content), self._about(self._name, name))
            for name, content in zip(roster.names, contents, strict=True)
        )
        head = (self.ask.job, self.ask.epoch, self._name, roster.public_key(self._name))
        return KeysReply(*head, bytes(sealed), bytes(checks), letters)

    def _letters(self, other: str) -> LetterBox:
        about = ("letter", self._agreed, self.ask.first_round, (self._name, other))
        return LetterBox(self._secrets[other], *about)

    def _about(self, sender: str, recipient: str) -> bytes:
        ask = self.ask
        epoch = (ask.epoch, ask.first_round, ask.n_rounds)
        return keys.encode_parts(self._agreed, *epoch, sender, recipient)

    def take(self, ask: SharesAsk) -> SharesReply:
        """Open the letters to this party; an epoch takes only one set of letters."""
        if self._taken is None:
            self._check_senders(ask)
            letters = zip(ask.senders, ask.letters, strict=True)
            opened = {sender: self._opened(sender, letter) for sender, letter in letters}
            for sender, content in opened.items():
                pairs = _BOTH_SHARES.iter_unpack(content)
                for held, pair in zip(self._rounds.values(), pairs, strict=True):
                    held.shares_from[sender] = pair
            self._taken = ask
        if self._taken != ask:
            raise ProtocolError(f"Epoch {ask.epoch} already has other shares.")
        return SharesReply(ask.job, ask.epoch, self._name)

    def _check_senders(self, ask: SharesAsk) -> None:
        positions = [self._settings.roster.position(sender) for sender in ask.senders]
        check_pieces(self._name, ask.letters, number=len(positions), length=self._letter_bytes)
        if positions != sorted(set(positions)) or self._name not in ask.senders:
            raise ProtocolError(
                f"The senders of shares must be named once, sorted, with {self._name!r} among them."
            )
        if len(positions) < self._settings.min_survivors:
            raise ProtocolError(
                f"Epoch {ask.epoch} has {len(positions)} parties; "
                f"{self._settings.min_survivors} are needed."
            )

    def _opened(self, sender: str, letter: bytes) -> bytes:
        content = self._letters(sender).open(letter, self._about(sender, self._name))
        if content is None:
            raise ProtocolError(
                f"The shares from party {sender!r} cannot be opened: they were changed, or sealed "
                f"with another key, or for another party than {self._name!r}, another epoch or "
                "other settings. Compare the rosters, then agree on a new epoch."
            )
        return content

    @property
    def participants(self) -> tuple[str, ...]:
        """The parties of this epoch; empty before the shares arrive."""
        return self._taken.senders if self._taken else ()

    def mask_keys(self, number: int, history: bytes, vectors: Sequence[Words]) -> list[MaskKey]:
        """Return the keys of this party's masks in a round, and forget all earlier rounds.

        The keys serve one vector and one history: two vectors under one mask reveal their
        difference.
        """
        held = self._held(number)
        own, seed = self._name, held.self_seed
        key = keys.derive_key(
            seed, "fingerprint", job=self._agreed, round_number=number, names=(own,)
        )
        seen = keys.fingerprint(key, history, vectors)
        if held.masked not in (None, seen):
            raise ProtocolError(
                f"Round {number} already masks another vector. A mask hides one vector; ask for "
                "a new round."
            )
        held.masked = seen
        self._rounds = {r: kept for r, kept in self._rounds.items() if r >= number}
        masks: list[MaskKey] = [(keys.self_mask_key(seed, self._agreed, number, own), False)]
        told = keys.digest(self._agreed, history)
        for other in self.participants:
            if other != own:
                mask = keys.pair_mask_key(held.pair_with[other], told, number, (own, other))
                masks.append((mask, own > other))
        return masks

    def reveal(self, number: int, survivors: frozenset[str]) -> Revealed:
        """Return a share per party of the epoch: of a survivor's self seed or a lost one's key.

        A round is opened for one list of survivors: a second, different list would add the other
        share of some party to the first, and both together remove its mask.
        """
        held = self._held(number)
        if held.masked is None:
            raise ProtocolError(f"Party {self._name!r} sent no vector in round {number}.")
        if held.survivors not in (None, survivors):
            raise ProtocolError(
                f"Round {number} was opened for another list of survivors. A party reveals one "
                "share of each party, never both."
            )
        held.survivors = survivors
        return tuple(
            held.shares_from[name][0 if name in survivors else 1] for name in self.participants
        )

    def pair_checks(self, number: int, survivors: frozenset[str]) -> bytes:
        """Return for each lost party of the epoch a check of the pair secret with it."""
        held, own = self._held(number), self._name
        return b"".join(
            keys.pair_check(held.pair_with[name], self._agreed, number, (own, name))
            for name in self.participants
            if name not in survivors
        )

    def _held(self, number: int) -> _RoundKeys:
        if self._taken is None:
            raise ProtocolError(f"Epoch {self.ask.epoch} has no shares yet; send them first.")
        if number not in self._rounds:
            raise ProtocolError(
                f"Round {number} is over, or epoch {self.ask.epoch} has no keys for it."
            )
        return self._rounds[number]


class EpochBook(_Epoch):
    """What the coordinator knows about an epoch: sealed secrets, and letters it cannot open."""

    def __init__(self, settings: SumSettings, ask: KeysAsk) -> None:
        super().__init__(settings, ask)
        self._replies: dict[str, KeysReply] = {}

    @property
    def participants(self) -> tuple[str, ...]:
        """The parties that sent keys, sorted."""
        return tuple(sorted(self._replies))

    def add(self, reply: KeysReply) -> None:
        """Add a party's keys; raise for a stranger, or for an incomplete message."""
        roster, n_rounds = self._settings.roster, self.ask.n_rounds
        roster.check(reply.sender, reply.public_key)
        for published, length in (
            (reply.sealed_pairs, self._sealed_bytes),
            (reply.self_checks, KEY_BYTES),
        ):
            check_pieces(reply.sender, (published,), number=1, length=length * n_rounds)
        check_pieces(reply.sender, reply.letters, number=len(roster), length=self._letter_bytes)
        self._replies[reply.sender] = reply

    def asks(self) -> dict[str, SharesAsk]:
        """Return the letters to each party."""
        replies = [self._replies[name] for name in self.participants]
        head = (self.ask.job, self.ask.epoch, self.participants)
        position_of = {name: self._settings.roster.position(name) for name in self.participants}
        return {
            name: SharesAsk(*head, tuple(reply.letters[position] for reply in replies))
            for name, position in position_of.items()
        }

    def masks_left(
        self,
        number: int,
        history: bytes,
        survivors: Sequence[str],
        shares: Mapping[str, Revealed],
        checks: Mapping[str, bytes],
    ) -> list[MaskKey]:
        """Return the keys of the masks that remain in the sum over the survivors.

        Every recovered secret is checked: a self seed against the value that its owner published,
        a pair key by the seal that it opens, and what was sealed against the others' `checks`.
        """
        helpers = sorted(shares)[: self._settings.threshold]
        weight_of_share = weights([self._settings.roster.position(name) for name in helpers])
        told = keys.digest(self._agreed, history)
        masks: list[MaskKey] = []
        for place, name in enumerate(self.participants):
            secret = recover_secret(weight_of_share, [shares[helper][place] for helper in helpers])
            if name in survivors:
                right = self._of_round(self._replies[name].self_checks, number)
                fits = keys.self_check(secret, self._agreed, number, name) == right
                masks.append((keys.self_mask_key(secret, self._agreed, number, name), False))
            else:
                pairs = self._unsealed(name, secret, number)
                fits = bool(pairs)
                if fits:
                    self._require_shared(name, pairs, number, survivors, checks)
                for other in survivors if fits else ():
                    key = keys.pair_mask_key(pairs[other], told, number, (name, other))
                    masks.append((key, other > name))
            if not fits:
                raise ProtocolError(
                    f"The shares of party {name!r} in round {number} do not fit together; one of "
                    f"those from {', '.join(helpers)} is wrong."
                )
        return masks

    def _require_shared(
        self,
        name: str,
        pairs: Secrets,
        number: int,
        survivors: Sequence[str],
        checks: Mapping[str, bytes],
    ) -> None:
        """Raise if a lost party sealed other secrets than it shares with those that answered.

        A sum without it would be noise, and nobody would look for the reason at a party that is not
        in it.
        """
        lost = [other for other in self.participants if other not in survivors]
        start = lost.index(name) * KEY_BYTES
        for other, told in checks.items():
            right = keys.pair_check(pairs[other], self._agreed, number, (name, other))
            if told[start : start + KEY_BYTES] != right:
                raise ProtocolError(
                    f"Parties {name!r} and {other!r} name different secrets for their mask in "
                    f"round {number}; one of them is wrong. There is no sum."
                )

    def _unsealed(self, name: str, pair_key: bytes, number: int) -> Secrets:
        """Return a party's pair secrets of a round; none if the key is not the one it dealt."""
        sealed = self._of_round(self._replies[name].sealed_pairs, number, self._sealed_bytes)
        try:
            pairs = self._seal(pair_key, number, name).decrypt(_ONLY_NONCE, sealed, None)
        except InvalidTag:
            return {}
        starts = range(0, len(pairs), KEY_BYTES)
        found = (pairs[start : start + KEY_BYTES] for start in starts)
        return dict(zip(self._settings.roster.names, found, strict=True))
