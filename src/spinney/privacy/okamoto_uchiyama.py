"""Okamoto-Uchiyama encryption on gmpy2's numbers, from the paper: the fast scheme.

T. Okamoto, S. Uchiyama: A New Public-Key Cryptosystem as Secure as Factoring, Eurocrypt 1998.

| in the paper | here | |
|---|---|---|
| n = p^2 q | `_modulus` | public, 2048 or 3072 bits; p and q are secret |
| g | `_g` | public; g^(p-1) is not 1 modulo p^2 |
| h = g^n mod n | `_powers` | every side computes it: nobody can be given another |
| C = g^m h^r mod n | `encrypt` | r is drawn afresh for every number |
| L(x) = (x - 1) / p | `_log` | a logarithm, where x is 1 modulo p |
| m = L(C^(p-1) mod p^2) / L(g^(p-1) mod p^2) mod p | `decrypt` | |

To read a number without the key is as hard as factoring n; to tell encryptions of two numbers apart
is the paper's p-subgroup problem. The order of h divides (p - 1)(q - 1), so that an exponent which
is `_HIDING_BITS` longer than p and q together makes h^r as good as uniform: shorter than n, and no
farther from the paper's than 2^-128. The side with the key computes modulo p^2 and modulo q and
puts the two together.

Who sends ciphertexts chooses what is raised to the secret p - 1, and sees when the answer comes:
that power is computed in the same time and with the same accesses to memory whatever it is of
(`gmpy2.powmod_sec`). Everything else that depends on a secret depends on fresh randomness too.
"""

from collections.abc import Sequence
from typing import Any

import gmpy2

from spinney.errors import ProtocolError
from spinney.privacy.entropy import secret_bytes
from spinney.privacy.homomorphic import KEY_BITS, MARGIN_BITS, SecretHE, in_range
from spinney.privacy.residues import FixedBase, Residues, byte_length, draw_below, draw_prime

_SPARE_BITS = 2  # below the prime
_HIDING_BITS = 128


class OkamotoUchiyamaAdding(Residues):
    """Adding under a public key."""

    def __init__(self, n: Any, g: Any) -> None:
        super().__init__(gmpy2.mpz(n))
        self.scheme = "okamoto-uchiyama"
        self._g = gmpy2.mpz(g)
        bits = self._modulus.bit_length()
        self.room = bits // 3 - _SPARE_BITS - MARGIN_BITS
        self.public_key = self._modulus.to_bytes(self._length, "big") + self._g.to_bytes(
            self._length, "big"
        )
        self._exponent_bytes = (2 * (bits // 3 + 1) + _HIDING_BITS + 7) // 8
        self._powers: FixedBase | None = None

    @classmethod
    def of(cls, data: bytes) -> "OkamotoUchiyamaAdding":
        """Return the adding side of a public key."""
        half = len(data) // 2
        n, g = int.from_bytes(data[:half], "big"), int.from_bytes(data[half:], "big")
        if len(data) % 2 or n.bit_length() not in KEY_BITS or n.bit_length() != 8 * half:
            raise _no_key()
        if n % 2 == 0 or not 1 < g < n:
            raise _no_key()
        return cls(n, g)

    def refreshed(self, ciphertexts: list[Any]) -> list[Any]:
        """Return the same numbers under fresh randomness."""
        n = self._modulus
        if self._powers is None:  # one who only decrypts needs no table
            h = gmpy2.powmod(self._g, n, n)
            self._powers = FixedBase(h, n, self._exponent_bytes)
        power, length = self._powers.power, self._exponent_bytes
        return [number * power(secret_bytes(length)) % n for number in ciphertexts]


class OkamotoUchiyama(OkamotoUchiyamaAdding, SecretHE):
    """The side with the key."""

    def __init__(self, p: Any, q: Any, g: Any) -> None:
        self._p, self._q = gmpy2.mpz(p), gmpy2.mpz(q)
        self._square = self._p * self._p
        super().__init__(self._square * self._q, g)
        length = byte_length(self._p)
        self.secret_key = self._p.to_bytes(length, "big") + self._q.to_bytes(length, "big")
        self._q_inverse = gmpy2.invert(self._q, self._square)
        self._unit = gmpy2.invert(self._log(self._g), self._p)

    @classmethod
    def new(cls, key_bits: int) -> "OkamotoUchiyama":
        """Draw a key."""
        while True:
            third = (key_bits + 1) // 3
            p, q = draw_prime(third), draw_prime(key_bits - 2 * third)
            n = p * p * q
            sound = n.bit_length() == key_bits and gmpy2.gcd(p, q - 1) == gmpy2.gcd(q, p - 1) == 1
            g = draw_below(n)
            if sound and p != q and gmpy2.gcd(g, n) == 1 and gmpy2.powmod(g, p - 1, p * p) != 1:
                return cls(p, q, g)

    @classmethod
    def of_keys(cls, public: bytes, secret: bytes) -> "OkamotoUchiyama":
        """Return the key from its stored bytes."""
        half, middle = len(secret) // 2, len(public) // 2
        p, q = int.from_bytes(secret[:half], "big"), int.from_bytes(secret[half:], "big")
        if not p or p * p * q != int.from_bytes(public[:middle], "big"):
            raise _no_key()
        return cls(p, q, int.from_bytes(public[middle:], "big"))

    def encrypt(self, numbers: Sequence[int]) -> list[Any]:
        """Return the numbers' ciphertexts."""
        # The same length for all: time does not tell which number is large.
        length = max((int(number).bit_length() + 7) // 8 for number in numbers) or 1
        one, other = self._sides(self._square, length), self._sides(self._q, length)
        p_order, q_order = self._p - 1, self._q - 1
        p_length, q_length = byte_length(p_order), byte_length(q_order)
        found = []
        for number in numbers:
            m = int(number).to_bytes(length, "little")
            r = gmpy2.mpz.from_bytes(secret_bytes(self._exponent_bytes), "little")
            # h has an order that divides p - 1 modulo p^2, and q - 1 modulo q
            by_p = one[0].power(m) * one[1].power((r % p_order).to_bytes(p_length, "little"))
            by_q = other[0].power(m) * other[1].power((r % q_order).to_bytes(q_length, "little"))
            found.append(by_q + self._q * ((by_p - by_q) * self._q_inverse % self._square))
        return [number % self._modulus for number in found]

    def _sides(self, modulus: Any, length: int) -> tuple[FixedBase, FixedBase]:
        """Return the tables of g and h modulo p^2 or modulo q."""
        h = gmpy2.powmod_sec(self._g, self._modulus, modulus)
        order = byte_length(self._p)
        return FixedBase(self._g % modulus, modulus, length), FixedBase(h, modulus, order)

    def decrypt(self, ciphertexts: list[Any], bits: int) -> list[int]:
        """Return the numbers; raise if one is out of range."""
        return in_range([int(self._log(one) * self._unit % self._p) for one in ciphertexts], bits)

    def _log(self, number: Any) -> Any:
        """Return L(number^(p-1) mod p^2)."""
        power = gmpy2.powmod_sec(number % self._square, self._p - 1, self._square)
        return (power - 1) // self._p


def _no_key() -> ProtocolError:
    return ProtocolError("This is not an Okamoto-Uchiyama key of 2048 or 3072 bits.")
