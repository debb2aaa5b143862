"""The questions of an evaluation with noise.

**Who learns what.** See `spinney.protocols.private_evaluation`.
"""

from typing import Any, ClassVar

from spinney.protocols.accounts.account import ClaimsAsk
from spinney.protocols.accounts.replies import NoisyReply, Signed
from spinney.protocols.model import ForestModel
from spinney.protocols.private_evaluation.settings import Settings
from spinney.transport.channel import Ask
from spinney.transport.messages import kept_beside, message


@message
class EvaluationAsk(Signed, Ask[NoisyReply]):
    """How do the model's scores compare with your rows' classes, with noise?"""

    settings: Settings
    n_parties: int
    models: tuple[bytes, ...]  # their files
    reveals: ClassVar[str] = "histograms of scores by class, with noise"
    reply_type: ClassVar[type[Any]] = NoisyReply

    @property
    def step(self) -> int:
        """The one step of the job."""
        return 0

    @kept_beside
    def forest_models(self) -> tuple[ForestModel, ...]:
        """The models, checked like models from files."""
        return tuple(
            ForestModel.from_bytes(model, name="the question's model") for model in self.models
        )


SUMMED: tuple[type[Ask[Any]], ...] = (EvaluationAsk,)
"""The questions whose replies are summed; under `secure_sum` they are masked."""


ASKS: tuple[type[Ask[Any]], ...] = (ClaimsAsk, *SUMMED)
"""Every question that a party answers."""
