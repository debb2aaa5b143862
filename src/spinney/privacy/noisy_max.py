"""Report-noisy-max with the noise drawn by the parties and the maximum taken by somebody else.

Every party adds a one-sided share to every candidate's score; whoever may see the noisy scores (a
coordinator that is trusted with them, or nobody: a computation among the parties) names the best.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from spinney.privacy import samplers
from spinney.privacy.budget import Cost, Measure, Unit, positive_epsilon
from spinney.privacy.mechanisms import check_decay
from spinney.privacy.release import Mechanism, Shares
from spinney.typing import Integers


@dataclass(frozen=True, slots=True)
class NoisyMax(Mechanism):
    """One-sided geometric noise on whole scores, of which only the place of the largest is shown.

    Adds G with P[G >= k] = alpha**k, alpha = exp(-epsilon / sensitivity). Scores must be monotone:
    a record more lowers none of them, or raises none, and each by at most `sensitivity`. Whatever
    noise the others got, the winner needs at least some k to win, and at most k + sensitivity with
    one record more or less: its odds change by at most e**epsilon (Ding et al. 2021, *The
    Permute-and-Flip Mechanism is Identical to Report-Noisy-Max with Exponential Noise*). Ties go
    to the first. In shares each of K parties adds NB(1/t, alpha), of which any t sum to G; further
    noise that knows nothing of the rows takes nothing away.

    Parameters
    ----------
    epsilon
        The pure cost of a choice, however many candidates there are.
    sensitivity
        By how much one record can move any one score.
    shares
        None if this party's noise alone is enough; otherwise how many parties share it.
    """

    norm: ClassVar[str] = "Linf"
    epsilon: Fraction
    sensitivity: Fraction = Fraction(1)
    unit: Unit = Unit.RECORD_ADD_REMOVE
    shares: Shares | None = None

    def __post_init__(self) -> None:
        for name in ("epsilon", "sensitivity"):
            object.__setattr__(self, name, positive_epsilon(getattr(self, name), name))
        check_decay(self.decay)

    @property
    def decay(self) -> Fraction:
        """The decay of the noise: epsilon / sensitivity."""
        return self.epsilon / self.sensitivity

    def cost(self, n_values: int = 1) -> Cost:  # noqa: ARG002
        """Return epsilon: one place is shown."""
        return Cost(Measure.PURE, self.epsilon, self.unit)

    def describe(self) -> str:
        """Say what is protected, how and at which price, for a privacy officer."""
        text = (
            f"A private choice of the best candidate (report-noisy-max): "
            f"epsilon={float(self.epsilon):g}, protecting one {self.unit.value}, which moves any "
            f"score by at most {float(self.sensitivity):g}. Only the choice is protected: whoever "
            "takes the maximum sees the scores."
        )
        return f"{text} {self.shares.describe()}" if self.shares else text

    def _randomised(self, values: Integers) -> Integers:
        honest = self.shares.honest if self.shares else 1
        noise = samplers.one_sided_shares(self.decay, honest, values.size)
        return values + noise.reshape(values.shape)
