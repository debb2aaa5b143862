"""The contract of a protocol, which simulation, deployment, policy, progress and docs read.

A family states it once, in the `spec.py` of its folder, and `spinney.jobs.registry` lists it. The
outer layers ask a protocol only for what is stated here. They never inspect its settings, parties
or messages.

```text
name, settings, job_settings    its name, what a job fixes, the keys of a job file
settings_of                     turns a job file into checked settings
party, train                    the party's side and the coordinator's side
asks, summed                    every question a party answers; those whose replies are summed
all_stay_in                     the phases in which a masked job cannot drop a party
counts_few                      why a party cannot count itself out of nodes with few of its rows
divides, leaves                 rows or columns; one model, a model for each party, or parts
needs_ranges, shows, smallest_leaf, repeats_rows      what policies and schemas must know
is_verified, permits_blind      whether parties check every sum; whether only they may see them
in_one_process                  why no cluster can count a party's rows
charges                         the most that a job may charge to a party's ledger
n_trees, step, steps_at_most    what progress shows
bound                           the most rounds and bytes a job takes
baseline, is_pooled, small      what a simulation compares with
differs, verb                   its words in the outcome of a simulation
```
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

import msgspec

from spinney.errors import SettingError
from spinney.privacy.accounting import JobTerms
from spinney.privacy.identities import Identity
from spinney.privacy.label_memory import LabelMemory
from spinney.privacy.ledger import Ledger
from spinney.privacy.scopes import Spend
from spinney.protocols.model import ForestModel
from spinney.protocols.settings import PrivacySettings, Task
from spinney.protocols.training import Roles, Trained
from spinney.tables.holding import Holding
from spinney.tables.schema import Category
from spinney.transport.channel import Answering, Ask, Channel
from spinney.typing import Progress

Asks = tuple[type[Ask[Any]], ...]


class CommonSettings(Protocol):
    """The settings of every protocol: frozen, and the same at every party."""

    @property
    def task(self) -> str:
        """What the model predicts: "classification" or "regression"."""
        ...

    @property
    def privacy(self) -> PrivacySettings | None:
        """How noise is added and what it costs; None if no noise is added."""
        ...


S = TypeVar("S", bound=CommonSettings)


class JobSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The [settings] of a job file: the parameters of the protocol's estimator.

    Each protocol defines a subclass with one field for every key it accepts, including the four of
    `RunSettings`. A key that is left out takes the estimator's default. The order of the fields is
    part of a job's digest: add new ones where they do not change it. `refused` names the keys that
    are read only to raise an error with the reason; no list of known keys shows them.
    """

    refused: ClassVar[tuple[str, ...]] = ("max_leaf_nodes",)
    coordinator: Literal["blind", "sighted"] | None = None  # whether it sees the job's sums


class RunSettings(Protocol):
    """The part of any `JobSettings` that the outer layers read: how a job runs."""

    @property
    def random_state(self) -> int:
        """The seed of all draws that are not secret."""
        ...

    @property
    def n_jobs(self) -> int | None:
        """The number of threads; None means all cores."""
        ...

    @property
    def secure_sum(self) -> bool | None:
        """Whether sums are masked."""
        ...

    @property
    def honest(self) -> int | None:
        """How many parties must be honest for the masks to hold; None: half, rounded up."""
        ...

    @property
    def coordinator(self) -> Literal["blind", "sighted"] | None:
        """Whether the coordinator sees the job's sums; None: it does."""
        ...


@dataclass(frozen=True)
class JobFacts:
    """What a job file says besides its settings.

    Attributes
    ----------
    name, task
        The job's name and task.
    classes
        The label's classes; None if they are not known yet.
    parties
        The parties' names, if the file gives them.
    is_aligned
        Whether all parties hold the same rows in the same order, as when one table is dealt out.
    held_out, held_out_seed
        The share of rows that no party trains on, and the seed that draws them.
    n_columns
        The number of columns that the job lists; 0 if it lists none.
    """

    name: str
    task: Task
    classes: tuple[Category, ...] | None = None
    parties: tuple[str, ...] = ()
    is_aligned: bool = False
    held_out: float = 0.0
    held_out_seed: int = 0
    n_columns: int = 0


@dataclass(frozen=True)
class PartySite:
    """What a party's side needs from its own site; the job does not fix any of it."""

    name: str
    n_jobs: int | None = None
    ledger: Ledger | None = None  # for private jobs
    data: str | None = None  # the data set whose account the ledger debits
    folder: Path | None = None  # where it keeps what a job must not lose; None: nowhere
    memory: LabelMemory | None = None  # randomised labels, for jobs that randomise them
    is_masked: bool = False  # whether sums leave this party masked
    read_facts: tuple[str, ...] = ()  # public facts of the label that were read from its rows
    run: str = ""  # the run's unique name, for what is signed
    parties: tuple[str, ...] = ()  # all parties of the job that it accepted
    identity: Identity | None = None  # signs for it and checks others; None: nobody signs
    max_match_ids: int | None = None  # the most ids it answers for; None: ten times its own
    min_own_rows: int = 0  # it counts itself out of nodes with fewer rows of a class; 0: of none


@dataclass(frozen=True)
class JobSize:
    """The public facts that bound a job's cost.

    `categories` has one entry per column: the number of categories, 0 for a number or a boolean,
    None if the job does not say.
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
    """An upper bound on a job's rounds, and on its bytes to and from one party, if no party leaves.

    A job takes at most `bytes`, plus `bytes_a_row` for each row the parties hold together. None
    means that the settings set no limit. It takes at most `usual_bytes`, if that is given, on a
    table whose nodes can all be cut at the first draw, as they mostly can.
    """

    rounds: int | None
    bytes: int | None
    bytes_a_row: int = 0
    usual_bytes: int | None = None


@dataclass(frozen=True)
class Charges:
    """The terms on which a party's ledger opens a job, and everything that the job may spend."""

    terms: JobTerms
    spends: Sequence[Spend]


class Spec(ABC, Generic[S]):
    """One protocol, as everything outside its folder sees it.

    Attributes
    ----------
    name
        Its name in job files, models and reports.
    settings
        The type of its settings.
    job_settings
        The type of a job file's [settings].
    asks
        Every question that a party answers; any other is rejected when it is decoded.
    summed
        The questions whose replies are summed; `secure_sum` masks them (secure aggregation).
    divides
        Whether the parties hold different "rows" (horizontal) or different "columns" (vertical).
    leaves
        What a job produces: "one model" that everybody has, "own models" that each party keeps, or
        "parts" of a model, one at each party.
    step
        What `Ask.step` counts: levels of all trees, or generations.
    begins_anew_until
        A run that is interrupted before this question was answered starts again, because parties
        store none of their earlier answers. None: a run always resumes where it stopped.
    differs
        Why the model may differ from the pooled one if no noise is the reason; empty: not stated.
    verb
        What the parties did to get their trees, in the past tense: they "grew" or "evolved" them.
    all_stay_in
        The phases (see `Progress`) in which a job with masked sums cannot drop a party, because the
        phase's sums would be asked again over fewer: the difference would be one party's counts.
    counts_few
        Why a party cannot count itself out of nodes in which it has few rows, in exact jobs; empty:
        it can. Phrased as what the protocol does: "counts a party's rows however few they are".
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
    all_stay_in: ClassVar[tuple[str, ...]] = ()
    counts_few: ClassVar[str] = "counts a party's rows however few they are"
    differs: ClassVar[str] = ""
    verb: ClassVar[str] = "grew"

    # --- the two sides -------------------------------------------------------------------------

    @abstractmethod
    def settings_of(self, given: Any, facts: JobFacts) -> S:
        """Return the checked settings of a job file; without classes, check what is possible."""

    @abstractmethod
    def party(self, table: Any, settings: S, site: PartySite) -> Answering:
        """Return a party's side for its table, or for its `Holding` if columns are divided."""

    def sit_together(self, parties: Sequence[Any]) -> None:
        """Let the sides of parties in one process share their work; each answers as if alone."""
        del parties

    @abstractmethod
    def train(
        self, channel: Channel, settings: S, *, n_jobs: int | None, progress: Progress
    ) -> Trained:
        """Train with the parties on the channel; the coordinator's side.

        It reports its phases and their steps to `progress`, in the units of `step`.
        """

    # --- what policies and schemas must know ---------------------------------------------------

    @abstractmethod
    def needs_ranges(self, settings: S) -> bool:
        """Return whether numbers must have declared ranges."""

    @abstractmethod
    def shows(self, settings: S) -> str:
        """Say what the coordinator sees without noise in a private job; empty if nothing.

        Phrased as what the job does: "shows the coordinator exact counts (method='noisy_max')".
        """

    def is_verified(self, settings: S) -> bool:
        """Return whether parties derive the job's questions, from sums that they are told.

        Not if only the coordinator may see the sums.
        """
        del settings
        return self.divides == "rows"

    def masks(self, given: Any, n_parties: int) -> bool:
        """Return whether a job file's sums can be masked."""
        del given, n_parties
        return self.divides == "rows"

    def permits_blind(self, settings: S) -> bool:
        """Return whether the job can do with a coordinator that does not see its sums."""
        del settings
        return False

    def instead(self, settings: S) -> str:
        """Name an alternative setting for a job with a non-empty `shows`; may be empty."""
        del settings
        return ""

    @abstractmethod
    def smallest_leaf(self, settings: S) -> int | float:
        """Return the minimum number of rows in a leaf, or the minimum share of all rows."""

    def repeats_rows(self, settings: S) -> bool:
        """Return whether trees draw rows by key, so that rows held by two parties matter."""
        del settings
        return False

    def leaves_rows_out(self, settings: S) -> bool:
        """Return whether each tree leaves out rows by key, by which its party can judge it."""
        del settings
        return False

    def in_one_process(self, settings: S) -> str:
        """Say why rows must be in one process, so that no cluster can count them; empty: no reason.

        Phrased as what the job does: "adds noise to rows".
        """
        del settings
        return f"follows protocol = {self.name!r}"

    def charges(self, table: Any, settings: S, n_parties: int, data: str) -> Charges | None:
        """Return the most that a job may charge to a party's ledger; None: nothing.

        A party that is asked to join checks the same charges. A protocol with noise must state
        them, so that a party can answer a proposal truly.

        Parameters
        ----------
        table
            The party's table, or its `Holding` if columns are divided.
        settings, n_parties
            The job's settings, and how many parties take part.
        data
            The name of the data set whose account the ledger debits.
        """
        del table, settings, n_parties, data
        return None

    # --- what progress shows -------------------------------------------------------------------

    @abstractmethod
    def n_trees(self, settings: S) -> int:
        """Return how many trees grow."""

    @abstractmethod
    def steps_at_most(self, settings: S) -> int | None:
        """Return the maximum number of steps of a job (see `step`); None if there is no limit."""

    @abstractmethod
    def bound(self, settings: S, size: JobSize) -> Bound:
        """Return an upper bound on a job's rounds and bytes, from public facts alone."""

    # --- what a simulation compares with -------------------------------------------------------

    @abstractmethod
    def baseline(self, settings: S) -> tuple[str, CommonSettings]:
        """Return the noiseless protocol, name and settings, that a job is compared with."""

    @abstractmethod
    def is_pooled(self, settings: S) -> bool:
        """Return whether the model equals that of the pooled rows, bit for bit."""

    @abstractmethod
    def small(self, settings: S) -> S:
        """Return settings that train quickly, so that the kernels are compiled."""

    def described(self, settings: S) -> dict[str, Any]:
        """Return the settings as the report shows them."""
        return asdict(settings)  # type: ignore[call-overload, no-any-return]


class OwnModelsSpec(Spec[S]):
    """A protocol that leaves "own models": each party keeps one."""

    leaves = "own models"

    @abstractmethod
    def own_model(self, side: Any) -> ForestModel | None:
        """Return the model that a party keeps to itself; None if it has none yet."""

    @abstractmethod
    def gather(self, training: Any, sides: Mapping[str, Any]) -> tuple[Any, ForestModel]:
        """Return a training with all parties' models, and the models they would have had alone.

        Only a simulation may do this.
        """


class ColumnsSide(Answering, Protocol):
    """A party's side in a vertical protocol; the rows are known once they are matched."""

    @property
    def training(self) -> Holding:
        """The party's data for the rows that are trained on."""
        ...

    @property
    def held_out(self) -> Holding:
        """The party's data for the rows that are held back."""
        ...


class ColumnsSpec(Spec[S]):
    """A vertical protocol: its model is in parts, and one party holds the labels.

    Attributes
    ----------
    prediction_asks
        Every question that a party answers in a job that predicts.
    """

    divides = "columns"
    leaves = "parts"
    prediction_asks: ClassVar[Asks]

    @abstractmethod
    def party(self, table: Any, settings: S, site: PartySite) -> ColumnsSide:
        """Return a party's side for its `Holding`."""

    @abstractmethod
    def label_party(self, settings: S) -> str:
        """Return who holds the labels."""

    @abstractmethod
    def join(self, sides: Mapping[str, Any]) -> ForestModel:
        """Return the model joined from all parts; only a simulation has them in one place."""

    @abstractmethod
    def predicting_party(
        self, held: Holding, settings: S, trained: Path, site: PartySite
    ) -> Answering:
        """Return a party's side of a job that predicts its present rows with its part of a model.

        `trained` is its folder of the run that trained the model; predictions go to `site.folder`.
        """

    @abstractmethod
    def predict(self, channel: Channel, settings: S, roles: Roles, *, n_jobs: int | None) -> int:
        """Let the parties predict the rows they all hold; return how many there are."""

    @abstractmethod
    def label_leakage(self, side: Any) -> Any:
        """Return how many labels node membership reveals, as measured by the label party."""


def is_blind(spec: Spec[Any], given: RunSettings, settings: CommonSettings, n_parties: int) -> bool:
    """Return whether a job's coordinator does not see its sums; raise if that is impossible."""
    if given.coordinator != "blind":
        return False
    if not (spec.is_verified(settings) and spec.permits_blind(settings)):
        why = "this job has steps whose results the coordinator must see"
    elif not is_masked(given, settings):
        why = "its sums are not masked. Set secure_sum = true"
    elif n_parties < 2:
        why = "it has one party"
    else:
        return True
    raise SettingError(f"coordinator = 'blind' is not possible: {why}.")


def is_masked(given: RunSettings, settings: CommonSettings) -> bool:
    """Return whether a job's sums are masked: on request, or because its noise is in shares."""
    privacy = settings.privacy
    return bool(given.secure_sum) or (privacy is not None and privacy.in_shares)
