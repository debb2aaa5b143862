"""What the training of a vertical forest leaves behind."""

from dataclasses import asdict, dataclass

from spinney.protocols.model import ForestModel
from spinney.protocols.training import PartyClaim, Quality, Shape
from spinney.protocols.vertical_prediction import Roles
from spinney.protocols.vertical_settings import VerticalSettings
from spinney.transport.channel import Round


@dataclass(frozen=True)
class VerticalTraining:
    """The log of how a vertical forest came about, and what it takes to predict by it.

    The forest itself is at the parties, each its own part.
    """

    roles: Roles
    shape: Shape
    parties: tuple[str, ...]
    rounds: tuple[Round, ...]
    seconds: dict[str, float]
    quality: dict[str, Quality]
    score: float | None
    settings: dict[str, object]
    claims: tuple[PartyClaim, ...] = ()
    history: tuple[float, ...] = ()
    model: ForestModel | None = None  # joined, where the job says so


def described(settings: VerticalSettings) -> dict[str, object]:
    """Return the settings as the report shows them."""
    described = asdict(settings)
    forest = described.pop("forest")
    if settings.label_epsilon is not None:
        forest["privacy"] = {"label_epsilon": settings.label_epsilon}
    return {**forest, **described}
