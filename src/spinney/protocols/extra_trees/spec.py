"""Extra-trees, as everything outside this folder sees them."""

from dataclasses import replace

from spinney.protocols.extra_trees.coordinator import train
from spinney.protocols.extra_trees.messages import ASKS, DRAWN_AT_MOST, SUMMED
from spinney.protocols.extra_trees.party import Party
from spinney.protocols.extra_trees.settings import NAME, ExtraJobSettings, settings_of
from spinney.protocols.row_forest.cost import levels_bound, setup_rounds
from spinney.protocols.settings import ForestSettings
from spinney.protocols.spec import Bound, JobFacts, JobSize, PartySite, Spec
from spinney.protocols.training import Training
from spinney.tables.table import Table
from spinney.transport.channel import Channel
from spinney.typing import Progress

_AFTER = 3  # rounds at the end: quality or leaves, claims; and joining
_SIDES = 3  # cells of a cut: left, right, missing


class ExtraTreesSpec(Spec[ForestSettings]):
    """S5: extremely randomised trees over parties that hold different rows."""

    name = NAME
    settings = ForestSettings
    job_settings = ExtraJobSettings
    asks = ASKS
    summed = SUMMED
    all_stay_in = ("binning",)

    def settings_of(self, given: ExtraJobSettings, facts: JobFacts) -> ForestSettings:
        """Return the settings of a job file, checked."""
        return settings_of(given, facts)

    def party(self, table: Table, settings: ForestSettings, site: PartySite) -> Party:
        """Return a party's side; it pays from its ledger in private jobs."""
        ledger = site.ledger if settings.privacy is not None else None
        return Party(table, n_jobs=site.n_jobs, ledger=ledger, data=site.data, memory=site.memory)

    def train(
        self, channel: Channel, settings: ForestSettings, *, n_jobs: int | None, progress: Progress
    ) -> Training:
        """Grow a forest."""
        return train(channel, settings, n_jobs=n_jobs, progress=progress)

    def needs_ranges(self, settings: ForestSettings) -> bool:
        """Return whether cuts are drawn between declared bounds."""
        return settings.binning != "quantiles" or settings.privacy is not None

    def shows(self, settings: ForestSettings) -> str:
        """Say that with randomised labels everything else is exact."""
        if settings.privacy is not None and settings.privacy.randomises_labels:
            return "adds noise to labels only (label_privacy='local')"
        return ""

    def smallest_leaf(self, settings: ForestSettings) -> int | float:
        """Return the fewest rows of a leaf."""
        return settings.min_samples_leaf

    def repeats_rows(self, settings: ForestSettings) -> bool:
        """Return whether trees draw a bootstrap."""
        return settings.bootstrap

    def n_trees(self, settings: ForestSettings) -> int:
        """Return how many trees grow."""
        return settings.n_estimators

    def steps_at_most(self, settings: ForestSettings) -> int | None:
        """Return how deep trees may grow."""
        return settings.max_depth

    def bound(self, settings: ForestSettings, size: JobSize) -> Bound:
        """Return the bound for one round per level, or two if thresholds are exchanged."""
        drawn = DRAWN_AT_MOST * settings.n_slots(max(size.n_columns, 1))
        counters = 33 if settings.privacy is not None else max(size.n_classes, 2)
        return levels_bound(
            settings,
            size,
            node_cells=_SIDES * drawn,
            cell_bytes=8 * max(counters, size.n_classes + 1),
            rounds_a_level=2 if settings.thresholds == "exchanged" else 1,
            others=setup_rounds(settings) + _AFTER,
        )

    def baseline(self, settings: ForestSettings) -> tuple[str, ForestSettings]:
        """Return the same trees without noise."""
        return NAME, replace(settings, privacy=None)

    def is_pooled(self, settings: ForestSettings) -> bool:
        """Return whether counts are exact."""
        return settings.privacy is None

    def small(self, settings: ForestSettings) -> ForestSettings:
        """Return a tree of two levels."""
        return replace(settings, n_estimators=1, max_depth=2)


SPEC = ExtraTreesSpec()
