"""Report-noisy-max: the parties draw the noise, and somebody else takes the maximum.

Every party adds a one-sided share to every candidate's score. Whoever may see the noisy scores (a
coordinator that is trusted with them, or nobody: a computation among the parties) names the best.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from spinney.privacy import samplers
from spinney.privacy.budget import Cost, Measure, Unit
from spinney.privacy.mechanisms import check_decay, make_exact
from spinney.privacy.release import Mechanism, Shares
from spinney.typing import Integers


@dataclass(frozen=True, slots=True)
class NoisyMax(Mechanism):
    """One-sided geometric noise on whole scores; only the position of the largest is shown.

    Adds G with P[G >= k] = alpha**k, alpha = exp(-epsilon / sensitivity). Scores must be monotone:
    an additional record lowers none of them, or raises none, and changes each by at most
    `sensitivity`. For any noise on the other scores, the winner needs at least some k to win, and
    at most k + sensitivity with one record more or less: its odds change by at most e**epsilon
    (Ding et al. 2021, *The Permute-and-Flip Mechanism is Identical to Report-Noisy-Max with
    Exponential Noise*). Ties go to the first. In shares, each of K parties adds NB(1/t, alpha); any
    t of these sum to G. More noise that is independent of the rows does not weaken the claim.

    Parameters
    ----------
    epsilon
        The pure cost of a choice, however many candidates there are.
    sensitivity
        How much one record can change any single score.
    shares
        None if this party's noise alone is enough; otherwise how many parties share it.
    """

    norm: ClassVar[str] = "Linf"
    epsilon: Fraction
    sensitivity: Fraction = Fraction(1)
    unit: Unit = Unit.RECORD_ADD_REMOVE
    shares: Shares | None = None

    def __post_init__(self) -> None:
        make_exact(self, "epsilon", "sensitivity")
        check_decay(self.decay)

    @property
    def decay(self) -> Fraction:
        """The decay rate of the noise: epsilon / sensitivity."""
        return self.epsilon / self.sensitivity

    def cost(self, n_values: int = 1) -> Cost:  # noqa: ARG002
        """Return epsilon: only one position is shown."""
        return Cost(Measure.PURE, self.epsilon, self.unit)

    def _randomised(self, values: Integers) -> Integers:
        honest = self.shares.honest if self.shares else 1
        noise = samplers.one_sided_shares(self.decay, honest, values.size)
        return values + noise.reshape(values.shape)
