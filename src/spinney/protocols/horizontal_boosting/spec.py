"""Boosted trees over rows, as everything outside this folder sees them."""

from collections.abc import Sequence
from dataclasses import replace

from spinney.protocols.boosted.settings import BoostingJobSettings, Settings
from spinney.protocols.horizontal_boosting.coordinator import SoFar, train
from spinney.protocols.horizontal_boosting.messages import ASKS, SUMMED
from spinney.protocols.horizontal_boosting.party import Party
from spinney.protocols.horizontal_boosting.settings import NAME, settings_of
from spinney.protocols.spec import Bound, JobFacts, JobSize, PartySite, Spec
from spinney.protocols.training import Training
from spinney.tables.table import Table
from spinney.transport.channel import Channel
from spinney.trees.dtypes import MAX_BINS
from spinney.trees.quantiles import DIGITS
from spinney.typing import Progress

_HEAD = 4096  # bytes of a message besides its arrays
_FACTS = 4 * 4096 + 64  # bytes of a column's counts: by magnitude, and missing values
_SUMS = 24  # bytes of a cell's rows, gradients and curvatures
_AFTER = 3  # rounds besides bins and levels: targets, curves, quality


class HorizontalBoostingSpec(Spec[Settings]):
    """Gradient boosting over parties that hold different rows."""

    name = NAME
    settings = Settings
    job_settings = BoostingJobSettings
    asks = ASKS
    summed = SUMMED
    all_stay_in = ("binning",)
    counts_few = (
        "sums gradients of the same rows in every tree: nodes left out of one tree follow from "
        "others, so that the rule would hide nothing"
    )
    so_far: SoFar | None = None  # trees to which a job adds

    def after(self, so_far: SoFar) -> "HorizontalBoostingSpec":
        """Return the contract of jobs that add trees to others."""
        longer = HorizontalBoostingSpec()
        longer.so_far = so_far
        return longer

    def settings_of(self, given: BoostingJobSettings, facts: JobFacts) -> Settings:
        """Return the settings of a job file, checked."""
        return settings_of(given, facts)

    def party(self, table: Table, settings: Settings, site: PartySite) -> Party:
        """Return a party's side."""
        del settings
        return Party(table, n_jobs=site.n_jobs, is_masked=site.is_masked)

    def sit_together(self, parties: Sequence[Party]) -> None:
        """Let parties of one process count in one call."""
        Party.sit_together(parties)

    def train(
        self, channel: Channel, settings: Settings, *, n_jobs: int | None, progress: Progress
    ) -> Training:
        """Grow boosted trees."""
        return train(channel, settings, n_jobs=n_jobs, progress=progress, so_far=self.so_far)

    def needs_ranges(self, settings: Settings) -> bool:
        """Return whether bins are based on declared ranges."""
        return settings.binning == "ranges"

    def shows(self, settings: Settings) -> str:
        """Return an empty string: no job is private."""
        del settings
        return ""

    def permits_blind(self, settings: Settings) -> bool:
        """Return that all steps are sums, besides schemas and quality."""
        del settings
        return True

    def smallest_leaf(self, settings: Settings) -> int | float:
        """Return the fewest rows of a leaf."""
        return settings.min_samples_leaf

    def repeats_rows(self, settings: Settings) -> bool:
        """Return that rows are drawn and gradients rounded by key."""
        del settings
        return True

    def in_one_process(self, settings: Settings) -> str:
        """Return that a cluster may hold a party's rows."""
        del settings
        return ""

    def n_trees(self, settings: Settings) -> int:
        """Return how many trees grow for an output."""
        return settings.max_iter

    def steps_at_most(self, settings: Settings) -> int | None:
        """Return the levels of all batches."""
        return settings.n_batches * settings.max_depth

    def bound(self, settings: Settings, size: JobSize) -> Bound:
        """Return the bound for one level of a batch per round."""
        n_outputs = size.n_classes if size.n_classes > 2 else 1
        cells = sum(_cells(settings, n) for n in size.categories)
        node = cells * _SUMS + 16 * size.n_columns
        n_categories = sum(MAX_BINS if n is None else n for n in size.categories)
        once = 4 * (_FACTS * size.n_columns + 8 * n_categories + 8 * size.n_classes**2)
        once += len(DIGITS) * 2 * size.n_columns * (settings.max_bins + 1) * 1024
        rounds, total = 2 + len(DIGITS) + _AFTER, once
        for number in range(settings.n_batches):
            trees = len(settings.batch(number)) * n_outputs
            for level in range(settings.max_depth):
                held = (trees << level) * node
                batches = 1 + 2 * held // settings.message_limit
                rounds += batches
                total += 2 * held + batches * _HEAD  # the reply, and the sum that is told next
        return Bound(rounds, total + rounds * _HEAD)

    def baseline(self, settings: Settings) -> tuple[str, Settings]:
        """Return the job itself: it has no noise."""
        return self.name, settings

    def is_pooled(self, settings: Settings) -> bool:
        """Return that the model equals that of the pooled rows, bit for bit."""
        del settings
        return True

    def small(self, settings: Settings) -> Settings:
        """Return one tree of two levels."""
        return replace(settings, max_iter=1, batch_trees=1, max_depth=2)


def _cells(settings: Settings, n_categories: int | None) -> int:
    """Return the most cells of a column in a node."""
    if n_categories is None:
        return MAX_BINS + 1
    return min(n_categories or settings.max_cells, settings.max_bins) + 1


SPEC = HorizontalBoostingSpec()
