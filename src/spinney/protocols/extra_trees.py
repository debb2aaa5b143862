"""Extremely randomised trees over parties that hold different rows of the same columns (S5).

Anonymous (2020), *Federated Extra-Trees with Privacy Preserving*, Algorithms 1 and 2, with the
changes that make it exact, fast and closed: all trees grow together, a level a round; nobody tells
the smallest and largest values of a node.

| paper | here |
|---|---|
| client, master | party, coordinator |
| F*, candidate features | `max_features` that split, out of more that are drawn (`trees.cuts`) |
| v_min, v_max of a node | its public box: declared range cut by the path |
| v*, random threshold | a cut drawn by hash of (seed, tree, node, feature): nothing travels |
| Sum_L, Sum_R | `Counts`: cells left, right and missing, by class |
| C_L, C_R | their sum over parties (`channel.sum`) |

**Who learns what.** The coordinator learns sums over parties: counts of rows, missing values,
categories, classes and magnitudes of numbers, and how many rows of each class stand on each side
of every drawn cut. It sees each party's schema, and its quality counts (a confusion matrix, or
error sums). Parties learn the bin edges and the forest as it grows. With `binning="quantiles"` the
coordinator also learns single cells, exactly: those at which bins end, as in `horizontal_forest`.
With `thresholds="exchanged"` it also sees each party's smallest and largest bin in every node:
values of real records.
**Who never learns what.** Nobody but its party sees a row, a row's key or which node it stands in.
Without `secure_sum` the channel adds up replies that it could read.

| `privacy` | the coordinator learns, instead | protected |
|---|---|---|
| `randomised_labels` | all the above, of randomised labels; no scores | a label, against everyone |
| `noisy_cuts` | noisy counts of cuts, and as in `noisy_histograms` of leaves | one record more |
| both | that a party joins, and its claims (`paying`) | |

**Rounds and bytes.** Schemas 1, facts 1, a level 1 each, quality 1: at most depth + 4 (exchanged
thresholds: a level 2 each; `privacy`: joining 1, claims 1). A reply holds nodes x candidates x 2 x
classes counters of a few bits each.
"""

from dataclasses import asdict
from typing import Any

from spinney.errors import ProtocolError, SettingError
from spinney.privacy.label_memory import LabelMemory
from spinney.privacy.ledger import Ledger
from spinney.protocols.drawn_cuts import CutsAsk, RangesAsk, RangesReply, drawing_of
from spinney.protocols.extra_party import ExtraPrivateParty, extra_plan
from spinney.protocols.facts import class_weights, leaf_values
from spinney.protocols.growing import Job
from spinney.protocols.label_estimates import BitSearch, Estimates, LabelRules, finished
from spinney.protocols.model import ForestModel
from spinney.protocols.noisy_cuts import NoisyCutsAsk, grown_by_noisy_cuts
from spinney.protocols.noisy_histograms import LeafAsk, noisy_job
from spinney.protocols.paying import ClaimsAsk, ExactJob, JoinAsk, claims_of, join
from spinney.protocols.quality import QualityAsk, quality_over_parties
from spinney.protocols.randomised_labels import LabelledTable, LabelPlan
from spinney.protocols.row_party import Counting, RowParty
from spinney.protocols.settings import ForestSettings
from spinney.protocols.setup import (
    CountsReply,
    EdgesAsk,
    FactsAsk,
    SchemaAsk,
    agreed_schema,
    lay_bins,
)
from spinney.protocols.training import Phases, Quality, Training
from spinney.tables.table import Table
from spinney.transport.channel import Ask, Channel
from spinney.trees.counts import Counters
from spinney.trees.cuts import CutSearch, ReportedBits, add_up, cut_counts, drawn, grown_by
from spinney.trees.dtypes import MAX_WEIGHT
from spinney.trees.growth import Growth
from spinney.trees.layout import LeafValues
from spinney.trees.ranges import cuts_between, joined, node_ranges
from spinney.trees.split import Criterion, LeastLeaf
from spinney.trees.threads import thread_count
from spinney.typing import Integers, Progress, silent

NAME = "extra_trees"

Settings = ForestSettings

SUMMED: tuple[type[Ask[Any]], ...] = (
    FactsAsk,
    EdgesAsk,
    CutsAsk,
    QualityAsk,
    NoisyCutsAsk,
    LeafAsk,
)
"""The questions whose replies are added up; under `secure_sum` they are masked."""

ASKS: tuple[type[Ask[Any]], ...] = (SchemaAsk, JoinAsk, ClaimsAsk, RangesAsk, *SUMMED)
"""Every question that a party answers; those about cuts are in `drawn_cuts`."""


# --- a party -------------------------------------------------------------------------------------


class _Counting(Counting):
    """Counts on both sides of drawn cuts."""

    def _counted(self, ask: CutsAsk | RangesAsk) -> CountsReply | RangesReply:
        if isinstance(ask, RangesAsk) and ask.job.settings.thresholds != "exchanged":
            raise ProtocolError("This job draws its cuts in public; no value is told.")
        standing = self._rows.standing(ask)  # Alg. 1, line 17: by the splits so far
        rows = (self._rows.binned(ask.job), standing, ask.candidates, (ask.first, ask.last))
        if isinstance(ask, RangesAsk):
            return RangesReply(node_ranges(*rows, n_threads=self._n_threads))  # lines 10 to 11
        how: dict[str, Any] = {"n_classes": ask.job.n_classes, "n_threads": self._n_threads}
        return CountsReply(cut_counts(*rows, **how, bits=self._bits(ask)))  # lines 13 to 15

    def _bits(self, ask: CutsAsk) -> ReportedBits | None:
        """Return what rows report in place of a class, if they report bits."""
        if not isinstance(self.table, LabelledTable) or not self.table.words.size:
            return None
        return ReportedBits(self.table.words, ask.job.cell_counters - 1)


class Party(RowParty):
    """One organisation's side. What it keeps between questions only saves time.

    Without a ledger it answers exactly; with one it answers with noise only, but for the `exact`
    job. `memory` holds the answers of its records where labels are randomised: keep it for the
    life of the data (see `randomised_labels.opened_memory`).
    """

    name, counting = NAME, _Counting
    of_nodes = (CutsAsk, RangesAsk)
    of_private_jobs = (JoinAsk, ClaimsAsk, NoisyCutsAsk, LeafAsk)

    def __init__(
        self,
        table: Table,
        *,
        n_jobs: int | None = None,
        ledger: Ledger | None = None,
        data: str | None = None,
        memory: LabelMemory | None = None,
        exact: ExactJob | None = None,
    ) -> None:
        n_threads = thread_count(n_jobs)
        private = ExtraPrivateParty(table, ledger, data, n_threads, exact)
        private.memory = memory or LabelMemory()
        super().__init__(table, private, n_threads)


# --- the coordinator -----------------------------------------------------------------------------


def train(
    channel: Channel,
    settings: Settings,
    *,
    n_jobs: int | None = None,
    progress: Progress = silent,
) -> Training:
    """Grow a forest with the parties on the channel."""
    phases, privacy = Phases(), settings.privacy
    how: dict[str, Any] = {"n_threads": thread_count(n_jobs), "progress": progress}
    if settings.thresholds is None:
        raise SettingError("thresholds must be 'public' or 'exchanged' for extra-trees; got None.")
    with phases.phase("agreeing"):
        schema = agreed_schema(channel)
        plan = extra_plan(schema, settings, len(channel.parties)) if privacy else None
        if plan is not None:  # it refuses before anyone is asked
            join(channel, schema, settings)
    quality: dict[str, Quality] = {}
    score = None
    if plan is not None and not isinstance(plan, LabelPlan):
        with phases.phase("growing"):
            job = noisy_job(schema, settings, len(channel.parties))
            forest = grown_by_noisy_cuts(channel, schema, job, **how)
    else:
        with phases.phase("binning"):
            progress("binning", 0, 0)
            facts, binning = lay_bins(channel, schema, settings)
            sizes = (facts.classes.size, int(facts.n_rows[0]), len(channel.parties))
            job = Job(settings, schema.digest(), binning, *sizes)
        with phases.phase("growing"):
            values = leaf_values(schema, class_weights(settings, facts), job.target_bits)
            growth = _grow(channel, job, values, plan, **how)
            if plan is not None:
                forest = finished(growth, job, plan, values)
        if plan is None:
            with phases.phase("judging"):
                progress("judging", 0, 0)
                forest = growth.forest(job.binning, values)
                quality, score = quality_over_parties(channel, job, growth, values, forest)
    claims = claims_of(channel, privacy) if privacy else ()
    return Training(
        ForestModel(NAME, schema, forest, job.binning.bin_of_category),
        channel.parties,
        tuple(channel.rounds),
        phases.seconds,
        quality,
        score if settings.oob_score else None,
        asdict(settings),
        claims,
    )


def _grow(
    channel: Channel,
    job: Job,
    values: LeafValues,
    plan: LabelPlan | None,
    *,
    n_threads: int,
    progress: Progress,
) -> Growth:
    """Grow all trees, a level a round."""
    settings, weights = job.settings, values.class_weight
    estimates = None if plan is None else Estimates(plan.response)
    rules = job.rules() if estimates is None else LabelRules.of(job.rules(), estimates)
    search: CutSearch | BitSearch
    search = by_class = CutSearch(
        drawing_of(job),
        Criterion.of(settings.criterion, weights, MAX_WEIGHT * job.n_rows),
        LeastLeaf(rules.min_samples_leaf, settings.min_weight_fraction_leaf),
        n_threads,
    )
    if plan is not None and estimates is not None and plan.n_bits:
        search = BitSearch.of(by_class, estimates)
    growth = Growth(job.roots(), rules, weights, target_step=values.step)
    before: tuple[str, ...] | None = None
    while growth.frontier.n_open:
        progress("growing", growth.depth, settings.max_depth or 0)
        before = _grow_level(channel, job, growth, search, before)
    return growth


def _grow_level(
    channel: Channel,
    job: Job,
    growth: Growth,
    search: CutSearch | BitSearch,
    before: tuple[str, ...] | None,
) -> tuple[str, ...]:
    """Grow a level from summed counts; return whose they are."""
    frontier, parts = growth.frontier, []
    candidates = drawn(frontier, drawing_of(job), job.binning)  # Alg. 2, lines 7 to 13
    for first, last in job.batches(candidates.slots):
        ask = CutsAsk(job, growth.levels, first, last)
        ask.__dict__.update(frontier=frontier, all_candidates=candidates)  # known here
        if job.settings.thresholds == "exchanged":
            ask = _with_exchanged(channel, ask)
        counters = channel.sum(ask).counts.counters  # line 14
        answered = channel.rounds[-1].answered
        # A party that left took its rows with it.
        held = growth.open_moments[first:last] if answered == before else None
        _require_possible(ask, counters, held)
        of_tree = growth.root_weight[first:last]
        parts.append(search.best(counters, ask.candidates, frontier.columns, of_tree))
    grown_by(growth, parts)  # lines 16 to 18
    return answered


def _with_exchanged(channel: Channel, ask: CutsAsk) -> CutsAsk:
    """Return the question with cuts between the parties' smallest and largest values."""
    first, last = ask.first, ask.last
    about = RangesAsk(ask.job, ask.levels, first, last)
    about.__dict__.update(frontier=ask.frontier, all_candidates=ask.all_candidates)
    replies = channel.ask(about)  # Alg. 2, lines 9 to 11
    ranges = joined([reply.ranges for reply in replies.values()])
    keys = ask.frontier.key[first:last]
    cuts = cuts_between(ranges, about.candidates, keys, ask.job.binning)  # line 12
    found = CutsAsk(ask.job, ask.levels, first, last, cuts.ravel())
    found.__dict__.update(frontier=ask.frontier, all_candidates=ask.all_candidates)
    return found


def _require_possible(ask: CutsAsk, counters: Counters, held: Integers | None) -> None:
    """Raise unless sums can be those of rows: a party may be wrong, or lie."""
    if counters.shape != (ask.slots.n_cells, ask.job.cell_counters):
        raise ProtocolError("A party's counts do not have the cells asked for.")
    if not add_up(ask.candidates, counters, held):
        raise ProtocolError(
            "The parties' counts are impossible: the two sides of a cut do not add up to the rows "
            "that its node holds. One of the parties answers wrongly; nothing was used. Run the "
            "job without one party after another to find it."
        )
    if not _fits_rows(ask.job, counters):
        raise ProtocolError(
            "The parties' sums are impossible: rows cannot have reported so much, each a bit once "
            "or a target within its range. One of the parties answers wrongly; nothing was used. "
            "Run the job without one party after another to find it."
        )


def _fits_rows(job: Job, counters: Counters) -> bool:
    """Tell whether sums of bits or targets are possible for so many rows."""
    if job.n_classes == job.cell_counters:
        return True  # counts by class say themselves how many rows there are
    most = 1 if job.n_classes else 2**job.target_bits - 1
    return not bool((counters[:, 1:] > counters[:, :1] * most).any())
