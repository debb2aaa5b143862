"""What both encryption schemes do with gmpy2's numbers: residues, their products, primes of a key.

A ciphertext is a residue modulo a public number, and the product of two ciphertexts encrypts the
sum of their numbers.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import gmpy2

from spinney.privacy.entropy import secret_bytes
from spinney.privacy.homomorphic import AdditiveHE, foreign_ciphertexts

_WINDOW = 8  # bits; the digits of an exponent are then its bytes
_ROUNDS = (
    40  # GMP's: the test of Baillie, Pomerance, Selfridge and Wagstaff, and 16 of Miller-Rabin
)


class Residues(AdditiveHE):
    """Adding by multiplying residues; each is written in as many bytes as the modulus has."""

    def __init__(self, modulus: Any) -> None:
        self._modulus = modulus
        self._length = byte_length(modulus)

    def load(self, data: bytes, count: int) -> list[Any]:
        """Return ciphertexts from bytes."""
        if len(data) != count * self._length:
            raise foreign_ciphertexts()
        found = [
            gmpy2.mpz.from_bytes(data[at : at + self._length], "big")
            for at in range(0, len(data), self._length)
        ]
        if any(not 0 < number < self._modulus for number in found):
            raise foreign_ciphertexts()
        return found

    def dump(self, ciphertexts: list[Any]) -> bytes:
        """Return ciphertexts as bytes."""
        return b"".join(number.to_bytes(self._length, "big") for number in ciphertexts)

    def sums(self, ciphertexts: list[Any], groups: Iterable[Sequence[int]]) -> list[Any]:
        """Return the sum of each group."""
        modulus, found = self._modulus, []
        for group in groups:
            total = ciphertexts[group[0]]
            for place in group[1:]:
                total = total * ciphertexts[place] % modulus
            found.append(total)
        return found

    def differences(self, wholes: list[Any], parts: list[Any]) -> list[Any]:
        """Return each of the wholes minus its part: all parts are inverted together (Montgomery).

        One inversion costs some hundred multiplications, so that there is one for all.
        """
        modulus, before = self._modulus, [gmpy2.mpz(1)]
        for part in parts:
            before.append(before[-1] * part % modulus)
        try:
            inverse = gmpy2.invert(before[-1], modulus)
        except ZeroDivisionError:
            raise foreign_ciphertexts() from None
        found = []
        for whole, part, product in zip(
            reversed(wholes), reversed(parts), before[-2::-1], strict=True
        ):
            found.append(whole * inverse * product % modulus)
            inverse = inverse * part % modulus
        return found[::-1]

    def packed(self, ciphertexts: list[Any], n: int, width: int, per: int) -> list[Any]:
        """Return numbers side by side, the first lowest."""
        modulus, shift = self._modulus, gmpy2.mpz(1) << width
        total = ciphertexts[per - 1 : n : per]
        for place in range(per - 2, -1, -1):
            shifted = gmpy2.powmod_base_list(total, shift, modulus)
            column = ciphertexts[place:n:per]
            total = [a * b % modulus for a, b in zip(shifted, column, strict=True)]
        return total


class FixedBase:
    """Powers of one number: a multiplication a byte of the exponent, with a table made once."""

    def __init__(self, base: Any, modulus: Any, n_bytes: int) -> None:
        self._modulus = modulus
        self._rows = []
        for _ in range(n_bytes):
            row = [gmpy2.mpz(1)]
            for _ in range((1 << _WINDOW) - 1):
                row.append(row[-1] * base % modulus)
            base = row[-1] * base % modulus
            self._rows.append(row)

    def power(self, exponent: bytes) -> Any:
        """Return the power; the exponent's lowest byte is first, and its length is the time."""
        total, modulus = self._rows[0][exponent[0]], self._modulus
        for row, digit in zip(self._rows[1:], exponent[1:], strict=False):
            total = total * row[digit] % modulus
        return total


def byte_length(number: Any) -> int:
    """Return in how many bytes a number is written."""
    return (int(number.bit_length()) + 7) // 8


def draw_below(limit: Any) -> Any:
    """Draw a number between 1 and `limit` - 1."""
    length = byte_length(limit)
    spare = 8 * length - limit.bit_length()
    while True:
        drawn = gmpy2.mpz.from_bytes(secret_bytes(length), "big") >> spare
        if 0 < drawn < limit:
            return drawn


def draw_prime(bits: int) -> Any:
    """Draw a prime of so many bits, of which the two highest are set."""
    highest = gmpy2.mpz(3) << (bits - 2)
    while True:
        drawn = highest | draw_below(gmpy2.mpz(1) << (bits - 2)) | 1
        if gmpy2.is_prime(drawn, _ROUNDS):
            return drawn
