"""Extra-trees, as everything outside this folder sees them."""

from spinney.protocols.extra_trees.coordinator import train
from spinney.protocols.extra_trees.messages import ASKS, SUMMED
from spinney.protocols.extra_trees.party import Party, extra_plan
from spinney.protocols.extra_trees.settings import NAME, ExtraJobSettings, settings_of
from spinney.protocols.row_forest.contract import RowForestSpec
from spinney.protocols.row_forest.cost import columns_of_stages, levels_bound, setup_rounds
from spinney.protocols.rows.drawing import DRAWN_AT_MOST
from spinney.protocols.settings import ForestSettings
from spinney.protocols.spec import Bound, Charges, JobFacts, JobSize, PartySite
from spinney.protocols.training import Training
from spinney.tables.table import Table
from spinney.transport.channel import Channel
from spinney.typing import Progress

_AFTER = 3  # rounds at the end: quality or leaves, claims; and joining
_SIDES = 3  # cells of a cut: left, right, missing


class ExtraTreesSpec(RowForestSpec):
    """S5: extremely randomised trees over parties that hold different rows."""

    name = NAME
    job_settings = ExtraJobSettings
    asks = ASKS
    summed = SUMMED

    def settings_of(self, given: ExtraJobSettings, facts: JobFacts) -> ForestSettings:
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
            memory=site.memory,
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
        plan = extra_plan(table.schema, settings, n_parties)
        return Charges(plan.terms(data), plan.planned())

    def needs_ranges(self, settings: ForestSettings) -> bool:
        """Return whether cuts are drawn between declared bounds."""
        return settings.binning != "quantiles" or settings.privacy is not None

    def shows(self, settings: ForestSettings) -> str:
        """Say that with randomised labels everything else is exact."""
        if settings.privacy is not None and settings.privacy.randomises_labels:
            return "adds noise to labels only (label_privacy='local')"
        return ""

    def bound(self, settings: ForestSettings, size: JobSize) -> Bound:
        """Return the bound for one round per level, or two if thresholds are exchanged."""
        drawn = [DRAWN_AT_MOST * n for n in columns_of_stages(settings, size)]
        counters = 33 if settings.privacy is not None else max(size.n_classes, 2)
        return levels_bound(
            settings,
            size,
            stage_cells=[_SIDES * n for n in drawn],
            cell_bytes=8 * max(counters, size.n_classes + 1),
            rounds_a_level=2 if settings.thresholds == "exchanged" else 1,
            others=setup_rounds(settings) + _AFTER,
        )

    def masks(self, given: ExtraJobSettings, n_parties: int) -> bool:
        """Return whether sums can be masked: not if the coordinator compares smallest values."""
        del n_parties
        return given.thresholds != "exchanged"

    def permits_blind(self, settings: ForestSettings) -> bool:
        """Return whether cuts are public: exchanged ones rest on each party's own values."""
        return settings.thresholds == "public"

    def is_pooled(self, settings: ForestSettings) -> bool:
        """Return whether counts are exact."""
        return settings.privacy is None


SPEC = ExtraTreesSpec()
