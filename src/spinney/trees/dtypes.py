"""The sizes of numbers, each with its reason.

A bin is a byte, so there are at most 255 bins and one for missing values. A histogram counter has
32 bits: a party has fewer than 2^31 rows. A regression cell has 64 bits each for weights and
fixed-point targets, side by side. A column index has 32 bits and is negative for leaves.
"""

MISSING = 255  # the bin of missing values: above every cut, so it goes right by default
MAX_BINS = 255
MAX_PARTS = 256  # of a bin: two bytes a cell, and the highest two codes stay free
TARGET_BITS = 24  # resolution of a fixed-point target over its range, if noise is added
MAX_TARGET_BITS = 40  # otherwise, if the sum over all rows stays below 2^62: see `target_bits`
CATEGORY_WORDS = 4  # 256 bits: the bins that go left in a category split
MAX_ROWS = 1 << 36  # over all parties: a field of a masked word stays under 40 bits
MAX_WEIGHT = 12  # how often a bootstrap may draw a row: Poisson(1) exceeds it once in 10^11
MAX_CLASSES = 2048  # a class has 11 bits of a row entry
BLOCK_ROWS = 65536  # 16 bits of a row entry; a block's column fits the second-level cache


def target_bits(n_rows: int) -> int:
    """Return how many bits a fixed-point target may have so that the sum of `n_rows` fits."""
    return min(MAX_TARGET_BITS, 62 - (MAX_WEIGHT * n_rows).bit_length())
