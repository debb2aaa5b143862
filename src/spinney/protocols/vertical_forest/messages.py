"""The questions of a vertical forest that state its job.

**Who learns what.** See `vertical_forest`.
"""

from typing import Any, ClassVar

from spinney.protocols.columns.encrypted_messages import SealReply
from spinney.protocols.columns.job import Target
from spinney.protocols.columns.messages import LabelsReply, Sealed, StartReply
from spinney.protocols.columns.seat import UNSIGNED, Signed, Unsigned
from spinney.protocols.vertical_forest.job import Job
from spinney.transport.channel import Ask
from spinney.transport.messages import message
from spinney.trees.partition import Partition


@message
class LabelsAsk(Ask[LabelsReply]):
    """What is the label of each row, as a number?"""

    job: Job
    reveals: ClassVar[str] = "the encoded label of every row, for all parties"
    reply_type: ClassVar[type[Any]] = LabelsReply


@message
class StartAsk(Ask[StartReply]):
    """Will you take part, from here on?"""

    job: Job
    target: Target  # empty if the party has its own, or must have none
    sealed: tuple[Sealed, ...]  # one if labels are encrypted, for parties without the key
    levels: tuple[Partition, ...]  # all earlier levels; none at the beginning
    n_own: tuple[int, ...]  # how many cuts of each level this party made
    signed: Signed | Unsigned = UNSIGNED  # the labels, by the label party
    reveals: ClassVar[str] = "how many rows each tree has drawn, which columns are constant"
    reply_type: ClassVar[type[Any]] = StartReply


@message
class SealAsk(Ask[SealReply]):
    """What is the encrypted label of each row?"""

    job: Job
    scheme: str
    key_bits: int
    reveals: ClassVar[str] = "the encrypted label of every row, and a public key"
    reply_type: ClassVar[type[Any]] = SealReply
