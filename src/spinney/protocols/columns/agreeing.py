"""How the coordinator of a job over columns begins and ends: who holds what, and the log."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from spinney.errors import SchemaError
from spinney.protocols.columns.messages import HoldingsReply
from spinney.protocols.columns.settings import LabelSettings
from spinney.protocols.model import ForestModel
from spinney.protocols.training import PartyClaim, Quality, Roles, Shape
from spinney.transport.channel import Round


def label_party_of(holdings: Mapping[str, HoldingsReply]) -> str:
    """Return the label party; raise if there is none or several, or if tables do not fit."""
    holders = [name for name, held in holdings.items() if held.holds_label]
    if len(holders) != 1:
        found = f"{', '.join(map(repr, holders))} do" if holders else "none does"
        raise SchemaError(
            f"Exactly one party must hold the labels; {found}. Say which column is the label at "
            "one party, and leave it out at the others."
        )
    (first, reference), *others = holdings.items()
    for name, held in others:
        if held.n_rows != reference.n_rows:
            raise SchemaError(
                f"Parties {first!r} and {name!r} hold different numbers of rows. Match their row "
                "ids first, so that all hold the same rows in the same order."
            )
    return holders[0]


def require_fit(
    holdings: Mapping[str, HoldingsReply], label_party: str, task: str
) -> tuple[HoldingsReply, int]:
    """Return what the label party holds, and how many columns all do; raise if no tree can grow."""
    label = holdings[label_party]
    if (label.n_classes > 0) != (task == "classification"):
        raise SchemaError(
            f"The job is {task}, but the label at party {label_party!r} does not suit it."
        )
    n_columns = sum(held.n_columns for held in holdings.values())
    if not n_columns:
        raise SchemaError("No party holds a column. A forest needs at least one.")
    return label, n_columns


@dataclass(frozen=True)
class VerticalTraining:
    """The log of a training over columns, and what is needed to predict with it.

    The model itself is at the parties; each has its own part.
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
    model: ForestModel | None = None  # joined from the parts, if the job asks for it
    adds_up: bool = True  # all parties hold all rows of a node
    curves: dict[str, tuple[float, ...]] = field(default_factory=dict)
    own_curves: dict[str, tuple[float, ...]] = field(default_factory=dict)


def describe_settings(settings: LabelSettings, trees: str) -> dict[str, Any]:
    """Return the settings as the report shows them; those of the trees are the field `trees`."""
    described = asdict(settings)
    shown: dict[str, Any] = described.pop(trees)
    if settings.label_epsilon is not None:
        shown["privacy"] = {"label_epsilon": settings.label_epsilon}
    return {**shown, **described}
