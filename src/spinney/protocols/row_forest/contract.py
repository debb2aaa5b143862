"""The part of the contract that all horizontal forests have in common."""

from dataclasses import replace

from spinney.protocols.settings import ForestSettings
from spinney.protocols.spec import PartySite, Spec


class RowForestSpec(Spec[ForestSettings]):
    """A forest over parties that hold different rows."""

    settings = ForestSettings
    all_stay_in = ("binning",)
    counts_few = ""

    def smallest_leaf(self, settings: ForestSettings) -> int | float:
        """Return the fewest rows of a leaf."""
        return settings.min_samples_leaf

    def least_own(self, settings: ForestSettings, site: PartySite) -> int:
        """Return the fewest rows of its own that a party lets be counted; noise needs no limit."""
        return site.min_own_rows if settings.privacy is None else 0

    def repeats_rows(self, settings: ForestSettings) -> bool:
        """Return whether trees draw a bootstrap."""
        return settings.bootstrap

    def leaves_rows_out(self, settings: ForestSettings) -> bool:
        """Return whether trees draw a bootstrap of rows that they count exactly."""
        return settings.bootstrap and settings.privacy is None

    def in_one_process(self, settings: ForestSettings) -> str:
        """Say that noise and adaptive histograms need all rows of a party in one place."""
        if settings.privacy is not None:
            return "adds noise to what it counts or reads"
        return "has binning = 'adaptive'" if settings.binning == "adaptive" else ""

    def n_trees(self, settings: ForestSettings) -> int:
        """Return how many trees grow."""
        return settings.n_estimators

    def steps_at_most(self, settings: ForestSettings) -> int | None:
        """Return how deep trees may grow."""
        return settings.max_depth

    def baseline(self, settings: ForestSettings) -> tuple[str, ForestSettings]:
        """Return the same forest without noise."""
        return self.name, replace(settings, privacy=None)

    def small(self, settings: ForestSettings) -> ForestSettings:
        """Return a tree of two levels."""
        return replace(settings, n_estimators=1, max_depth=2)
