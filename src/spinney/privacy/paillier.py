"""Paillier encryption on gmpy2's numbers, from the paper: slower, and the better known scheme.

P. Paillier: Public-Key Cryptosystems Based on Composite Degree Residuosity Classes, Eurocrypt 1999;
g is 1 + n, and the side with the key computes modulo p^2 and q^2 (section 7). Powers of what others
send are computed in the same time whatever it is, as in `spinney.privacy.okamoto_uchiyama`.
"""

from collections.abc import Sequence
from typing import Any

import gmpy2

from spinney.errors import ProtocolError
from spinney.privacy.homomorphic import KEY_BITS, MARGIN_BITS, SecretHE, in_range
from spinney.privacy.residues import Residues, byte_length, draw_below, draw_prime

_SPARE_BITS = 2  # below the modulus


class Paillier(Residues):
    """Adding under a public key."""

    def __init__(self, n: Any) -> None:
        self._n = gmpy2.mpz(n)
        super().__init__(self._n * self._n)
        self.scheme = "paillier"
        self.room = self._n.bit_length() - _SPARE_BITS - MARGIN_BITS
        self.public_key = self._n.to_bytes(byte_length(self._n), "big")

    @classmethod
    def of(cls, data: bytes) -> "Paillier":
        """Return the adding side of a public key."""
        n = int.from_bytes(data, "big")
        if n.bit_length() not in KEY_BITS or n.bit_length() != 8 * len(data) or n % 2 == 0:
            raise ProtocolError("This is not a Paillier key of 2048 or 3072 bits.")
        return cls(n)

    def refreshed(self, ciphertexts: list[Any]) -> list[Any]:
        """Return the same numbers under fresh randomness."""
        return [number * self._noise() % self._modulus for number in ciphertexts]

    def _noise(self) -> Any:
        """Return a random encryption of zero; a common factor with n never happens in practice."""
        return gmpy2.powmod(draw_below(self._n), self._n, self._modulus)


class PaillierKey(Paillier, SecretHE):
    """The side with the key; it uses the factors of n to encrypt four times as fast."""

    def __init__(self, p: Any, q: Any) -> None:
        self._p, self._q = gmpy2.mpz(p), gmpy2.mpz(q)
        super().__init__(self._p * self._q)
        self._q2_inverse = gmpy2.invert(self._q**2, self._p**2)
        self._q_inverse = gmpy2.invert(self._q, self._p)
        self._p_unit = gmpy2.invert(_log(1 + self._n, self._p), self._p)
        self._q_unit = gmpy2.invert(_log(1 + self._n, self._q), self._q)
        half = byte_length(max(self._p, self._q))
        self.secret_key = self._p.to_bytes(half, "big") + self._q.to_bytes(half, "big")

    @classmethod
    def new(cls, key_bits: int) -> "PaillierKey":
        """Draw a key."""
        while True:
            p, q = draw_prime(key_bits // 2), draw_prime(key_bits // 2)
            if p != q and gmpy2.gcd(p * q, (p - 1) * (q - 1)) == 1:
                return cls(p, q)

    @classmethod
    def of_secret(cls, data: bytes) -> "PaillierKey":
        """Return the key from its stored bytes."""
        half = len(data) // 2
        return cls(int.from_bytes(data[:half], "big"), int.from_bytes(data[half:], "big"))

    def encrypt(self, numbers: Sequence[int]) -> list[Any]:
        """Return the numbers' ciphertexts."""
        # (1 + n)^m = 1 + n m modulo n squared
        return [(1 + self._n * number) * self._noise() % self._modulus for number in numbers]

    def _noise(self) -> Any:
        drawn, p2, q2 = draw_below(self._n), self._p**2, self._q**2
        by_p = gmpy2.powmod(drawn, self._n % (p2 - self._p), p2)
        by_q = gmpy2.powmod(drawn, self._n % (q2 - self._q), q2)
        return by_q + q2 * ((by_p - by_q) * self._q2_inverse % p2)

    def decrypt(self, ciphertexts: list[Any], bits: int) -> list[int]:
        """Return the numbers; raise if one is out of range."""
        found = []
        for one in ciphertexts:
            by_p = _log(one, self._p) * self._p_unit % self._p
            by_q = _log(one, self._q) * self._q_unit % self._q
            found.append(int(by_q + self._q * ((by_p - by_q) * self._q_inverse % self._p)))
        return in_range(found, bits)


def _log(number: Any, prime: Any) -> Any:
    """Return L(number^(prime-1) mod prime^2)."""
    square = prime * prime
    return (gmpy2.powmod_sec(number % square, prime - 1, square) - 1) // prime
