"""The protocols that job files can name: one line each, and everything else finds them here.

Simulated and deployed jobs run the same entry: the same settings, the same `Party`, the same
`train`. A protocol is added by adding an `Entry`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from spinney.errors import SettingError
from spinney.jobs.extra_settings import (
    extra_baseline,
    extra_party,
    extra_settings_of,
)
from spinney.jobs.file import JobFile
from spinney.jobs.private_settings import (
    forest_baseline,
    tree_baseline,
    tree_settings_of,
)
from spinney.jobs.private_settings import forest_settings_of as private_forest_settings_of
from spinney.jobs.settings import forest_settings_of, genetic_settings_of
from spinney.jobs.vertical_settings import (
    vertical_baseline,
    vertical_party,
    vertical_settings_of,
)
from spinney.privacy.label_memory import LabelMemory
from spinney.privacy.ledger import Ledger
from spinney.protocols import (
    extra_trees,
    genetic_tree,
    horizontal_forest,
    private_forest,
    private_tree,
)
from spinney.protocols.genetic_tree.gathered import own_model
from spinney.protocols.model import ForestModel
from spinney.protocols.vertical_forest import matched as matched_forest
from spinney.protocols.vertical_forest import settings as partial_model
from spinney.tables.schema import Category
from spinney.tables.table import Table
from spinney.transport.channel import Answering, Ask, Channel
from spinney.typing import Progress


@dataclass(frozen=True)
class Site:
    """Where a party's side runs: what is its own business and not the job's."""

    name: str
    n_jobs: int | None = None
    ledger: Ledger | None = None  # of private jobs
    data: str | None = None  # the data set whose account the ledger debits
    folder: Path | None = None  # where it keeps what a job must not lose; None: nowhere
    memory: LabelMemory | None = None  # of labels that were randomised, where a job does that


class Train(Protocol):
    """The coordinator's loop."""

    def __call__(
        self, channel: Channel, settings: Any, *, n_jobs: int | None, progress: Progress
    ) -> Any:
        """Train with the parties on the channel; return a `Training`, or for columns its like."""
        ...


@dataclass(frozen=True)
class Entry:
    """One protocol, as jobs see it.

    Attributes
    ----------
    settings
        From a job file and the label's classes to the protocol's settings, checked; without
        classes, only what can be said without them.
    party
        A party's side: its table (a `Holding`, where parties have different columns), the job's
        settings, its site.
    train
        The coordinator's side.
    asks
        Every question that a party answers; on the wire no other is read.
    summed
        Those of them whose replies are added up; under `secure_sum` they are masked.
    baseline
        From its settings to what it is held against without noise: a protocol and its settings.
    divides
        What the parties of a job do not share: they have other "rows", or other "columns".
    own
        Of protocols that leave each party a model of its own: from a party's side to that model,
        once there is one. None: the coordinator's model is everybody's.
    """

    name: str
    settings: Callable[[JobFile, tuple[Category, ...] | None], Any]
    party: Callable[[Any, Any, Site], Answering]
    train: Train
    asks: tuple[type[Ask[Any]], ...]
    summed: tuple[type[Ask[Any]], ...]
    baseline: Callable[[Any], tuple[str, Any]]
    divides: Literal["rows", "columns"] = "rows"
    own: Callable[[Any], ForestModel | None] | None = None


def _horizontal_party(table: Table, settings: Any, site: Site) -> Answering:
    ledger = site.ledger if settings.privacy is not None else None
    return horizontal_forest.Party(table, n_jobs=site.n_jobs, ledger=ledger, data=site.data)


def _party_of(side: Callable[..., Answering]) -> Callable[[Table, Any, Site], Answering]:
    """Return a private protocol's side; it always pays from its ledger."""

    def party(table: Table, settings: Any, site: Site) -> Answering:  # noqa: ARG001
        return side(table, n_jobs=site.n_jobs, ledger=site.ledger, data=site.data)

    return party


def genetic_party(table: Table, settings: Any, site: Site) -> genetic_tree.Party:
    """Return a party's side of evolved trees; it keeps its tree to itself."""
    is_private = settings.privacy is not None
    return genetic_tree.Party(
        table,
        site.name,
        n_jobs=site.n_jobs,
        ledger=site.ledger if is_private or settings.size_epsilon is not None else None,
        data=site.data,
        only_noise=is_private,
    )


ENTRIES: tuple[Entry, ...] = (
    Entry(
        horizontal_forest.NAME,
        forest_settings_of,
        _horizontal_party,
        horizontal_forest.train,
        horizontal_forest.ASKS,
        horizontal_forest.SUMMED,
        lambda settings: (horizontal_forest.NAME, replace(settings, privacy=None)),
    ),
    Entry(
        private_tree.NAME,
        tree_settings_of,
        _party_of(private_tree.Party),
        private_tree.train,
        private_tree.ASKS,
        private_tree.SUMMED,
        tree_baseline,
    ),
    Entry(
        private_forest.NAME,
        private_forest_settings_of,
        _party_of(private_forest.Party),
        private_forest.train,
        private_forest.ASKS,
        private_forest.SUMMED,
        forest_baseline,
    ),
    Entry(
        genetic_tree.NAME,
        genetic_settings_of,
        genetic_party,
        genetic_tree.train,
        genetic_tree.ASKS,
        genetic_tree.SUMMED,
        lambda settings: (genetic_tree.NAME, replace(settings, privacy=None)),
        own=own_model,
    ),
    Entry(
        extra_trees.NAME,
        extra_settings_of,
        extra_party,
        extra_trees.train,
        extra_trees.ASKS,
        extra_trees.SUMMED,
        extra_baseline,
    ),
    Entry(
        partial_model.NAME,
        vertical_settings_of,
        vertical_party,
        matched_forest.train,
        matched_forest.ASKS,
        matched_forest.SUMMED,
        vertical_baseline,
        divides="columns",
    ),
)


def entry_of(name: str) -> Entry:
    """Return the protocol of this name."""
    for entry in ENTRIES:
        if entry.name == name:
            return entry
    known = " or ".join(repr(entry.name) for entry in ENTRIES)
    raise SettingError(f"protocol must be {known}; got {name!r}.")
