"""Paillier homomorphic encryption with phe's keys and gmpy2's numbers: the portable scheme.

A ciphertext is a number modulo n squared, written in as many bytes as n squared has.
"""

from collections.abc import Sequence
from typing import Any

import gmpy2
import phe

from spinney.errors import ProtocolError
from spinney.privacy.entropy import secret_bytes
from spinney.privacy.homomorphic import (
    MARGIN_BITS,
    AdditiveHE,
    SecretHE,
    foreign_ciphertexts,
    in_range,
)

_SPARE_BITS = 2  # below the modulus
_KEY_BYTES = (256, 384)  # 2048 and 3072 bits


class Paillier(AdditiveHE):
    """Adding under a public key."""

    def __init__(self, n: int) -> None:
        self.scheme = "paillier"
        self._n = gmpy2.mpz(n)
        self._square = self._n * self._n
        self._length = (self._square.bit_length() + 7) // 8
        self.room = self._n.bit_length() - _SPARE_BITS - MARGIN_BITS
        self.public_key = int(n).to_bytes((int(n).bit_length() + 7) // 8, "big")

    @classmethod
    def of(cls, data: bytes) -> "Paillier":
        """Return the adding side of a public key."""
        n = int.from_bytes(data, "big")
        if len(data) not in _KEY_BYTES or n.bit_length() != 8 * len(data) or n % 2 == 0:
            raise ProtocolError("This is not a Paillier key of 2048 or 3072 bits.")
        return cls(n)

    def load(self, data: bytes, count: int) -> list[Any]:
        """Return ciphertexts from bytes."""
        if len(data) != count * self._length:
            raise foreign_ciphertexts()
        found = [
            gmpy2.mpz.from_bytes(data[at : at + self._length], "big")
            for at in range(0, len(data), self._length)
        ]
        if any(not 0 < number < self._square for number in found):
            raise foreign_ciphertexts()
        return found

    def dump(self, ciphertexts: list[Any]) -> bytes:
        """Return ciphertexts as bytes."""
        return b"".join(int(number).to_bytes(self._length, "big") for number in ciphertexts)

    def sums(self, ciphertexts: list[Any], groups: Sequence[Sequence[int]]) -> list[Any]:
        """Return the sum of each group."""
        square, found = self._square, []
        for group in groups:
            total = ciphertexts[group[0]]
            for place in group[1:]:
                total = total * ciphertexts[place] % square
            found.append(total)
        return found

    def packed(self, ciphertexts: list[Any], n: int, width: int, per: int) -> list[Any]:
        """Return numbers side by side, the first lowest."""
        shift, square, found = gmpy2.mpz(1) << width, self._square, []
        for begin in range(0, n, per):
            total = gmpy2.mpz(1)
            for number in reversed(ciphertexts[begin : begin + per]):
                total = gmpy2.powmod(total, shift, square) * number % square
            found.append(total)
        return found

    def refreshed(self, ciphertexts: list[Any]) -> list[Any]:
        """Return the same numbers under fresh randomness."""
        return [number * self._noise() % self._square for number in ciphertexts]

    def _random(self) -> Any:
        """Return a random number below n; a common factor with n never happens in practice."""
        length = len(self.public_key)
        while True:
            drawn = gmpy2.mpz.from_bytes(secret_bytes(length), "big")
            if 0 < drawn < self._n:
                return drawn

    def _noise(self) -> Any:
        """Return a random encryption of zero."""
        return gmpy2.powmod(self._random(), self._n, self._square)


class PaillierKey(Paillier, SecretHE):
    """The side with the key; it uses the factors of n to encrypt four times as fast."""

    def __init__(self, p: int, q: int) -> None:
        super().__init__(p * q)
        self._p, self._q = gmpy2.mpz(p), gmpy2.mpz(q)
        self._p2, self._q2 = self._p**2, self._q**2
        self._q2_inverse = gmpy2.invert(self._q2, self._p2)
        self._key = phe.PaillierPrivateKey(phe.PaillierPublicKey(int(self._n)), p, q)
        half = (max(int(p), int(q)).bit_length() + 7) // 8
        self.secret_key = int(p).to_bytes(half, "big") + int(q).to_bytes(half, "big")

    @classmethod
    def new(cls, key_bits: int) -> "PaillierKey":
        """Draw a key."""
        _, secret = phe.generate_paillier_keypair(n_length=key_bits)
        return cls(int(secret.p), int(secret.q))

    @classmethod
    def of_secret(cls, data: bytes) -> "PaillierKey":
        """Return the key from its stored bytes."""
        half = len(data) // 2
        return cls(int.from_bytes(data[:half], "big"), int.from_bytes(data[half:], "big"))

    def encrypt(self, numbers: Sequence[int]) -> list[Any]:
        """Return the numbers' ciphertexts."""
        # (1 + n)^m = 1 + n m modulo n squared
        return [(1 + self._n * number) * self._noise() % self._square for number in numbers]

    def _noise(self) -> Any:
        drawn = self._random()
        by_p = gmpy2.powmod(drawn, self._n % (self._p2 - self._p), self._p2)
        by_q = gmpy2.powmod(drawn, self._n % (self._q2 - self._q), self._q2)
        return by_q + self._q2 * ((by_p - by_q) * self._q2_inverse % self._p2)

    def decrypt(self, ciphertexts: list[Any], bits: int) -> list[int]:
        """Return the numbers; raise if one is out of range."""
        return in_range([int(self._key.raw_decrypt(int(number))) for number in ciphertexts], bits)
