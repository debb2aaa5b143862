"""A private forest, as everything outside this folder sees it."""

from dataclasses import replace
from typing import Any

from spinney.protocols.private_forest.budget import plan_of
from spinney.protocols.private_forest.coordinator import train
from spinney.protocols.private_forest.messages import ASKS, SUMMED
from spinney.protocols.private_forest.party import Party
from spinney.protocols.private_forest.settings import (
    NAME,
    PrivateForestJobSettings,
    Settings,
    settings_of,
)
from spinney.protocols.settings import ForestSettings
from spinney.protocols.spec import Bound, Charges, JobFacts, JobSize, PartySite, Spec
from spinney.protocols.training import Training
from spinney.tables.table import Table
from spinney.transport.channel import Channel
from spinney.trees.dtypes import MAX_BINS
from spinney.typing import Progress

_ROUNDS = 4  # schemas, joining, leaves, claims
_HEAD, _NODE = 4096, 64  # bytes of a message besides its arrays, and of a node it repeats


class PrivateForestSpec(Spec[Settings]):
    """A private forest in one secure sum."""

    name = NAME
    settings = Settings
    job_settings = PrivateForestJobSettings
    asks = ASKS
    summed = SUMMED

    def settings_of(self, given: PrivateForestJobSettings, facts: JobFacts) -> Settings:
        """Return the settings of a job file, checked."""
        return settings_of(given, facts)

    def party(self, table: Table, settings: Settings, site: PartySite) -> Party:
        """Return a party's side; it always pays from its ledger."""
        del settings
        return Party(table, n_jobs=site.n_jobs, ledger=site.ledger, data=site.data)

    def train(
        self, channel: Channel, settings: Settings, *, n_jobs: int | None, progress: Progress
    ) -> Training:
        """Draw the trees and count their leaves."""
        return train(channel, settings, n_jobs=n_jobs, progress=progress)

    def charges(
        self, table: Table, settings: Settings, n_parties: int, data: str
    ) -> Charges | None:
        """Return what the one release charges."""
        plan = plan_of(table.schema, settings, n_parties)
        return Charges(plan.terms(data), plan.planned())

    def needs_ranges(self, settings: Settings) -> bool:
        """Return True: cuts are drawn in declared ranges."""
        del settings
        return True

    def shows(self, settings: Settings) -> str:
        """Return an empty string: everything the coordinator sees has noise."""
        del settings
        return ""

    def smallest_leaf(self, settings: Settings) -> int | float:
        """Return 1: a leaf may hold any number of rows, since its counts carry noise."""
        del settings
        return 1

    def n_trees(self, settings: Settings) -> int:
        """Return how many trees are drawn."""
        return settings.n_estimators

    def steps_at_most(self, settings: Settings) -> int | None:
        """Return 1: all levels are one step."""
        del settings
        return 1

    def bound(self, settings: Settings, size: JobSize) -> Bound:
        """Return the bound for one question about all leaves."""
        n_leaves = settings.n_estimators << settings.max_depth
        counters = 8 * n_leaves * max(size.n_classes, 2)
        schema = 256 * MAX_BINS * size.n_columns
        return Bound(_ROUNDS, counters + 2 * n_leaves * _NODE + schema + _ROUNDS * _HEAD)

    def baseline(self, settings: Settings) -> tuple[str, ForestSettings]:
        """Return an ordinary forest of the same size."""
        return "horizontal_forest", ForestSettings(
            task="classification",
            n_estimators=settings.n_estimators,
            max_depth=settings.max_depth,
            seed=settings.seed,
        )

    def described(self, settings: Settings) -> dict[str, Any]:
        """Return the settings as the report shows them."""
        return settings.described()

    def permits_blind(self, settings: Settings) -> bool:
        """Return whether all steps are sums."""
        del settings
        return True

    def is_pooled(self, settings: Settings) -> bool:
        """Return False: noise makes every forest different."""
        del settings
        return False

    def small(self, settings: Settings) -> Settings:
        """Return a tree of two levels."""
        return replace(settings, n_estimators=1, max_depth=2)


SPEC = PrivateForestSpec()
