"""A coordinator that sees not even the sums: it adds words that only the parties can read.

Every party adds one more mask to its numbers, the same at all of them, from the secret that they
share. The coordinator sums the words and sends the sum back. Parties take the masks off, check the
sum as always, and derive the next step. The coordinator knows no question and no count; it learns
how long the sums are, how many there are, and who is in them.

**Who learns what.** The parties learn the sums; of two parties, each learns the other's counts. The
coordinator learns the sizes of sums, and at the end the model, from a party. **Who never learns
what.** The coordinator, and whoever reads its disk, never learn a histogram. A party that colludes
with it gives it the secret; the masks of secure sums then still hide single parties.
"""

from collections.abc import Callable
from itertools import count
from typing import Final

from spinney.protocols.verified.messages import BLIND, HiddenSums, Opened, StepAsk, story_after
from spinney.transport.carried import Carried
from spinney.transport.channel import Channel

NOT_SEEN: Final = "the coordinator saw no sum"


def relay_steps(channel: Channel, told: Callable[[int], None]) -> tuple[Opened, ...]:
    """Let the parties take step after step; return what the last one came to.

    `told` hears of every step before it is taken.
    """
    before: tuple[Opened, ...] = ()
    story = b""
    for number in count(1):
        told(number)
        hidden = channel.sum(StepAsk(number, BLIND, before).after(story))
        if not hidden.words:
            break
        sums = Carried(HiddenSums(hidden.words))
        opened = Opened(number, channel.rounds[-1].answered, (sums,), hidden.tag)
        before, story = (opened,), story_after(story, opened, is_shared=False)
    return before
