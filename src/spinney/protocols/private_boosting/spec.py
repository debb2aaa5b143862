"""Private boosting, as everything outside this folder sees it."""

from dataclasses import replace
from typing import Any

from spinney.protocols.private_boosting.budget import EDGE_CELLS, plan_of
from spinney.protocols.private_boosting.coordinator import train
from spinney.protocols.private_boosting.messages import ASKS, SUMMED
from spinney.protocols.private_boosting.party import Party
from spinney.protocols.private_boosting.settings import (
    MOST_DEPTH,
    MOST_PASSES,
    MOST_ROUNDS,
    NAME,
    PrivateBoostingJobSettings,
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

_AROUND = 4  # rounds besides batches: schemas, joining, first facts, claims
_HEAD = 4096  # bytes of a message besides its arrays


class PrivateBoostingSpec(Spec[Settings]):
    """Private boosting from noisy sums."""

    name = NAME
    settings = Settings
    job_settings = PrivateBoostingJobSettings
    asks = ASKS
    summed = SUMMED
    step = "batch"

    def settings_of(self, given: PrivateBoostingJobSettings, facts: JobFacts) -> Settings:
        """Return the settings of a job file, checked."""
        return settings_of(given, facts)

    def party(self, table: Table, settings: Settings, site: PartySite) -> Party:
        """Return a party's side; it always pays from its ledger."""
        del settings
        return Party(table, n_jobs=site.n_jobs, ledger=site.ledger, data=site.data)

    def train(
        self, channel: Channel, settings: Settings, *, n_jobs: int | None, progress: Progress
    ) -> Training:
        """Boost from noisy sums."""
        return train(channel, settings, n_jobs=n_jobs, progress=progress)

    def charges(
        self, table: Table, settings: Settings, n_parties: int, data: str
    ) -> Charges | None:
        """Return what all releases charge."""
        plan, _ = plan_of(table.schema, settings, n_parties)
        return Charges(plan.terms(data), plan.planned())

    def needs_ranges(self, settings: Settings) -> bool:
        """Return True: cells are parts of declared ranges."""
        del settings
        return True

    def shows(self, settings: Settings) -> str:
        """Return an empty string: everything the coordinator sees has noise."""
        del settings
        return ""

    def smallest_leaf(self, settings: Settings) -> int | float:
        """Return 1: a leaf may hold any number of rows, since its sums carry noise."""
        del settings
        return 1

    def n_trees(self, settings: Settings) -> int:
        """Return how many trees are drawn for a column, at most."""
        return settings.n_passes or MOST_PASSES

    def steps_at_most(self, settings: Settings) -> int | None:
        """Return the first facts and all batches; None if their number follows from the columns."""
        return 1 + MOST_ROUNDS if settings.batch_trees is None else None

    def bound(self, settings: Settings, size: JobSize) -> Bound:
        """Return the bound for one batch of trees per round."""
        n_trees = (settings.n_passes or MOST_PASSES) * size.n_columns
        batches = min(MOST_ROUNDS, n_trees)
        if settings.batch_trees is not None:
            batches = -(-n_trees // settings.batch_trees)
        sums = size.n_classes + 1 if size.n_classes > 2 else 2
        leaves = 8 * n_trees * sums << (settings.max_depth or MOST_DEPTH)
        first = 8 * (size.n_classes + 2 + size.n_columns * EDGE_CELLS)
        schema = 256 * MAX_BINS * size.n_columns
        rounds = _AROUND + batches
        # a sum is told with the next question; a question names the values of all batches so far
        return Bound(rounds, 2 * (leaves + first) + leaves * batches + schema + rounds * _HEAD)

    def baseline(self, settings: Settings) -> tuple[str, ForestSettings]:
        """Return an ordinary forest."""
        return "horizontal_forest", ForestSettings(
            task=settings.task,
            seed=settings.seed,
            criterion="gini" if settings.task == "classification" else "squared_error",
        )

    def described(self, settings: Settings) -> dict[str, Any]:
        """Return the settings as the report shows them."""
        return settings.described()

    def permits_blind(self, settings: Settings) -> bool:
        """Return that all steps are sums."""
        del settings
        return True

    def is_pooled(self, settings: Settings) -> bool:
        """Return False: noise makes every model different."""
        del settings
        return False

    def small(self, settings: Settings) -> Settings:
        """Return one pass of two levels."""
        return replace(settings, n_passes=1, max_depth=2, n_rows=None)


SPEC = PrivateBoostingSpec()
