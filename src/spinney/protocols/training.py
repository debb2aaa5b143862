"""What a training returns, whatever the protocol."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Literal, Protocol

import numpy as np

from spinney.protocols.model import ForestModel
from spinney.transport.channel import Round
from spinney.trees.partial import Ownership
from spinney.typing import Integers


@dataclass(frozen=True)
class Quality:
    """How well a model predicts at one party, and on which of its rows."""

    rows: str  # "out-of-bag" or "training"
    n_rows: int
    scores: Mapping[str, float]


def majorities(class_counts: Mapping[str, Integers]) -> dict[str, dict[str, float]]:
    """Return, by party, the share of its most common class, and that class's share of all rows."""
    total = np.sum(list(class_counts.values()), axis=0)
    return {
        name: {
            "majority": float(counts.max() / counts.sum()),
            "joint_majority": float(total[counts.argmax()] / total.sum()),
        }
        if counts.sum()
        else {}
        for name, counts in class_counts.items()
    }


@dataclass(frozen=True)
class PartyClaim:
    """What a party's ledger promises one unit against one view; exact numbers, as text."""

    party: str
    unit: str
    view: str
    verdict: str  # "EPSILON", "HIDDEN", "UNPROTECTED" or "NOTHING"
    epsilon: str | None
    delta: str | None
    text: str


@dataclass(frozen=True)
class Shape:
    """What was grown: by which protocol, how many trees, how deep, how many nodes."""

    protocol: str
    n_trees: int
    depth: int
    n_nodes: int


@dataclass(frozen=True)
class Roles:
    """The owner of each node's split in a model in parts; prediction needs it later."""

    parties: tuple[str, ...]  # in the order of the owners' numbers
    label_party: str
    ownership: Ownership
    intersect_at: Literal["label_party", "coordinator"]


class Trained(Protocol):
    """The log of a training, wherever its model is."""

    @property
    def shape(self) -> Shape:
        """What was grown."""
        ...

    @property
    def parties(self) -> tuple[str, ...]:
        """Who took part."""
        ...

    @property
    def rounds(self) -> tuple[Round, ...]:
        """Every question."""
        ...

    @property
    def seconds(self) -> Mapping[str, float]:
        """Time by phase."""
        ...

    @property
    def quality(self) -> Mapping[str, Quality]:
        """How good the model is, by party."""
        ...

    @property
    def settings(self) -> Mapping[str, object]:
        """What the job fixed."""
        ...

    @property
    def claims(self) -> tuple[PartyClaim, ...]:
        """What ledgers promise."""
        ...

    @property
    def history(self) -> tuple[float, ...]:
        """The best score of each generation, for evolved models."""
        ...

    @property
    def score(self) -> float | None:
        """Accuracy or R2 over all parties, if it was asked for."""
        ...

    @property
    def model(self) -> ForestModel | None:
        """The model; None if each party has its own part and nobody has the whole."""
        ...

    @property
    def roles(self) -> Roles | None:
        """The owner of each node's split, for a model in parts."""
        ...

    @property
    def adds_up(self) -> bool:
        """Whether every node held the rows that its parent's split sent there."""
        ...

    @property
    def curves(self) -> Mapping[str, tuple[float, ...]]:
        """The mean loss before each batch of boosted trees, by kind of rows."""
        ...

    @property
    def own_curves(self) -> Mapping[str, tuple[float, ...]]:
        """The mean loss of each party's training rows, if it was told."""
        ...


@dataclass(frozen=True)
class Training:
    """The model and the log of its training."""

    model: ForestModel
    parties: tuple[str, ...]
    rounds: tuple[Round, ...]
    seconds: Mapping[str, float]  # by phase
    quality: Mapping[str, Quality]  # by party
    score: float | None  # accuracy or R2 over all parties, if it was asked for
    settings: Mapping[str, object]
    claims: tuple[PartyClaim, ...] = ()  # private jobs: what each party's ledger promises
    history: tuple[float, ...] = ()  # evolved models: the best score of each generation
    roles: Roles | None = None  # a model in parts: the owner of each node's split
    adds_up: bool = True  # whether nodes held all rows that their parents sent there
    curves: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # boosting: mean losses
    own_curves: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # the same by party

    @property
    def shape(self) -> Shape:
        """What was grown."""
        forest = self.model.forest
        deepest = int(forest.depths.max())
        return Shape(self.model.protocol, forest.n_trees, deepest, forest.n_nodes)


@dataclass(frozen=True)
class Unfinished:
    """The log of a training that stopped before there was a model."""

    protocol: str
    parties: tuple[str, ...]
    rounds: tuple[Round, ...]
    settings: Mapping[str, object]
    seconds: Mapping[str, float] = field(default_factory=dict)
    quality: Mapping[str, Quality] = field(default_factory=dict)
    claims: tuple[PartyClaim, ...] = ()
    history: tuple[float, ...] = ()
    score: float | None = None
    model: None = None
    roles: None = None
    adds_up: bool = True
    curves: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    own_curves: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    @property
    def shape(self) -> Shape:
        """An empty shape: no tree was finished."""
        return Shape(self.protocol, 0, 0, 0)


@dataclass
class Phases:
    """A stopwatch: seconds by phase."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time of a block to a phase."""
        begin = perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - begin
