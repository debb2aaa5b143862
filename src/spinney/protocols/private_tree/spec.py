"""A private tree, as everything outside this folder sees it."""

from dataclasses import replace

from spinney.protocols.noisy_boosting.cost import bound_of
from spinney.protocols.noisy_boosting.settings import MOST_ROUNDS
from spinney.protocols.private_tree.coordinator import train
from spinney.protocols.private_tree.messages import ASKS, MOST_PAIRS, SUMMED, plan_of
from spinney.protocols.private_tree.party import Party
from spinney.protocols.private_tree.settings import (
    NAME,
    TreeJobSettings,
    TreeSettings,
    boosting_of,
    settings_of,
)
from spinney.protocols.settings import ForestSettings
from spinney.protocols.spec import Bound, Charges, JobFacts, JobSize, PartySite, Spec
from spinney.protocols.training import Training
from spinney.tables.table import Table
from spinney.transport.channel import Channel
from spinney.trees.dtypes import MAX_BINS
from spinney.typing import Progress

_MAY_DISTIL = ("auto", "distilled")
_OTHERS = 4  # rounds besides the levels: schemas, joining, leaves, claims
_HEAD, _NODE = 4096, 64  # bytes of a message besides its arrays, and of a node it repeats


class PrivateTreeSpec(Spec[TreeSettings]):
    """S3: one private tree over parties that hold different rows."""

    name = NAME
    settings = TreeSettings
    job_settings = TreeJobSettings
    asks = ASKS
    summed = SUMMED

    def settings_of(self, given: TreeJobSettings, facts: JobFacts) -> TreeSettings:
        """Return the settings of a job file, checked."""
        return settings_of(given, facts)

    def party(self, table: Table, settings: TreeSettings, site: PartySite) -> Party:
        """Return a party's side; it always pays from its ledger."""
        del settings
        return Party(table, n_jobs=site.n_jobs, ledger=site.ledger, data=site.data)

    def train(
        self, channel: Channel, settings: TreeSettings, *, n_jobs: int | None, progress: Progress
    ) -> Training:
        """Grow a tree."""
        return train(channel, settings, n_jobs=n_jobs, progress=progress)

    def charges(
        self, table: Table, settings: TreeSettings, n_parties: int, data: str
    ) -> Charges | None:
        """Return what the tree may charge."""
        plan = plan_of(table.schema, settings, n_parties)
        return Charges(plan.terms(data), plan.planned())

    def needs_ranges(self, settings: TreeSettings) -> bool:
        """Return True: cells are parts of declared ranges."""
        del settings
        return True

    def shows(self, settings: TreeSettings) -> str:
        """Say that, for a noisy maximum, the coordinator sees exact counts."""
        if settings.method != "noisy_max":
            return ""
        return "shows the coordinator exact counts (method='noisy_max')"

    def instead(self, settings: TreeSettings) -> str:
        """Name the best method that needs no trusted coordinator."""
        del settings
        return "name method='distilled'"

    def smallest_leaf(self, settings: TreeSettings) -> int | float:
        """Return the fewest rows of a leaf."""
        return settings.min_samples_leaf

    def n_trees(self, settings: TreeSettings) -> int:
        """Return 1."""
        del settings
        return 1

    def steps_at_most(self, settings: TreeSettings) -> int | None:
        """Return the levels; of a tree that may be distilled, its facts, batches and leaves."""
        distilled = 2 + MOST_ROUNDS if settings.method in _MAY_DISTIL else 0
        return max(settings.max_depth, distilled)

    def bound(self, settings: TreeSettings, size: JobSize) -> Bound:
        """Return the bound for one or two questions per level, or for what is distilled."""
        grown = self._grown(settings, size)
        if settings.method not in _MAY_DISTIL:
            return Bound(*grown)
        rounds, most = bound_of(boosting_of(settings), size)
        if settings.method == "distilled":
            return Bound(rounds, most)
        return Bound(max(rounds, grown[0]), max(most, grown[1]))

    def _grown(self, settings: TreeSettings, size: JobSize) -> tuple[int, int]:
        """Return the most rounds and bytes for one or two questions per level."""
        twice = settings.method in ("save_budget", "propose", "auto")
        depth = settings.max_depth
        cells = sum(
            (settings.n_bins if n == 0 else MAX_BINS if n is None else min(n, MAX_BINS)) + 1
            for n in size.categories
        )
        node = 8 * (cells * max(size.n_classes, 2) + 2 * cells) + 8 * size.n_columns
        n_nodes = (1 << depth) - 1
        levels = 2 * depth * (_HEAD + _NODE * n_nodes) + 2 * n_nodes * node
        pairs = MOST_PAIRS if settings.method == "noisy_max" else 0
        leaves = (1 << depth) * 8 * max(size.n_classes, 2) + _NODE * n_nodes
        schema = 256 * MAX_BINS * size.n_columns
        rounds = _OTHERS + depth * (2 if twice else 1)
        return rounds, levels + pairs + leaves + schema + _OTHERS * _HEAD

    def baseline(self, settings: TreeSettings) -> tuple[str, ForestSettings]:
        """Return an ordinary tree of the same depth."""
        return "horizontal_forest", ForestSettings(
            task="classification",
            n_estimators=1,
            max_depth=settings.max_depth,
            min_samples_leaf=settings.min_samples_leaf,
            max_features=None,
            bootstrap=False,
        )

    def is_verified(self, settings: TreeSettings) -> bool:
        """Return whether parties may see the sums: exact histograms are for the coordinator."""
        return not self.shows(settings)

    def permits_blind(self, settings: TreeSettings) -> bool:
        """Return whether all steps are sums: proposals of cuts are the parties' own."""
        return settings.method != "propose"

    def is_pooled(self, settings: TreeSettings) -> bool:
        """Return False: noise makes every tree different."""
        del settings
        return False

    def small(self, settings: TreeSettings) -> TreeSettings:
        """Return a tree of two levels."""
        return replace(settings, max_depth=2)


SPEC = PrivateTreeSpec()
