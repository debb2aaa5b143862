"""Secure aggregation: the coordinator learns the sum of the parties' vectors, not a single vector.

This is double masking after Bonawitz et al. (2017), for honest-but-curious parties, with fresh
secrets in every round. Of K parties, at most K - t drop out or collude with the coordinator;
tau > K - t parties can open a secret (`SumSettings`). Once per epoch (a run of rounds; see
`sharing`) each party deals shares of two secrets per round, a self seed b and a pair key k. Then:

1. `MaskAsk`: party i sends y_i = x_i + PRG(b_i) + sum_{j>i} PRG(s_ij) - sum_{j<i} PRG(s_ij), with
   s_ij a secret of i and j for this round, modulo 2^32 or 2^64 per array. Each of the two has
   published s_ij sealed under its k (`sharing`).
2. `UnmaskAsk`: the coordinator fixes the list U of parties whose vectors it has. Each of them
   sends, for every party of the epoch, its share of b if that party is in U, of k if it is not, and
   then a check of their s.
3. With tau answers the coordinator recovers b_i for U and k_j for the dropped parties, which opens
   their s_ij, and with them the masks that did not cancel in the sum of y over U. So parties of U
   may drop out between 1 and 2.

**Who learns what.** The coordinator: the sum over U, who is in U, sizes. The parties: who is in U.
The coordinator and K - t colluders never learn more about an honest party's vector than that sum.
*Why*: an honest party opens a round for only one list, so they see fewer than tau shares of the
other secret of each honest party, which reveal nothing. If i and j are honest and in U, k_i and k_j
stay secret, and with them s_ij: such masks hide everything except the sum. If i is not in
U, b_i stays secret and hides y_i, however late it arrives. Secrets of different rounds are
independent: a loss in one opens no other, and a dropped party may be in the next round without new
keys. Below `min_survivors` no party reveals a share; with fewer than tau answers there is no sum.
With two parties, each learns the other's vector once the sum is published; only noise helps there.

**Lies about U.** A coordinator that sends parties different lists gets both secrets of a party only
if two groups of honest parties, each with the colluders, reach tau: never if 2 tau > K + (K - t).
Set `threshold` accordingly if it may lie. In any case the masks of two parties depend on all lists
they were sent: after such a lie the vectors of the two groups cannot be summed together again in
this job. They also depend on what the round is about and on the layout of its vectors: parties that
are asked different things in one round have masks that do not cancel.

**If no party may be missing** (`SumSettings.needs_all`), b_i is left out, and so are 2 and 3: the
other masks cancel in the sum of y over all parties, and a sum without an honest party keeps its
masks with the other honest ones. There is one list U, no secret is shared out or sealed, and a
vector that arrives late, or never, opens nothing. Each round takes one ask instead of two, and
epochs none: s_ij follows from the keys on the roster alone (`pair_masks`).

**Not covered.** A party that sends wrong numbers, or, before it drops out, seals a wrong s_ij for
an i of U that does not answer 2: the sum is then wrong. A vector that the caller masks again in
another round: two sums over different survivors differ by a party's vector, so a question whose
round was opened must not be asked again. Stolen private keys: one opens its party's recorded
vectors of all rounds, if some may be missing with the letters that it sealed; so use a fresh
`KeyPair` per job, and do not store it. Timing of big-integer arithmetic. Sums beyond the ring:
vectors are reduced without a check, because a refusal would depend on the data; a ring must exceed
twice the largest absolute sum, noise included.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from threading import Lock

import numpy as np

from spinney.errors import PartyLostError, ProtocolError
from spinney.privacy.keys import (
    KEY_BYTES,
    Counters,
    KeyPair,
    KeysAsk,
    KeysReply,
    SharesAsk,
    SharesReply,
    SumSettings,
    Words,
    digest,
    name_of,
)
from spinney.privacy.pair_masks import MaskKey, PairMasks
from spinney.privacy.sharing import (
    SHARE_BYTES,
    EpochBook,
    EpochKeys,
    Revealed,
    Secrets,
    agree_with_all,
    check_pieces,
)
from spinney.privacy.streams import add_streams, ring_words

EPOCH_ROUNDS = 32  # 17 kB of keys and shares per party for five parties


@dataclass(frozen=True, slots=True)
class MaskAsk:
    """Send your vector of this round, masked."""

    job: str
    epoch: int  # 0 if no party may be missing; then there is no history either
    round_number: int
    history: tuple[int, ...]  # survivors of each earlier round as bits by position; 0: not opened


@dataclass(frozen=True, slots=True, eq=False)
class MaskReply:
    """One party's masked vector; the coordinator sees uniform numbers."""

    job: str
    epoch: int
    round_number: int
    sender: str
    vectors: tuple[Words, ...]


@dataclass(frozen=True, slots=True)
class UnmaskAsk:
    """Reveal one share per party: of a survivor's self seed, or of a dropped party's pair key."""

    job: str
    epoch: int
    round_number: int
    survivors: tuple[str, ...]
    dropped: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnmaskReply:
    """One share per party of the epoch, in the roster's order."""

    job: str
    epoch: int
    round_number: int
    sender: str
    shares: tuple[bytes, ...]
    pair_checks: bytes  # 32 bytes per dropped party: detects a wrongly sealed pair secret


class SecureSumParty:
    """A party's side: it answers four kinds of asks, and gives the same ask the same reply."""

    def __init__(self, settings: SumSettings, name: str, key: KeyPair) -> None:
        settings.roster.check(name, key.public)
        self._settings = settings
        self._name = name
        self._key = key
        self._secrets: Secrets = {}  # of the job, with each party
        self._keys: EpochKeys | None = None
        self._last_round = 0
        self._opened: dict[int, int] = {}  # round -> the survivors it was opened for
        self._history: tuple[int, ...] = ()  # of earlier rounds, as they were told and compared
        self._pairs = PairMasks(settings, name, key) if settings.needs_all else None
        self._lock = Lock()  # "one list per round" must also hold for simultaneous asks

    @property
    def settings(self) -> SumSettings:
        """The settings that the parties agreed on."""
        return self._settings

    def make_keys(self, ask: KeysAsk) -> KeysReply:
        """Make keys for an epoch; the secrets of the previous one are forgotten."""
        with self._lock:
            _check_job(ask.job, self._settings)
            self._require_epochs()
            if self._keys is None or ask.epoch > self._keys.ask.epoch:
                if ask.first_round <= self._last_round:
                    raise ProtocolError(
                        f"New keys must be for rounds above {self._last_round}; got "
                        f"{ask.first_round} as the first."
                    )
                self._secrets = self._secrets or agree_with_all(self._key, self._settings.roster)
                self._keys = EpochKeys(self._settings, self._name, self._secrets, ask)
            if ask != self._keys.ask:
                raise ProtocolError(
                    f"Epoch {ask.epoch} is over, or was begun for other rounds. A new epoch needs "
                    f"a number above {self._keys.ask.epoch}."
                )
            return self._keys.reply

    def take_shares(self, ask: SharesAsk) -> SharesReply:
        """Open the letters from the parties of the epoch."""
        with self._lock:
            _check_job(ask.job, self._settings)
            self._require_epochs()
            return self._epoch(ask).take(ask)

    def _require_epochs(self) -> None:
        if self._pairs is not None:
            raise ProtocolError(
                "The sums of this job need all parties, whose keys are on the roster. Nothing "
                "was revealed."
            )

    def mask(
        self,
        ask: MaskAsk,
        vectors: Sequence[Counters],
        bits: Sequence[int],
        *,
        about: bytes = b"",
        taken: bool = False,
    ) -> MaskReply:
        """Return the vectors, each masked modulo two to the power of its `bits` (32 or 64).

        The same vectors in the same round give the same bytes; other vectors are refused. Vectors
        that are `taken` are masked in place. `about` says what the round is about: masks of parties
        that answer different things do not cancel.
        """
        words = ring_words(vectors, bits, copy=not taken)
        agreed = _told(ask.history, about, words)
        with self._lock:
            masks = self._mask_keys(ask, agreed, words)
            self._last_round = ask.round_number
        add_streams(words, masks)
        return MaskReply(ask.job, ask.epoch, ask.round_number, self._name, words)

    def _mask_keys(self, ask: MaskAsk, agreed: bytes, words: Sequence[Words]) -> list[MaskKey]:
        if self._pairs is None:
            keys = self._epoch(ask)
            self._check_history(ask)
            return keys.mask_keys(ask.round_number, agreed, words)
        _check_job(ask.job, self._settings)
        if ask.epoch or ask.history:
            raise ProtocolError(
                f"The sums of this job need all parties: a round has no epoch, and no lists of "
                f"parties before it. Nothing was revealed in round {ask.round_number}."
            )
        return self._pairs.keys(ask.round_number, agreed, words)

    def _check_history(self, ask: MaskAsk) -> None:
        """Raise unless the survivors named for earlier rounds are those they were opened for."""
        told, known = ask.history, self._history
        first = len(known) if told[: len(known)] == known else 0
        rounds = range(first + 1, len(told) + 1)  # those before were compared in an earlier round
        if len(told) != ask.round_number - 1 or any(
            self._opened.get(number, told[number - 1]) != told[number - 1] for number in rounds
        ):
            raise ProtocolError(
                f"The survivors named for the rounds before {ask.round_number} are not those "
                f"that party {self._name!r} opened them for."
            )
        self._history = told

    def unmask(self, ask: UnmaskAsk) -> UnmaskReply:
        """Return this party's shares for the round's one list of survivors."""
        with self._lock:
            if self._settings.needs_all:
                raise ProtocolError(
                    f"Round {ask.round_number}: the sums of this job need all parties, so there is "
                    "nothing to unmask. Nothing was revealed."
                )
            keys = self._epoch(ask)
            self._check_lists(ask, keys.participants)
            survivors = frozenset(ask.survivors)
            shares = keys.reveal(ask.round_number, survivors)
            checks = keys.pair_checks(ask.round_number, survivors)
            self._opened[ask.round_number] = self._settings.roster.bits(ask.survivors)
            self._history = self._history[: ask.round_number - 1]
        return UnmaskReply(ask.job, ask.epoch, ask.round_number, self._name, shares, checks)

    def _epoch(self, ask: SharesAsk | MaskAsk | UnmaskAsk) -> EpochKeys:
        _check_job(ask.job, self._settings)
        if self._keys is None or self._keys.ask.epoch != ask.epoch:
            raise ProtocolError(
                f"Party {self._name!r} has no keys of epoch {ask.epoch}. Begin a new epoch."
            )
        return self._keys

    def _check_lists(self, ask: UnmaskAsk, participants: tuple[str, ...]) -> None:
        least = self._settings.min_survivors
        if both := sorted(set(ask.survivors) & set(ask.dropped)):
            problem = f"both shares of party {both[0]!r} were asked for; a party reveals one"
        elif tuple(sorted(ask.survivors + ask.dropped)) != participants:
            problem = "survivors and dropped must name each party of the epoch once"
        elif self._name not in ask.survivors:
            problem = f"party {self._name!r} is not among the survivors"
        elif len(ask.survivors) < least:
            problem = f"there are {len(ask.survivors)} survivors; at least {least} are needed"
        else:
            return
        raise ProtocolError(f"Round {ask.round_number}: {problem}. Nothing was revealed.")


def _told(history: Sequence[int], about: bytes, words: Sequence[Words]) -> bytes:
    """Return a digest of all that parties must agree on for their masks to cancel.

    Without the layout, a shorter vector would be masked by the beginning of a longer one's mask.
    """
    layout = tuple(part for word in words for part in (name_of(word.dtype), word.size))
    return _told_once(tuple(history), about, layout)


@lru_cache(maxsize=4)  # parties in one process are told the same
def _told_once(history: tuple[int, ...], about: bytes, layout: tuple[str | int, ...]) -> bytes:
    # A job may have many hundred rounds, and every sum names all before it.
    return digest(" ".join(map(str, history)), about, *layout)


class _Phase(StrEnum):
    IDLE = "a new epoch or round"
    KEYS = "keys"
    VECTORS = "vectors"
    SHARES = "shares"


class SecureSumCoordinator:
    """The coordinator's side, for one thread: begin an epoch, then rounds; add replies.

    A refused reply changes nothing. A party whose reply is missing when the next step begins counts
    as dropped: from the epoch if keys are missing, from the round if vectors are.
    """

    def __init__(self, settings: SumSettings) -> None:
        self._settings = settings
        self._phase = _Phase.IDLE
        self._book = EpochBook(settings, KeysAsk(settings.job, 0, 1, 0))
        self._history: list[int] = []  # as in `MaskAsk`, including the current round
        self._senders: list[str] = []
        self._sums: tuple[Words, ...] = ()
        self._shares: dict[str, Revealed] = {}
        self._checks: dict[str, bytes] = {}  # of pair secrets with dropped parties
        self._about = b""  # what the current round is about

    @property
    def participants(self) -> tuple[str, ...]:
        """The parties of this epoch, sorted."""
        if self._settings.needs_all:
            return self._settings.roster.names
        return self._book.participants

    @property
    def rounds_left(self) -> int:
        """How many more rounds the keys of this epoch last; of a roster, they last for all."""
        if self._settings.needs_all:
            return EPOCH_ROUNDS
        ask = self._book.ask
        return ask.first_round + ask.n_rounds - 1 - len(self._history)

    def begin_epoch(self, n_rounds: int = EPOCH_ROUNDS) -> KeysAsk:
        """Return the ask for keys, to all parties; an unfinished round is abandoned."""
        epoch, first = self._book.ask.epoch + 1, len(self._history) + 1
        ask = KeysAsk(self._settings.job, epoch, first, n_rounds)
        self._book = EpochBook(self._settings, ask)
        self._senders, self._sums, self._shares, self._checks = [], (), {}, {}
        self._phase = _Phase.KEYS
        return ask

    def add_keys(self, reply: KeysReply) -> None:
        """Add a party's keys and letters."""
        self._check(reply, _Phase.KEYS, self._book.participants)
        self._book.add(reply)

    def end_keys(self) -> dict[str, SharesAsk]:
        """Return the letters for each party that sent keys."""
        self._expect(_Phase.KEYS)
        self._need(self._settings.min_survivors, self.participants, _Phase.KEYS)
        self._phase = _Phase.IDLE
        return self._book.asks()

    def begin_round(self, about: bytes = b"") -> MaskAsk:
        """Return the ask for vectors, to the epoch's parties; an unfinished round is abandoned."""
        self._about = about
        if self._phase is _Phase.KEYS or not self.rounds_left:
            raise ProtocolError(
                f"Epoch {self._book.ask.epoch} has no keys for another round. Begin a new epoch."
            )
        history = () if self._settings.needs_all else tuple(self._history)
        self._history.append(0)
        self._senders, self._sums, self._shares, self._checks = [], (), {}, {}
        self._phase = _Phase.VECTORS
        return MaskAsk(self._settings.job, self._book.ask.epoch, len(self._history), history)

    def add_vector(self, reply: MaskReply) -> None:
        """Add a party's masked vector to the sum."""
        self._check(reply, _Phase.VECTORS, self._senders)
        layout = [(vector.dtype, vector.shape) for vector in reply.vectors]
        unsigned = all(dtype in (np.uint32, np.uint64) for dtype, _ in layout)
        expected = [(total.dtype, total.shape) for total in self._sums] if self._senders else layout
        if not unsigned or layout != expected:
            raise ProtocolError(
                f"The vectors of party {reply.sender!r} in round {reply.round_number} must be "
                "uint32 or uint64, with the types and shapes that the first party sent."
            )
        if self._senders:
            for total, vector in zip(self._sums, reply.vectors, strict=True):
                np.add(total, vector, out=total)
        else:
            self._sums = tuple(vector.copy() for vector in reply.vectors)
        self._senders.append(reply.sender)

    def end_vectors(self) -> UnmaskAsk:
        """Fix the survivors and return their ask for shares; too few survivors end the round."""
        self._expect(_Phase.VECTORS)
        self._phase = _Phase.IDLE
        self._need(self._settings.min_survivors, self._senders, _Phase.VECTORS)
        self._phase = _Phase.SHARES
        self._senders.sort()
        self._history[-1] = self._settings.roster.bits(self._senders)
        dropped = tuple(name for name in self.participants if name not in self._senders)
        head = (self._settings.job, self._book.ask.epoch, len(self._history))
        return UnmaskAsk(*head, tuple(self._senders), dropped)

    def add_shares(self, reply: UnmaskReply) -> None:
        """Add a survivor's shares."""
        self._check(reply, _Phase.SHARES, self._shares)
        if reply.sender not in self._senders:
            raise ProtocolError(f"Party {reply.sender!r} is not a survivor of this round.")
        check_pieces(reply.sender, reply.shares, number=len(self.participants), length=SHARE_BYTES)
        lost = len(self.participants) - len(self._senders)
        check_pieces(reply.sender, (reply.pair_checks,), number=1, length=KEY_BYTES * lost)
        self._shares[reply.sender] = reply.shares
        self._checks[reply.sender] = reply.pair_checks

    def sums(self, *, signed: bool = True) -> tuple[Counters, ...]:
        """Return the sums over the survivors, centred around zero if `signed`.

        With fewer shares than `threshold` this raises; more shares may still be added afterwards.
        If all parties are needed, no mask is left in their sum, and no share is.
        """
        self._expect(_Phase.SHARES)
        if not self._settings.needs_all:
            self._take_masks_off()
        sums, self._sums = self._sums, ()
        self._phase = _Phase.IDLE
        return tuple(total.view(f"i{total.itemsize}") for total in sums) if signed else sums

    def _take_masks_off(self) -> None:
        self._need(self._settings.threshold, self._shares, _Phase.SHARES)
        history = _told(self._history[:-1], self._about, self._sums)
        masks = self._book.masks_left(
            len(self._history), history, self._senders, self._shares, self._checks
        )
        add_streams(self._sums, [(key, not subtracted) for key, subtracted in masks])

    def _expect(self, phase: _Phase) -> None:
        if self._phase is not phase:
            raise ProtocolError(
                f"Out of turn: job {self._settings.job!r} waits for {self._phase}, not {phase}."
            )

    def _check(
        self, reply: KeysReply | MaskReply | UnmaskReply, phase: _Phase, seen: Collection[str]
    ) -> None:
        """Raise for a reply from a stranger, for another job, epoch or round, or for a repeat."""
        self._settings.roster.position(reply.sender)
        _check_job(reply.job, self._settings)
        here = (self._book.ask.epoch, len(self._history))
        number = here[1] if isinstance(reply, KeysReply) else reply.round_number
        if (reply.epoch, number) != here:
            raise ProtocolError(
                f"Party {reply.sender!r} sent {phase} of epoch {reply.epoch}, round {number}, in "
                f"epoch {here[0]}, round {here[1]}: replayed, or too late."
            )
        self._expect(phase)
        if reply.sender in seen:
            raise ProtocolError(f"Party {reply.sender!r} already sent its {phase}: a replay.")
        if phase is not _Phase.KEYS and reply.sender not in self.participants:
            raise ProtocolError(f"Party {reply.sender!r} has no keys in epoch {here[0]}.")

    def _need(self, least: int, senders: Collection[str], what: _Phase) -> None:
        if len(senders) < least:
            lost = [name for name in self._settings.roster.names if name not in senders]
            raise PartyLostError(
                f"Only {len(senders)} parties sent {what} (round {len(self._history)}); "
                f"{least} are needed. Missing: {', '.join(lost)}. Nothing was unmasked."
            )


def _check_job(job: str, settings: SumSettings) -> None:
    if job != settings.job:
        raise ProtocolError(f"A message for job {job!r} came to job {settings.job!r}.")
