"""The score of each row as trees are added, what is left to correct, and how the loss falls."""

import numpy as np
from numpy.typing import NDArray

from spinney.errors import ProtocolError, TableError
from spinney.protocols.boosted.objective import Objective
from spinney.protocols.boosted.settings import Settings
from spinney.seeds import derive_seed, mix
from spinney.trees.binning import BinnedTable
from spinney.trees.losses import ALIKE, SCORE_BITS, Gradients, Shares
from spinney.trees.threads import run_ranges
from spinney.typing import Bools, Floats, Integers, Keys

ALL_WORDS = 1 << 32  # a share of rows is a share of the words of 32 bits
_LOSS_ROWS = 65536  # whose loss a task adds up
_VALIDATION = 0x76616C  # the stream that draws validation rows


def rows_apart(settings: Settings, keys: Keys) -> Bools:
    """Return which rows are set apart for validation, by a hash of their keys; empty: none."""
    if not settings.early_stopping:
        return np.zeros(0, np.bool_)
    words = mix(keys ^ np.uint64(derive_seed(settings.seed, _VALIDATION)))
    limit = round(settings.validation_fraction * ALL_WORDS)
    apart: Bools = (words >> np.uint64(32)) < np.uint64(limit)
    return apart


class RowScores:
    """The scores of a table's rows; trees add to them."""

    def __init__(
        self,
        objective: Objective,
        base: tuple[int, ...],
        table: BinnedTable,
        n_threads: int,
        *,
        share: Shares = ALIKE,
        first_row: Integers | None = None,
    ) -> None:
        """Begin before the first tree; `first_row` is that of each of several parties' rows."""
        self._first_row = np.zeros(1, np.int64) if first_row is None else first_row
        self._objective = objective
        self._target: NDArray[np.integer] = table.target
        self._share = share
        self._n_threads = n_threads
        self.is_apart = rows_apart(objective.settings, table.keys)
        self.scores = np.repeat(np.array(base, np.int64)[:, None], table.n_rows, axis=1)
        self.course: list[Integers] = []  # by party; before the first batch, after each
        self.note_losses()

    def gradients(self) -> Gradients:
        """Return the gradients of all rows."""
        objective = self._objective
        return objective.loss.gradients(
            self.scores, self._target, objective.facts, self._n_threads, self._share
        )

    def note_losses(self) -> None:
        """Keep rows and loss of the rows that are trained on, then of the others.

        Rows with weights are counted in steps of 2^-16 of the largest.
        """
        objective, apart, share = self._objective, self.is_apart, self._share
        ends = [*self._first_row[1:].tolist(), self.scores.shape[1]]
        parts = [
            (party, slice(first, min(first + _LOSS_ROWS, end)))
            for party, (begin, end) in enumerate(zip(self._first_row.tolist(), ends, strict=True))
            for first in range(begin, end, _LOSS_ROWS)
        ]
        found = np.zeros((len(parts), 4), np.int64)

        def task(part: int, _: int) -> None:
            at = parts[part][1]
            target, held = self._target[at], share[at]
            sides = (~apart[at], apart[at]) if apart.size else (np.ones(target.size, np.bool_),)
            for side, chosen in enumerate(sides):
                n = held[chosen].sum() if share.size else np.count_nonzero(chosen)
                loss = objective.loss.total(
                    self.scores[:, at], target, objective.facts, chosen, held
                )
                found[part, 2 * side : 2 * side + 2] = n, loss

        run_ranges(task, [(part, part + 1) for part in range(len(parts))], self._n_threads)
        course = np.zeros((len(ends), 4), np.int64)
        np.add.at(course, np.array([party for party, _ in parts], np.intp), found)
        self.course.append(course)

    def guesses(self, rows: slice = slice(None)) -> Floats:
        """Return what the finished trees predict: scores by class, or targets in steps."""
        objective, scores = self._objective, self.scores[:, rows]
        if objective.n_classes == 2:
            return np.stack([-scores[0], scores[0]], axis=1).astype(np.float64)
        if objective.settings.loss == "poisson":
            low, high = objective.target
            means = high * np.exp(scores.T * 2.0**-SCORE_BITS)  # for the report alone
            steps: Floats = (means - low) / (high - low) * (2**SCORE_BITS - 1)
            return steps
        return scores.T.astype(np.float64)


class Course:
    """How the loss falls, batch by batch, and when it no longer does."""

    def __init__(self, objective: Objective, curves: dict[str, tuple[float, ...]]) -> None:
        self.curves = {name: [*curves.get(name, ())] for name in ("training", "validation")}
        self.is_over = False
        self._objective = objective

    def note(self, losses: Integers) -> None:
        """Keep the losses after the batches so far; notice if they no longer fall."""
        if losses.shape != (4,):
            raise ProtocolError("A party's losses do not fit the question.")
        settings = self._objective.settings
        for at, name in ((0, "training"), (2, "validation")):
            if losses[at] > 0:
                self.curves[name].append(self._objective.mean_loss(*losses[at : at + 2].tolist()))
        if not settings.early_stopping:
            return
        if losses[0] <= 0 or losses[2] <= 0:
            raise TableError(
                "early_stopping set all rows apart, or none: the parties hold too few rows for "
                f"validation_fraction={settings.validation_fraction:g}. Turn it off."
            )
        found, n = self.curves["validation"], settings.n_iter_no_change
        self.is_over = len(found) > n and min(found[-n:]) > found[-n - 1] - settings.tol

    @property
    def found(self) -> dict[str, tuple[float, ...]]:
        """The curves that have a value."""
        return {name: tuple(found) for name, found in self.curves.items() if found}
