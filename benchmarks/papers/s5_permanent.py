"""S5's Bloom filters without their second step: not in the product, for comparison only.

The paper draws the instantaneous response anew for every question. Over a forest's questions that
averages out towards the permanent response, which is what the 8 ln 3 pay for.
"""

import numpy as np

from spinney.privacy import samplers
from spinney.privacy.labels import BloomResponse, bloom_filters
from spinney.typing import Integers


class PermanentResponse(BloomResponse):
    """Filters of which each bit is kept with probability 1/2, else replaced by a fair coin."""

    @property
    def one_probability(self) -> float:
        return 0.75

    @property
    def other_probability(self) -> float:
        return 0.25

    def _randomised(self, values: Integers) -> Integers:
        bits = bloom_filters(self.n_classes)[values] == 1.0
        turned = samplers.uniform_below(4, bits.size).reshape(bits.shape) == 0
        packed = np.packbits(bits ^ turned, axis=1, bitorder="little").view("<u4")
        return packed.astype(np.int64)
