"""What an epsilon means for one record: how far the odds of a guess can move.

Somebody who holds a suspicion about a record, of probability p, has odds p : (1 - p). An answer of
epsilon e multiplies these odds by e^epsilon at most, whoever looks and whatever else they know;
with delta, except with a probability of about delta (Wasserman and Zhou 2010; Kasiviswanathan and
Smith 2014).
"""

from fractions import Fraction
from math import exp

from spinney.report.page.markup import Content, Html, table

PRIORS = (0.001, 0.01, 0.1, 0.5)
_LARGEST = 700.0  # e^700 is about the largest float


def posterior(prior: float, epsilon: float) -> float:
    """Return the most that a suspicion of probability `prior` can become."""
    odds = prior / (1.0 - prior) * exp(min(epsilon, _LARGEST))
    return odds / (1.0 + odds)


def odds_table(epsilons: dict[Fraction, str]) -> Html:
    """Return one row for each epsilon; `epsilons` says for which units each holds."""
    headings = ["epsilon", "for", "odds move by at most"]
    headings += [f"a suspicion of {_percent(prior)} becomes at most" for prior in PRIORS]
    lines: list[list[Content]] = [
        [
            f"{float(epsilon):.4g}",
            unit,
            _factor(float(epsilon)),
            *(_percent(posterior(prior, float(epsilon))) for prior in PRIORS),
        ]
        for epsilon, unit in sorted(epsilons.items())
    ]
    return table("What somebody may come to believe about one record", headings, lines)


def _factor(epsilon: float) -> str:
    factor = exp(min(epsilon, _LARGEST))
    told = f"{factor:.3g}" if factor < 1000 else f"{factor:,.0f}"
    return f"{told} times" if factor < 1e6 else "more than a million times: no limit"


def _percent(share: float) -> str:
    if share > 0.9995:
        return "certainty (over 99.9 %)"
    return f"{100 * share:.3g} %"
