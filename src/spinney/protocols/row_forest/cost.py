"""An upper bound on the rounds and bytes of a horizontal forest, from public facts alone."""

from dataclasses import replace
from math import ceil
from typing import Final

from spinney.protocols.settings import ForestSettings
from spinney.protocols.spec import Bound, JobSize
from spinney.trees.dtypes import MAX_BINS
from spinney.trees.frontier import ROUNDS_LOST, lines_of_stages
from spinney.trees.quantiles import DIGITS

_HEAD: Final = 4096  # bytes of a message besides its arrays
_NODE: Final = 64  # bytes of a node in a question that repeats the levels so far
_COUNTER: Final = 8  # bytes of a counter, masked or not
_CATEGORY: Final = 4  # bytes of a category's bin in a question
_FACTS: Final = 4 * 4096 + 64  # bytes of a column's counts: by magnitude, and missing values
_ENDLESS: Final = 40  # levels at which doubling stops
_DEEP: Final = 12  # levels; deeper, the rows bound the number of nodes better than doubling


def columns_of_stages(settings: ForestSettings, size: JobSize) -> list[int]:
    """Return how many columns, at most, a node is asked about at each of its stages."""
    n_slots = settings.n_slots(max(size.n_columns, 1))
    lines = lines_of_stages(n_slots, size.n_columns)
    return [n_slots * n for n in lines[: len(lines) if settings.goes_on else 1]]


def cells_of_stages(settings: ForestSettings, size: JobSize) -> list[int]:
    """Return how many cells, at most, a node has at each of its stages: of the widest columns."""
    found = []
    for stage, n_columns in enumerate(columns_of_stages(settings, size)):
        wide = sorted((_cells(settings, n, stage) for n in size.categories), reverse=True)
        found.append(sum(wide[:n_columns]))
    return found


def _cells(settings: ForestSettings, n_categories: int | None, stage: int) -> int:
    if n_categories is None:
        return MAX_BINS + 1
    is_fine = stage > 0 or settings.binning == "adaptive"
    most = MAX_BINS if is_fine else settings.max_cells
    return min(n_categories or most, settings.max_bins) + 1  # and one for missing values


def levels_bound(
    settings: ForestSettings,
    size: JobSize,
    *,
    stage_cells: list[int],
    cell_bytes: int,
    rounds_a_level: int = 1,
    others: int,
) -> Bound:
    """Return the bound of a job that grows all trees one level per round.

    Parameters
    ----------
    settings, size
        The job's settings and size.
    stage_cells
        The maximum number of cells of a node at each of its stages; most nodes have only the first.
    cell_bytes
        How many bytes of counters a cell has.
    rounds_a_level
        How many questions a level takes.
    others
        How many rounds there are besides the levels.
    """
    if settings.max_depth is None:
        return Bound(None, None)
    most, usual = (
        _levels_bound(
            settings,
            size,
            settings.max_depth,
            cells * cell_bytes,
            rounds_a_level=rounds_a_level,
            others=others,
        )
        for cells in (sum(stage_cells), stage_cells[0])
    )
    return replace(most, usual_bytes=usual.bytes)


def _levels_bound(
    settings: ForestSettings,
    size: JobSize,
    depth: int,
    node_bytes: int,
    *,
    rounds_a_level: int,
    others: int,
) -> Bound:
    """Return the bound if every node's counters take so many bytes."""
    n_categories = sum(MAX_BINS if n is None else n for n in size.categories)
    bins = size.n_columns * (4 * MAX_BINS + 2 * MAX_BINS + 64)  # every question repeats the bins
    bins += _CATEGORY * n_categories
    once = _FACTS * size.n_columns * 2 + _COUNTER * n_categories + others * (_HEAD + bins)
    once += _edges(settings, size) + _COUNTER * size.n_classes**2  # the quality counts
    node = node_bytes + 16 * size.n_columns
    rounds, fixed, a_row = others + rounds_a_level * ROUNDS_LOST, once, 0
    per_node = 2 * node / settings.message_limit  # batches; a batch is at least half full
    told = 0  # nodes of the levels so far, which every question repeats
    for level in range(depth):
        nodes = settings.n_estimators << min(level, _ENDLESS)
        batches = rounds_a_level * (1 + int(nodes * per_node))
        rounds += batches
        question = _HEAD + bins + told * _NODE
        if level < _DEEP:
            fixed += nodes * node + batches * question
        else:  # a tree has no more open nodes than rows, and so has the first question
            fixed += rounds_a_level * (_HEAD + bins)
            first = node + rounds_a_level * (_NODE * level + per_node * question)
            a_row += ceil(settings.n_estimators * first)
        told += nodes
    leaves = settings.n_estimators << min(depth, _DEEP)
    fixed += 2 * leaves * (_NODE + 16 * max(size.n_classes, 2))  # the question about quality
    a_row += 16 * (settings.privacy is not None)  # a perturbed table is a second set of rows
    return Bound(rounds, fixed, a_row)


def _edges(settings: ForestSettings, size: JobSize) -> int:
    """Return the bytes of the counts between proposed cut points, which find the quantiles."""
    if settings.binning != "quantiles":
        return 0
    cells = settings.max_bins * sum(1 for n in size.categories if not n)
    return sum(_COUNTER * (cells + (cells << bits)) for bits in DIGITS)


def setup_rounds(settings: ForestSettings) -> int:
    """Return the number of rounds before the trees: schemas, facts and quantiles."""
    return 2 + (len(DIGITS) if settings.binning == "quantiles" else 0)
