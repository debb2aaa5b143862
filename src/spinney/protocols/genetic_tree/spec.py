"""Evolved trees, as everything outside this folder sees them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spinney.protocols.accounts.account import Plan
from spinney.protocols.genetic_tree.coordinator import LEAST_ACTIVE, Evolved, train
from spinney.protocols.genetic_tree.gathered import gather_trees, home_model, own_model
from spinney.protocols.genetic_tree.messages import ASKS, SUMMED
from spinney.protocols.genetic_tree.noisy import NoisyPlan
from spinney.protocols.genetic_tree.party import Party, SizePlan
from spinney.protocols.genetic_tree.settings import (
    NAME,
    GeneticJobSettings,
    GeneticSettings,
    settings_of,
)
from spinney.protocols.model import ForestModel
from spinney.protocols.spec import Bound, Charges, JobFacts, JobSize, OwnModelsSpec, PartySite
from spinney.tables.table import Table
from spinney.transport.channel import Channel
from spinney.trees.dtypes import MAX_BINS
from spinney.typing import Progress

_BINNING = 4  # rounds that lay pooled bins
_OTHERS = (
    5  # rounds besides bins and generations: schemas, depths or joining, structures, votes, choice
)
_HEAD = 4096  # bytes of a message besides its arrays


class GeneticTreeSpec(OwnModelsSpec[GeneticSettings]):
    """S4: personal trees from structures that parties evolve together."""

    name = NAME
    settings = GeneticSettings
    job_settings = GeneticJobSettings
    asks = ASKS
    summed = SUMMED
    step = "generation"
    all_stay_in = ("binning",)
    verb = "evolved"

    def settings_of(self, given: GeneticJobSettings, facts: JobFacts) -> GeneticSettings:
        """Return the settings of a job file, checked."""
        return settings_of(given, facts)

    def party(self, table: Table, settings: GeneticSettings, site: PartySite) -> Party:
        """Return a party's side; it keeps its tree to itself."""
        is_private = settings.privacy is not None
        pays = is_private or settings.size_epsilon is not None
        return Party(
            table,
            site.name,
            n_jobs=site.n_jobs,
            ledger=site.ledger if pays else None,
            data=site.data,
            only_noise=is_private,
            is_masked=site.is_masked,
        )

    def train(
        self, channel: Channel, settings: GeneticSettings, *, n_jobs: int | None, progress: Progress
    ) -> Evolved:
        """Evolve structures; each party picks its own tree."""
        return train(channel, settings, n_jobs=n_jobs, progress=progress)

    def charges(
        self, table: Table, settings: GeneticSettings, n_parties: int, data: str
    ) -> Charges | None:
        """Return what a private search may charge, or the price of a number of rows."""
        plan: Plan
        if settings.privacy is not None:
            plan = NoisyPlan(settings, n_parties, len(table.schema.label.classes or ()))
        elif settings.size_epsilon is not None:
            plan = SizePlan(settings.job, settings.size_epsilon, n_parties)
        else:
            return None
        return Charges(plan.terms(data), plan.planned())

    def needs_ranges(self, settings: GeneticSettings) -> bool:
        """Return whether structures are cut in declared ranges."""
        return settings.privacy is not None

    def shows(self, settings: GeneticSettings) -> str:
        """Return an empty string: in a private search everything the coordinator sees has noise."""
        del settings
        return ""

    def masks(self, given: GeneticJobSettings, n_parties: int) -> bool:
        """Return whether sums can be masked: not if one party may be asked alone."""
        share = 1.0 if given.participation is None else given.participation
        return round(share * n_parties) >= LEAST_ACTIVE

    def smallest_leaf(self, settings: GeneticSettings) -> int | float:
        """Return 1: trees stay at their parties, so leaves may have any size."""
        del settings
        return 1

    def n_trees(self, settings: GeneticSettings) -> int:
        """Return 0: every party has one tree, and progress does not count them."""
        del settings
        return 0

    def steps_at_most(self, settings: GeneticSettings) -> int | None:
        """Return how many generations there are."""
        return settings.n_generations

    def bound(self, settings: GeneticSettings, size: JobSize) -> Bound:
        """Return the bound for two questions per generation: late joiners and scores."""
        generations, n = settings.n_generations, settings.n_survivors
        genes = 2 * ((1 << settings.max_depth) - 1)
        bins = size.n_columns * (6 * MAX_BINS + 64) if settings.binning == "pooled" else 0
        question = _HEAD + bins + (2 * n + size.n_parties) * genes
        reply = 8 * (2 * n + size.n_parties + 2)
        if settings.privacy is not None:
            reply = 8 * n * (1 << settings.max_depth) * max(size.n_classes, 2)
        laying = _BINNING * (_HEAD + 8 * 4 * 4096 * size.n_columns) if bins else 0
        schema = 256 * MAX_BINS * size.n_columns
        rounds = _OTHERS + (_BINNING if bins else 0) + 2 * generations + 1
        return Bound(rounds, rounds * (question + reply) + laying + schema)

    def baseline(self, settings: GeneticSettings) -> tuple[str, GeneticSettings]:
        """Return a search that ends at once, without noise: its home tree is CART's."""
        few: dict[str, Any] = {"population_size": 2, "n_generations": 1}
        return NAME, replace(settings, **few, size_epsilon=None, privacy=None)

    def is_pooled(self, settings: GeneticSettings) -> bool:
        """Return False: every party has its own tree."""
        del settings
        return False

    def small(self, settings: GeneticSettings) -> GeneticSettings:
        """Return a search of one generation."""
        return replace(settings, population_size=2, n_generations=1)

    def own_model(self, side: Any) -> ForestModel | None:
        """Return the tree that a party keeps."""
        return own_model(side)

    def gather(self, training: Evolved, sides: Mapping[str, Party]) -> tuple[Evolved, ForestModel]:
        """Return the training with all parties' trees, and the trees they grow alone."""
        return gather_trees(training, sides), home_model(training, sides)


SPEC = GeneticTreeSpec()
