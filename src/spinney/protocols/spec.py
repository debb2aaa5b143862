"""What a protocol is: the contract that simulation, deployment, policy, progress and docs read.

A family states it once, in the `spec.py` of its folder, and `spinney.jobs.registry` lists it. The
outer layers ask a protocol only what is stated here; they never look into its settings, parties or
messages to find out.

```text
name, settings, job_settings    what it is called, what a job fixes, what a job file may say
settings_of                     from a job file to those settings, checked
party, train                    the two sides
asks, summed                    every question a party answers; those whose replies are added up
divides, leaves                 rows or columns; one model, a model for each party, or parts
needs_ranges, shows, smallest_leaf, repeats_rows      what policies and schemas must know
n_trees, step, steps_at_most    what progress shows
bound                           the most rounds and bytes a job takes
baseline, is_pooled, small      what a simulation compares with
```
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

import msgspec

from spinney.privacy.label_memory import LabelMemory
from spinney.privacy.ledger import Ledger
from spinney.protocols.model import ForestModel
from spinney.protocols.settings import PrivacySettings, Task
from spinney.protocols.training import Trained
from spinney.tables.schema import Category
from spinney.transport.channel import Answering, Ask, Channel
from spinney.typing import Progress

Asks = tuple[type[Ask[Any]], ...]


class Settings(Protocol):
    """What the settings of every protocol say: frozen, and the same at every party."""

    @property
    def task(self) -> str:
        """What the model predicts: "classification" or "regression"."""
        ...

    @property
    def privacy(self) -> PrivacySettings | None:
        """How noise is added and what it costs; None: no noise is added."""
        ...


S = TypeVar("S", bound=Settings)


class JobSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The [settings] of a job file: the parameters of the protocol's estimator.

    Each protocol has a struct of this kind with one field for every key it knows, and these four.
    A key that is left out has the estimator's default. The order of the fields is part of a job's
    digest: add new ones where they disturb none.
    """


class Running(Protocol):
    """What the outer layers read of any `JobSettings`: how a job runs, not what it grows."""

    @property
    def random_state(self) -> int:
        """Fixes the draws that are not secret."""
        ...

    @property
    def n_jobs(self) -> int | None:
        """How many threads; None: all cores."""
        ...

    @property
    def secure_sum(self) -> bool | None:
        """Whether sums are masked."""
        ...

    @property
    def honest(self) -> int | None:
        """How many parties the masks rest on; None: half of them, rounded up."""
        ...


@dataclass(frozen=True)
class JobFacts:
    """What a job file says beside its settings.

    Attributes
    ----------
    name, task
        The job's.
    classes
        The label's classes; None: not known yet.
    parties
        The parties' names, where the file says them.
    is_aligned
        Whether all parties hold the same rows in the same order: one table that is dealt out.
    held_out, held_out_seed
        The share of rows that no party trains on, and the seed that draws them.
    """

    name: str
    task: Task
    classes: tuple[Category, ...] | None = None
    parties: tuple[str, ...] = ()
    is_aligned: bool = False
    held_out: float = 0.0
    held_out_seed: int = 0


@dataclass(frozen=True)
class Site:
    """Where a party's side runs: what is the party's own business and not the job's."""

    name: str
    n_jobs: int | None = None
    ledger: Ledger | None = None  # of private jobs
    data: str | None = None  # the data set whose account the ledger debits
    folder: Path | None = None  # where it keeps what a job must not lose; None: nowhere
    memory: LabelMemory | None = None  # of labels that were randomised, where a job does that
    is_masked: bool = False  # whether sums leave this party masked
    read_facts: tuple[str, ...] = ()  # public facts of the label that were read from its rows


@dataclass(frozen=True)
class JobSize:
    """The public facts by which a job's cost is bounded.

    `categories` has an entry for each column: how many categories it has, 0 for a number or a
    boolean, None where the job does not say.
    """

    n_parties: int
    n_classes: int  # 0 for regression
    categories: tuple[int | None, ...]

    @property
    def n_columns(self) -> int:
        """How many columns there are."""
        return len(self.categories)


@dataclass(frozen=True)
class Bound:
    """The most that a job takes, if no party leaves: rounds, and bytes to and from one party.

    The bytes are at most `bytes` and `bytes_a_row` for each row the parties hold together. None:
    the settings set no limit.
    """

    rounds: int | None
    bytes: int | None
    bytes_a_row: int = 0


class Spec(ABC, Generic[S]):
    """One protocol, as everything outside its folder sees it.

    Attributes
    ----------
    name
        What job files, models and reports call it.
    settings
        The type of its settings.
    job_settings
        The type of a job file's [settings].
    asks
        Every question that a party answers; on the wire no other is read.
    summed
        Those of them whose replies are added up; under `secure_sum` they are masked.
    divides
        What the parties do not share: they hold different "rows", or different "columns".
    leaves
        What a job leaves behind: "one model" that everybody has, "own models" that each party
        keeps, or "parts" of a model, one at each party.
    step
        What `Ask.step` counts: a level of all trees, or a generation.
    begins_anew_until
        A run that is interrupted before this question was answered begins anew, since parties
        keep nothing of what they answered before; None: it always goes on where it was.
    """

    name: ClassVar[str]
    settings: ClassVar[type[Any]]
    job_settings: ClassVar[type[JobSettings]]
    asks: ClassVar[Asks]
    summed: ClassVar[Asks]
    divides: ClassVar[Literal["rows", "columns"]] = "rows"
    leaves: ClassVar[Literal["one model", "own models", "parts"]] = "one model"
    step: ClassVar[str] = "level"
    begins_anew_until: ClassVar[type[Ask[Any]] | None] = None

    # --- the two sides -------------------------------------------------------------------------

    @abstractmethod
    def settings_of(self, given: Any, facts: JobFacts) -> S:
        """Return the settings of a job file, checked; without classes, as far as can be said."""

    @abstractmethod
    def party(self, table: Any, settings: S, site: Site) -> Answering:
        """Return a party's side over its table; where columns are divided, over its `Holding`."""

    @abstractmethod
    def train(
        self, channel: Channel, settings: S, *, n_jobs: int | None, progress: Progress
    ) -> Trained:
        """Train with the parties on the channel; the coordinator's side."""

    # --- what policies and schemas must know ---------------------------------------------------

    @abstractmethod
    def needs_ranges(self, settings: S) -> bool:
        """Tell whether numbers must have declared ranges."""

    @abstractmethod
    def shows(self, settings: S) -> str:
        """Say what of a private job the coordinator sees without noise; empty: nothing.

        Written as what the job does: "shows the coordinator exact counts (method='noisy_max')".
        """

    def instead(self, settings: S) -> str:
        """Say what a job could ask for instead, where `shows` says something; may be empty."""
        del settings
        return ""

    @abstractmethod
    def smallest_leaf(self, settings: S) -> int | float:
        """Return the fewest rows of a leaf, or their share of all rows."""

    def repeats_rows(self, settings: S) -> bool:
        """Tell whether trees draw rows by the rows' own keys, so that shared rows matter."""
        del settings
        return False

    # --- what progress shows -------------------------------------------------------------------

    @abstractmethod
    def n_trees(self, settings: S) -> int:
        """Return how many trees grow."""

    @abstractmethod
    def steps_at_most(self, settings: S) -> int | None:
        """Return how many steps a job has at most, see `step`; None: no limit is set."""

    @abstractmethod
    def bound(self, settings: S, size: JobSize) -> Bound:
        """Return the most rounds and bytes that a job takes, from public facts alone."""

    # --- what a simulation compares with -------------------------------------------------------

    @abstractmethod
    def baseline(self, settings: S) -> tuple[str, Settings]:
        """Return what a job is compared with, without noise: a protocol's name, its settings."""

    @abstractmethod
    def is_pooled(self, settings: S) -> bool:
        """Tell whether the model equals that of the pooled rows, bit for bit."""

    @abstractmethod
    def small(self, settings: S) -> S:
        """Return settings that train in a moment, to have kernels compiled."""

    def described(self, settings: S) -> dict[str, Any]:
        """Return the settings as the report shows them."""
        return asdict(settings)  # type: ignore[call-overload, no-any-return]

    # --- models of single parties --------------------------------------------------------------

    def own_model(self, side: Any) -> ForestModel | None:
        """Return the model that a party keeps to itself; None: it has none, or not yet."""
        del side
        return None

    def gather(self, training: Any, sides: Mapping[str, Any]) -> tuple[Any, ForestModel]:
        """Return what only a simulation may: a training with all parties' models, and their own.

        Of protocols that leave "own models": the training with every party's model in one, and
        the models that the parties would have had alone.
        """
        raise NotImplementedError(f"{self.name} does not leave own models: {training}, {sides}")


class ColumnsSpec(Spec[S]):
    """A protocol over columns: its model is in parts, and one party holds the labels."""

    divides = "columns"
    leaves = "parts"

    @abstractmethod
    def label_party(self, settings: S) -> str:
        """Return who holds the labels."""

    @abstractmethod
    def join(self, sides: Mapping[str, Any]) -> ForestModel:
        """Return the model that all parts make; only a simulation has them in one place."""

    @abstractmethod
    def label_leakage(self, side: Any) -> Any:
        """Return how many labels node membership gives away, as the label party's side finds."""


def is_masked(given: Running, settings: Settings) -> bool:
    """Tell whether a job's sums are masked: by its wish, or since its noise is in shares."""
    privacy = settings.privacy
    return bool(given.secure_sum) or (privacy is not None and privacy.in_shares)
