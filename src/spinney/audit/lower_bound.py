"""A lower bound on the epsilon of a release path, from runs on two neighbouring inputs.

An audit cannot prove privacy; it can disprove a claim. It runs the real release path many times on
D and on D with one record more, looks for an event that tells the two apart on the first half of
the runs, and bounds the event's two probabilities on the second half (Clopper and Pearson 1934).
If the bound exceeds the claim, the claim is false, up to the stated confidence.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Statistics = NDArray[Any]  # (n_trials,) one number per independent run
Run = Callable[[int], Statistics]  # number of trials -> statistics

_HOLDS: dict[str, Callable[[Statistics, float], Statistics]] = {
    "at least": np.greater_equal,
    "at most": np.less_equal,
    "exactly": np.equal,
}


@dataclass(frozen=True)
class LowerBound:
    """What an audit found."""

    epsilon: float  # the lower bound; no private release path with a smaller epsilon fits the runs
    event: str
    n_trials: int

    def refutes(self, claim: float) -> bool:
        """Say whether the runs disprove the claimed epsilon."""
        return self.epsilon > claim


@dataclass(frozen=True)
class _Event:
    """A set of outcomes, and on which of the two inputs it is the likelier."""

    relation: str  # a key of _HOLDS
    value: float
    on_second: bool

    def bound(self, runs: list[Statistics], delta: float, confidence: float) -> float:
        """Return ln((p - delta) / q), p at its lower and q at its upper confidence limit."""
        ordered = runs[::-1] if self.on_second else runs
        likely, rare = (_HOLDS[self.relation](x, self.value) for x in ordered)
        tail = (1 - confidence) / 2
        hits, misses = int(likely.sum()), int(rare.sum())
        low = stats.beta.ppf(tail, hits, likely.size - hits + 1) if hits else 0.0
        spared = rare.size - misses
        high = stats.beta.ppf(1 - tail, misses + 1, spared) if spared else 1.0
        return max(0.0, math.log((low - delta) / high)) if low > delta else 0.0


def bound_epsilon(
    first: Run,
    second: Run,
    n_trials: int,
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
) -> LowerBound:
    """Return a lower bound on epsilon, valid with the given confidence.

    Parameters
    ----------
    first, second
        The release path on each of two neighbouring inputs: number of runs to statistics.
    n_trials
        Runs on each input.
    delta
        The delta of the claim under test.
    confidence
        The chance that the bound holds.
    """
    runs = [np.asarray(run(n_trials)) for run in (first, second)]
    choosing = [statistics[: n_trials // 2] for statistics in runs]
    testing = [statistics[n_trials // 2 :] for statistics in runs]
    events = list(_events(choosing))
    doubt = (1 - confidence) / len(events)  # or the luckiest of many rare events would be chosen
    best = max(events, key=lambda event: event.bound(choosing, delta, 1 - doubt))
    event = f"{best.relation} {best.value} on the {'second' if best.on_second else 'first'} input"
    return LowerBound(best.bound(testing, delta, confidence), event, n_trials)


def _events(runs: list[Statistics]) -> Iterator[_Event]:
    """Yield thresholds from either side and single values, each in both directions."""
    values = np.unique(np.concatenate(runs))
    if values.size > 200:  # the telling events are tails: quantiles, and the outermost values
        inner = np.quantile(np.concatenate(runs), np.linspace(0, 1, 150), method="nearest")
        values = np.unique(np.concatenate([values[:25], inner, values[-25:]]))
    for value in values.tolist():
        for relation in _HOLDS:
            yield _Event(relation, value, on_second=False)
            yield _Event(relation, value, on_second=True)
