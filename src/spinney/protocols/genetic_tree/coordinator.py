"""The coordinator's side of evolved trees: it breeds structures by scores summed over parties.

Everything is drawn from the job's seed and ordered by party name, so the order of replies does not
matter.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spinney import seeds
from spinney.errors import PartyLostError, ProtocolError, SettingError, TableError
from spinney.protocols.accounts.account import claims_of
from spinney.protocols.genetic_tree.bins import category_bins_of, lay_pooled_bins
from spinney.protocols.genetic_tree.fitness import mean_scores, show_score
from spinney.protocols.genetic_tree.messages import (
    ChoiceAsk,
    DepthAsk,
    EvolvingJob,
    ScoresAsk,
    StructureAsk,
    VotesAsk,
)
from spinney.protocols.genetic_tree.noisy import NoisySearch
from spinney.protocols.genetic_tree.settings import NAME, GeneticSettings, Settings
from spinney.protocols.model import ForestModel
from spinney.protocols.rows.facts import leaf_values, require_few_classes, target_range
from spinney.protocols.rows.setup import agree_on_schema
from spinney.protocols.training import Phases, Training
from spinney.tables.schema import Schema
from spinney.transport.channel import Channel
from spinney.trees.binning import Binning
from spinney.trees.dtypes import TARGET_BITS
from spinney.trees.evolution import Population
from spinney.trees.forest import Forest
from spinney.trees.genome import MAX_COLUMNS, Genes, initial, require_structures
from spinney.trees.structures import forest_of, skeletons
from spinney.typing import Integers, Progress, silent

_ACTIVE, BREED = 10, 11  # streams of the job's seed
LEAST_ACTIVE: Final = 2  # in a masked sum; one party alone would not be hidden


class Search:
    """The population, and what the coordinator knows about the parties."""

    def __init__(
        self, channel: Channel, job: EvolvingJob, schema: Schema, depth: int, joined: set[str]
    ) -> None:
        settings = job.settings
        self._channel = channel
        self._job = job
        self._step = _target_step(schema)
        self._joined = joined
        self._random = seeds.generator(seeds.derive_seed(settings.seed, BREED))
        self.depth = depth
        self.all_rows = False
        self.elitism = False
        self.best: list[float] = []
        self._coming = np.zeros((0, (1 << depth) - 1), np.int16)
        breeding = settings.breeding(len(schema.columns), depth)
        self.population = Population(breeding, distinct=settings.validation == "rotating")

    @classmethod
    def begun(cls, channel: Channel, job: EvolvingJob, schema: Schema) -> "Search":
        """Choose the depth, count the votes and seed the population (lines 3 to 25)."""
        settings = job.settings
        first = _active(channel, settings, 0)
        counted = channel.sum(DepthAsk(job, first), quorum=1).sums
        if not counted.sum():
            raise _nobody(first)
        depth = settings.min_depth + _median(counted)  # line 10
        search = cls(channel, job, schema, depth, set())
        present = _active(channel, settings, 1)
        own = search._structures(present)  # line 12
        if settings.task == "regression":
            votes = channel.sum(VotesAsk(job, depth, present), quorum=1).sums
            search.all_rows = bool(2 * votes[1] > votes[0])  # line 23
            search.elitism = bool(2 * votes[2] > votes[0])  # line 24
        n_random = max(settings.n_survivors - len(own), 0)
        n_columns = len(schema.columns)
        drawn = initial(search._random, n_random, depth, n_columns, settings.leaf_ratio)
        search._coming = np.concatenate([drawn, own])  # line 21
        if search.elitism:
            search.population.protect(own)
        return search

    @property
    def told(self) -> str:
        """The best score, in words."""
        return f"{self._job.settings.metric} {self.best[-1]:.4g}" if self.best else ""

    def generation(self, number: int) -> None:
        """Have new structures scored; let the best survive and breed (lines 27 to 42)."""
        settings, population = self._job.settings, self.population
        active = _active(self._channel, settings, number + 1)
        late = self._structures([name for name in active if name not in self._joined])  # line 30
        coming = np.concatenate([self._coming, late])  # line 38
        if self.elitism:
            population.protect(late)
        # rows or parties differ from the last generation, so survivors are scored again
        others = not self.all_rows or len(active) < len(self._channel.parties)
        again = settings.validation == "rotating" and others
        survivors = population.genes[: len(population.genes) if again else 0]
        asked = np.concatenate([coming, survivors])
        ask = ScoresAsk(self._job, self.depth, number, active, self.all_rows, asked)
        sums = self._channel.sum(ask, quorum=1).sums
        if sums.size != len(asked) + 1:
            raise ProtocolError("A party's scores do not match the structures asked about.")
        if sums[-1] <= 0:
            raise _nobody(active)
        scores = mean_scores(sums[:-1], int(sums[-1]))  # line 37
        if len(survivors):
            # all rows: no sampling noise, but parties differ, so compare only the same parties
            population.judge_again(scores[len(coming) :], anew=self.all_rows)
        population.update(coming, scores[: len(coming)])  # line 39
        metric = settings.metric or ""
        self.best.append(show_score(metric, float(population.score[0]), self._step))
        self._coming = population.offspring(self._random)  # lines 41, 42

    def choose(self) -> int:
        """Let every party choose a tree; return how many keep the one they had."""
        depth, genes = self.depth, self.population.genes
        ask = ChoiceAsk(self._job, depth, self.all_rows, genes)
        return int(self._channel.sum(ask, quorum=1).sums[1])

    def _structures(self, names: Sequence[str]) -> Genes:
        """Return the structures of parties that are active for the first time, by name."""
        nothing = np.zeros((0, (1 << self.depth) - 1), np.int16)
        if not names:
            return nothing
        replies = self._channel.ask(StructureAsk(self._job, self.depth), to=names, quorum=0)
        self._joined |= set(replies)
        found = [replies[name].genes for name in sorted(replies)]
        for genes in found:
            require_structures(genes, self.depth, self.population.breeding.n_columns)
        return np.concatenate([nothing, *found])


def _active(channel: Channel, settings: GeneticSettings, turn: int) -> tuple[str, ...]:
    """Draw the parties that are asked this time, by name, so that their order does not matter."""
    names = sorted(channel.parties)
    n = settings.n_active(len(names))
    if n == len(names):
        return tuple(names)
    random = seeds.generator(seeds.derive_seed(settings.seed, _ACTIVE, turn))
    return tuple(names[i] for i in np.sort(random.permutation(len(names))[:n]))


def _median(counted: Integers) -> int:
    """Return the median of counted values, rounded up: a deeper structure may leave out nodes."""
    ends = np.cumsum(counted)
    low, high = np.searchsorted(ends, ((ends[-1] + 1) // 2, ends[-1] // 2 + 1))
    return int(-((-low - high) // 2))


def _nobody(active: Sequence[str]) -> PartyLostError:
    return PartyLostError(
        f"None of the parties asked answered: {', '.join(active)}. Start the job again when they "
        "are available, or raise participation so that more parties are asked."
    )


def _target_step(schema: Schema) -> float:
    """Return the size of one fixed-point step in the target's units."""
    if schema.label.classes is not None:
        return 1.0
    low, high = target_range(schema.label)
    return float((high - low) / (2**TARGET_BITS - 1))


def skeleton(
    schema: Schema, bins: tuple[NDArray[np.uint8], ...], genes: Genes, depth: int
) -> Forest:
    """Return a population as trees that have columns but no information about rows."""
    n_classes = len(schema.label.classes or ())
    trees = skeletons(genes, depth, n_classes)
    edges = tuple(np.zeros(0, np.float32) for _ in schema.columns)
    binning = Binning(edges, bins, np.ones(len(edges), np.bool_))
    values = leaf_values(schema, np.ones(n_classes), TARGET_BITS)
    return forest_of(trees, [binning] * len(trees), values)


def require_learnable(schema: Schema) -> None:
    """Raise unless there are enough classes, and a number of columns that genes can name."""
    require_few_classes(schema.label)
    if schema.label.classes is not None and len(schema.label.classes) < 2:
        raise TableError(
            f"The label {schema.label.name!r} has one class only over all parties. A classifier "
            "needs rows of at least 2 classes; check the label column and its filter."
        )
    if not 1 <= len(schema.columns) <= MAX_COLUMNS:
        raise SettingError(f"Evolved trees need between 1 and {MAX_COLUMNS} columns.")


def require_several(channel: Channel, settings: GeneticSettings) -> None:
    """Raise if a masked sum would contain only one party's numbers."""
    n_parties = len(channel.parties)
    n_active = settings.n_active(n_parties)
    if channel.is_masked and n_active < LEAST_ACTIVE:
        raise SettingError(
            f"participation={settings.participation:g} asks {n_active} of the {n_parties} parties "
            "at a time, but a secure sum over one party hides nothing. Set participation to "
            f"{LEAST_ACTIVE / n_parties:.2g} or more, or drop secure_sum."
        )


@dataclass(frozen=True, kw_only=True)
class Evolved(Training):
    """The result of evolution at the coordinator.

    Its model holds the last population, best first, as unfitted structures.
    """

    job: EvolvingJob
    depth: int
    genes: Genes
    all_rows: bool
    elitism: bool
    n_kept_home: int | None  # None: not revealed


def train(
    channel: Channel,
    settings: Settings,
    *,
    n_jobs: int | None = None,  # noqa: ARG001  all protocols take it; parties do the work here
    progress: Progress = silent,
) -> Evolved:
    """Evolve structures with the parties on the channel; each party picks its own tree."""
    phases = Phases()
    with phases.phase("agreeing"):
        schema = agree_on_schema(channel)
        require_learnable(schema)
        require_several(channel, settings)
        progress("binning", 0, 0)
        is_pooled = settings.binning == "pooled"
        binning = lay_pooled_bins(channel, schema, settings) if is_pooled else None
        job = EvolvingJob(settings, schema.digest(), len(channel.parties), binning)
    with phases.phase("seeding"):
        progress("choosing a depth", 0, 0)
        search: Search | NoisySearch
        if settings.privacy:
            search = NoisySearch(channel, job, schema, BREED)
        else:
            search = Search.begun(channel, job, schema)
    with phases.phase("evolving"):
        for generation in range(settings.n_generations):  # line 26
            search.generation(generation)
            progress(f"evolving, best {search.told}", generation + 1, settings.n_generations)
    with phases.phase("choosing"):
        progress("choosing", 0, 0)
        n_kept = search.choose()  # lines 45 to 49
    claims = claims_of(channel, settings.privacy) if settings.privacy else ()
    bins = binning.bin_of_category if binning else category_bins_of(schema, settings.max_bins)
    shape = skeleton(schema, bins, search.population.genes, search.depth)
    return Evolved(
        model=ForestModel(NAME, schema, shape, bins),
        parties=channel.parties,
        rounds=tuple(channel.rounds),
        seconds=phases.seconds,
        quality={},
        score=None,
        settings=asdict(settings),
        claims=claims,
        history=tuple(search.best),
        job=job,
        depth=search.depth,
        genes=search.population.genes,
        all_rows=search.all_rows,
        elitism=search.elitism,
        n_kept_home=n_kept,
    )
