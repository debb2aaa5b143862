"""About how many ids stand at two parties: sketches with too much noise to ask about any one id.

An id adds +1 or -1 to one of `N_CELLS` cells; a public hash draws the cell and the sign. Every
party adds noise to every cell, and the sum over parties is told. Where a party's own ids look into
the others' cells, ids that the others do not have find +1 and -1 alike, and an id that another
party has finds its own sign: the sum over all own ids is about how many of them stand elsewhere.
That sum leaves with noise, too.

The noise of a cell counts 32 coins, so that its variance is 8. It follows from a secret of the
party and from its ids, and from nothing that anybody else can choose: a sketch of the same ids is
always the same, in any job, for any coordinator, and so is the answer about the same sums. Of
others, a party answers `MOST_ANSWERS`. One comparison moves what anybody may believe about one id
as much as one value of a normal distribution with noise does whose mean it moves by half a
deviation: a guess, of which a coin is right half the time, is right in at most 60 % of cases, and
after all answers in 71 %. This holds against all others together, masks or none, since every party
adds the whole noise.
"""

from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Protocol

import numpy as np

from spinney.privacy.streams import add_stream
from spinney.seeds import mix
from spinney.typing import Integers, Keys

N_CELLS: Final = 1 << 16
MOST_ANSWERS: Final = 5  # different ones, of a party's data, ever
_COINS: Final = 32  # in the noise of a cell
VARIANCE: Final = _COINS / 4
_SALT: Final = np.uint64(0x7E35_1D0C_0FF5_A11D)  # public; ids are hashed for other purposes, too
_CLIPPED_AT: Final = 1.5  # of the deviation of a cell
_MOST_CLIP: Final = 1000  # a cell beyond this is no sum of sketches


class Memory(Protocol):
    """What cannot be told twice: the ledger."""

    def settle(self, run: str, what: str, digest: str) -> str:
        """Record a digest under a name, once; return the first that was recorded."""
        ...


class NoMemory:
    """Remembers nothing: simulated parties may be asked as often as one likes."""

    def settle(self, run: str, what: str, digest: str) -> str:
        """Forget it."""
        del run, what
        return digest


@dataclass(frozen=True)
class Estimate:
    """About how many there are, and the standard deviation of that."""

    about: int
    error: int


class OwnIds:
    """The ids of one party.

    Parameters
    ----------
    ids
        Their hashes; repeats count once.
    secret
        What decides the noise; whoever knew it could take the noise off.
    memory
        What remembers the answers.
    data
        The name of the data in that memory.
    """

    def __init__(self, ids: Keys, secret: bytes, memory: Memory, data: str) -> None:
        self._ids = np.unique(ids)
        self._key = sha256(b"ids\0" + secret + self._ids.tobytes()).digest()
        self._memory = memory
        self._data = data

    def sketch(self) -> Integers | None:
        """Return the sketch with noise; None if too many others have left."""
        if not self._may_answer("sketch", self._key):
            return None
        cells, signs = _places(self._ids)
        exact = np.bincount(cells, weights=signs, minlength=N_CELLS).astype(np.int64)
        return exact + _count_coins(self._key, N_CELLS)

    def count_elsewhere(self, told: Integers, n_others: int) -> Estimate | None:
        """Return about how many of the ids stand at other parties, an id once for each of them.

        `told` is the sum of all sketches. None: too many others were asked about.
        """
        own = self.sketch()
        if own is None:
            return None
        rest = (told - own).astype(np.float64)
        power = float(np.mean(rest**2))
        clip = max(1, round(_CLIPPED_AT * power**0.5))
        n_ids = _two_digits(self._ids.size)
        most = n_ids * n_others
        if clip > _MOST_CLIP:  # somebody sent no sketch, and nothing can be told
            return Estimate(0, most)
        key = sha256(self._key + told.tobytes()).digest()
        if not self._may_answer("sum", key):
            return None
        cells, signs = _places(self._ids)
        seen = np.clip(rest, -clip, clip)
        noise = _count_coins(key, clip * clip).sum()  # `clip` times the deviation of one id
        found = float((signs * seen[cells]).sum() + noise)
        # How much of an id's own sign is still there after cells were clipped.
        kept = float(np.mean(np.clip(rest + 1, -clip, clip) - np.clip(rest - 1, -clip, clip))) / 2
        # Ids that meet in a cell by chance move the counts of both their parties alike.
        twice = max(0.0, power - VARIANCE * n_others) * kept**2
        variance = n_ids * (float(np.mean(seen**2)) + twice) + VARIANCE * clip * clip
        about = min(max(round(found / kept), -most), most)
        return Estimate(about, round(variance**0.5 / kept) + 1)

    def _may_answer(self, what: str, key: bytes) -> bool:
        """Return whether this is one of the first different answers; remember it if it is."""
        digest = sha256(b"answered\0" + key).hexdigest()
        names = (f"{what} {number}" for number in range(MOST_ANSWERS))
        return any(self._settled(name, digest) for name in names)

    def _settled(self, name: str, digest: str) -> bool:
        return self._memory.settle(f"ids of {self._data}", name, digest) == digest


def _places(ids: Keys) -> tuple[Integers, Integers]:
    """Return the cell and the sign of each id, the same at every party."""
    words = mix(ids ^ _SALT)
    cells = (words & np.uint64(N_CELLS - 1)).astype(np.int64)
    return cells, 1 - 2 * (words >> np.uint64(63)).astype(np.int64)


def _count_coins(key: bytes, size: int) -> Integers:
    """Return noise: of 32 coins each, how many more than half show heads."""
    words = np.zeros(size, np.uint32)
    add_stream([words], key)
    coins = np.unpackbits(words.view(np.uint8)).reshape(size, _COINS)
    noise: Integers = coins.sum(axis=1, dtype=np.int64) - _COINS // 2
    return noise


def _two_digits(number: int) -> int:
    """Return a number rounded up to two binary digits: an error tells no exact count."""
    if number < 2:
        return 2
    step = 1 << max(number.bit_length() - 2, 0)
    return -(-number // step) * step
