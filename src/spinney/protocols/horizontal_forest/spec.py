"""A horizontal forest, as everything outside this folder sees it."""

from spinney.protocols.horizontal_forest.coordinator import train
from spinney.protocols.horizontal_forest.messages import ASKS, SUMMED
from spinney.protocols.horizontal_forest.party import Party
from spinney.protocols.horizontal_forest.settings import NAME, ForestJobSettings, settings_of
from spinney.protocols.row_forest.contract import RowForestSpec
from spinney.protocols.row_forest.cost import cells_of_stages, levels_bound, setup_rounds
from spinney.protocols.row_forest.party import private_plan
from spinney.protocols.settings import ForestSettings
from spinney.protocols.spec import Bound, Charges, JobFacts, JobSize, PartySite
from spinney.protocols.training import Training
from spinney.tables.table import Table
from spinney.transport.channel import Channel
from spinney.typing import Progress

_AFTER = 3  # rounds at the end: quality or leaves, claims; and joining


class HorizontalForestSpec(RowForestSpec):
    """S1: a random forest over parties that hold different rows."""

    name = NAME
    job_settings = ForestJobSettings
    asks = ASKS
    summed = SUMMED
    differs = "adaptive histograms are approximate"

    def settings_of(self, given: ForestJobSettings, facts: JobFacts) -> ForestSettings:
        """Return the settings of a job file, checked."""
        return settings_of(given, facts)

    def party(self, table: Table, settings: ForestSettings, site: PartySite) -> Party:
        """Return a party's side; it pays from its ledger in private jobs."""
        ledger = site.ledger if settings.privacy is not None else None
        return Party(
            table,
            n_jobs=site.n_jobs,
            ledger=ledger,
            data=site.data,
            is_masked=site.is_masked,
            min_own_rows=self.least_own(settings, site),
        )

    def train(
        self, channel: Channel, settings: ForestSettings, *, n_jobs: int | None, progress: Progress
    ) -> Training:
        """Grow a forest."""
        return train(channel, settings, n_jobs=n_jobs, progress=progress)

    def charges(
        self, table: Table, settings: ForestSettings, n_parties: int, data: str
    ) -> Charges | None:
        """Return what a private job may charge."""
        if settings.privacy is None:
            return None
        plan = private_plan(table.schema, settings, n_parties)
        return Charges(plan.terms(data), plan.planned())

    def needs_ranges(self, settings: ForestSettings) -> bool:
        """Return whether bins or noise are based on declared ranges."""
        return settings.binning in ("ranges", "magnitudes") or settings.privacy is not None

    def shows(self, settings: ForestSettings) -> str:
        """Return an empty string: in a private job everything the coordinator sees has noise."""
        del settings
        return ""

    def bound(self, settings: ForestSettings, size: JobSize) -> Bound:
        """Return the bound for one level per round."""
        return levels_bound(
            settings,
            size,
            stage_cells=cells_of_stages(settings, size),
            cell_bytes=8 * max(size.n_classes, 2) + (8 if settings.binning == "adaptive" else 0),
            others=setup_rounds(settings) + _AFTER,
        )

    def masks(self, given: ForestJobSettings, n_parties: int) -> bool:
        """Return whether sums can be masked: not if the coordinator merges histograms."""
        del n_parties
        return given.binning != "adaptive"

    def permits_blind(self, settings: ForestSettings) -> bool:
        """Return whether counts are summed: parties' own bins are merged by the coordinator."""
        return settings.binning != "adaptive"

    def is_pooled(self, settings: ForestSettings) -> bool:
        """Return whether counts are exact and over shared bins."""
        return settings.privacy is None and settings.binning != "adaptive"


SPEC = HorizontalForestSpec()
