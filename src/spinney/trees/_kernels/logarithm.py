"""Logarithms with the same bits on every processor.

Libraries of mathematics round the last bit as their version and the processor suggest. Parties
derive the same cuts from the same sums, so a cut must not depend on where it is derived: these
logarithms take only operations whose result the floating point standard fixes.
"""

import math

from spinney.trees._kernels.compiling import kernel

_PER_LN = 2.8853900817779268  # 2 / ln 2
_ROOT_HALF = 0.7071067811865476


@kernel
def log2(x):
    """Return the binary logarithm of `x` > 0, within 2 units in the last place.

    With x = m 2^e and s = (m - 1) / (m + 1), ln m = 2 (s + s^3 / 3 + s^5 / 5 + ...); |s| < 0.172.
    """
    m, e = math.frexp(x)
    if m < _ROOT_HALF:
        m *= 2.0
        e -= 1
    s = (m - 1.0) / (m + 1.0)
    square = s * s
    series = 0.0
    for k in range(23, 0, -2):
        series = series * square + 1.0 / k
    return e + _PER_LN * (s * series)


@kernel
def fill_log_table(table):
    """Write x log2 x into `table`, for x = 0, 1, 2, ..."""
    for x in range(2, table.shape[0]):
        table[x] = x * log2(float(x))
