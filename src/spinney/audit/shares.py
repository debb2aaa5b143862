"""Shares with exact intervals."""

from scipy import stats

from spinney.report.audited import Share

_TAIL = 0.025


def share_of(hits: int, tries: int) -> Share:
    """Return a share with its 95 % interval (Clopper and Pearson 1934); of nothing: all is open."""
    if not tries:
        return Share(0.0, 0.0, 1.0, 0, 0)
    low = float(stats.beta.ppf(_TAIL, hits, tries - hits + 1)) if hits else 0.0
    high = float(stats.beta.ppf(1 - _TAIL, hits + 1, tries - hits)) if hits < tries else 1.0
    return Share(hits / tries, low, high, int(hits), int(tries))
