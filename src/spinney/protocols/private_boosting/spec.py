"""Private boosting, as everything outside this folder sees it."""

from dataclasses import replace
from typing import Any

from spinney.protocols.noisy_boosting.budget import plan_of
from spinney.protocols.noisy_boosting.cost import bound_of
from spinney.protocols.noisy_boosting.settings import MOST_PASSES, MOST_ROUNDS, Settings
from spinney.protocols.private_boosting.coordinator import train
from spinney.protocols.private_boosting.messages import ASKS, SUMMED
from spinney.protocols.private_boosting.party import Party
from spinney.protocols.private_boosting.settings import (
    NAME,
    PrivateBoostingJobSettings,
    settings_of,
)
from spinney.protocols.settings import ForestSettings
from spinney.protocols.spec import Bound, Charges, JobFacts, JobSize, PartySite, Spec
from spinney.protocols.training import Training
from spinney.tables.table import Table
from spinney.transport.channel import Channel
from spinney.typing import Progress


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
        plan = plan_of(table.schema, settings, n_parties)
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
        return Bound(*bound_of(settings, size))

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
