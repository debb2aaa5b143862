"""Counters with a share of the noise: they leave a party under a mask, or not at all.

The type is the rule. A reply that holds one cannot be sent as it is, whatever the protocol; and a
party in a secure sum (`secure_sums`) opens no sum in which a summand's share is missing.
"""

from dataclasses import fields, is_dataclass
from typing import NoReturn

from spinney.errors import InternalError, ProtocolError
from spinney.privacy.release import Noised, Shares


class OnlyMasked:
    """Counters with a share of the noise. No message can carry them; a mask can."""

    def __init__(self, noised: Noised) -> None:
        if noised.shares is None:
            raise InternalError("Counters with noise of their own need no mask.")
        self.values = noised.values
        self.shares = noised.shares

    def pack(self, *_: bytes) -> NoReturn:
        """Refuse: what has too little noise is not sent as it is."""
        raise ProtocolError(
            "This party's noise is a share, which hides nothing by itself: it leaves under a mask "
            "only, and the question came without one. Use secure_sum=True."
        )

    packed_size = unpacked_size = unpack = pack


def shares_in(reply: object) -> Shares | None:
    """Return among how many parties the noise of a reply is shared; None if it is not."""
    if not is_dataclass(reply):
        return None
    held = (getattr(reply, field.name) for field in fields(reply))
    return next((value.shares for value in held if isinstance(value, OnlyMasked)), None)
