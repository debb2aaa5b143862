"""Letters between two parties that the coordinator carries and cannot read or replace.

A letter is sealed with ChaCha20-Poly1305 under a key that only its two parties can derive from
their key pairs. It opens only for what it was sealed for.
"""

from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from spinney.privacy.entropy import secret_bytes
from spinney.privacy.keys import derive_key

_NONCE_BYTES = 12
_TAG_BYTES = 16


def letter_bytes(content: int) -> int:
    """Return the length of a letter whose content has this many bytes."""
    return _NONCE_BYTES + content + _TAG_BYTES


@dataclass(frozen=True)
class LetterBox:
    """One party's letters to and from another.

    Attributes
    ----------
    secret
        What only the two parties can compute: the agreement of their key pairs.
    purpose, agreed, number
        What the letters are for, what the parties agreed on, and the number of the first round.
    names
        The two parties, in any order.
    """

    secret: bytes = field(repr=False)
    purpose: str
    agreed: bytes
    number: int
    names: tuple[str, ...]

    def seal(self, content: bytes, about: bytes) -> bytes:
        """Return the letter."""
        nonce = secret_bytes(_NONCE_BYTES)
        return nonce + self._cipher().encrypt(nonce, content, about)

    def open(self, letter: bytes, about: bytes) -> bytes | None:
        """Return the content; None if the letter was changed, or was not meant for this."""
        try:
            return self._cipher().decrypt(letter[:_NONCE_BYTES], letter[_NONCE_BYTES:], about)
        except (InvalidTag, ValueError):
            return None

    def _cipher(self) -> ChaCha20Poly1305:
        return ChaCha20Poly1305(
            derive_key(
                self.secret,
                self.purpose,
                job=self.agreed,
                round_number=self.number,
                names=self.names,
            )
        )
