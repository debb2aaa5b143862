"""Draws that stay: the same for the same rows, however often and in whatever words one asks."""

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import ECB

from spinney.typing import Integers, Keys


def draw_sticky(key: bytes, marks: Keys, counts: Integers, below: int) -> Integers:
    """Return a number from 0 to `below` for each set of rows, whose mark and count are given.

    Each set is a block of the cipher, and a block that nobody can invert is as good as a draw.
    """
    blocks = np.stack([marks.ravel(), counts.ravel().astype(np.uint64)], axis=1)
    cipher = Cipher(AES256(key), ECB()).encryptor()  # noqa: S305  nobody reads the blocks
    words = np.frombuffer(cipher.update(blocks.tobytes()), np.uint64)[::2]
    draws: Integers = (words % np.uint64(below)).astype(np.int64).reshape(counts.shape)
    return draws
