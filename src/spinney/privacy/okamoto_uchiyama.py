"""Okamoto-Uchiyama homomorphic encryption from sf-heu: the fast scheme.

sf-heu 0.5.2b0 is a pre-release; it is pinned exactly, and only this module uses it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from heu import numpy as heu_numpy
from heu import phe as heu_phe

from spinney.errors import ProtocolError
from spinney.privacy.homomorphic import (
    MARGIN_BITS,
    AdditiveHE,
    SecretHE,
    foreign_ciphertexts,
    in_range,
)

_SPARE_BITS = 3  # below the largest plaintext, which is signed
_FEW = 64  # up to this many ciphertexts, one call of a slower step beats many calls
_BYTES_OF_KEY = (600, 1400)  # a range: three numbers of 2048 or 3072 bits


class OkamotoUchiyamaAdding(AdditiveHE):
    """Adding under a public key."""

    def __init__(self, kit: Any) -> None:
        self.scheme = "okamoto-uchiyama"
        self._kit = kit
        self._evaluator = kit.evaluator()
        key = kit.public_key()
        self.public_key = bytes(key.serialize())
        self.room = int(key.plaintext_bound().bit_count()) - _SPARE_BITS - MARGIN_BITS

    @classmethod
    def of(cls, data: bytes) -> "OkamotoUchiyamaAdding":
        """Return the adding side of a public key."""
        if not _BYTES_OF_KEY[0] <= len(data) <= _BYTES_OF_KEY[1]:
            raise ProtocolError("This is not an Okamoto-Uchiyama key of 2048 or 3072 bits.")
        try:
            return cls(heu_numpy.setup(heu_phe.PublicKey.load_from(data)))
        except RuntimeError:
            raise ProtocolError(
                "This is not an Okamoto-Uchiyama key of 2048 or 3072 bits."
            ) from None

    def load(self, data: bytes, count: int) -> Any:
        """Return ciphertexts from bytes."""
        try:
            found = heu_numpy.CiphertextArray.load_from(data)
        except (RuntimeError, ValueError):
            raise foreign_ciphertexts() from None
        if found.size != count or found.ndim != 1:
            raise foreign_ciphertexts()
        return found

    def dump(self, ciphertexts: Any) -> bytes:
        """Return ciphertexts as bytes."""
        return bytes(ciphertexts.serialize())

    def sums(self, ciphertexts: Any, groups: Sequence[Sequence[int]]) -> Any:
        """Return the sum of each group."""
        return self._evaluator.batch_select_sum(ciphertexts, list(groups))

    def packed(self, ciphertexts: Any, n: int, width: int, per: int) -> Any:
        """Return numbers side by side, the first lowest."""
        begins = range(0, n, per)

        def column(place: int) -> Any:
            return ciphertexts[[begin + place for begin in begins]]

        total = column(per - 1)
        for place in range(per - 2, -1, -1):
            total = self._evaluator.add(self._shifted(total, width), column(place))
        return total

    def _shifted(self, ciphertexts: Any, width: int) -> Any:
        """Return the numbers times 2^width; for many numbers, doubling is faster."""
        if ciphertexts.size < _FEW:
            factor = self._kit.array(np.full(ciphertexts.size, 1 << width, dtype=object))
            return self._evaluator.mul(ciphertexts, factor)
        for _ in range(width):
            ciphertexts = self._evaluator.add(ciphertexts, ciphertexts)
        return ciphertexts

    def refreshed(self, ciphertexts: Any) -> Any:
        """Return the same numbers under fresh randomness."""
        zeros = self._encrypted(np.zeros(ciphertexts.size, np.int64))
        return self._evaluator.add(ciphertexts, zeros)

    def _encrypted(self, numbers: Any) -> Any:
        return self._kit.encryptor().encrypt(self._kit.array(numbers))


class OkamotoUchiyama(OkamotoUchiyamaAdding, SecretHE):
    """The side with the key."""

    def __init__(self, kit: Any) -> None:
        super().__init__(heu_numpy.HeKit(kit))
        self.secret_key = bytes(kit.secret_key().serialize())

    @classmethod
    def new(cls, key_bits: int) -> "OkamotoUchiyama":
        """Draw a key."""
        return cls(heu_phe.setup(heu_phe.SchemaType.OU, key_bits))

    @classmethod
    def of_keys(cls, public: bytes, secret: bytes) -> "OkamotoUchiyama":
        """Return the key from its stored bytes."""
        keys = heu_phe.PublicKey.load_from(public), heu_phe.SecretKey.load_from(secret)
        return cls(heu_phe.setup(*keys))

    def encrypt(self, numbers: Sequence[int]) -> Any:
        """Return the numbers' ciphertexts."""
        return self._encrypted(np.array(numbers, dtype=object))

    def decrypt(self, ciphertexts: Any, bits: int) -> list[int]:
        """Return the numbers; raise if one is out of range."""
        try:
            found = self._kit.decryptor().decrypt(ciphertexts)
        except RuntimeError:
            raise foreign_ciphertexts() from None
        return in_range([int(number) for number in found.to_numpy().tolist()], bits)
