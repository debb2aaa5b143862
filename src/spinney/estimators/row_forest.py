"""The base of all estimators of forests over rows: their parameters, settings and trees."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from spinney.errors import SettingError, SpinneyWarning
from spinney.estimators.at_home import FitsAtHome
from spinney.estimators.weights import repeated_rows, taken
from spinney.trees.threads import thread_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spinney.tables.table import MemoryTable
    from spinney.typing import Floats, Integers


class RowForest(FitsAtHome):
    """A forest over parties that hold different rows of the same columns."""

    def fit(self, X: Any, y: Any, party: Any = None, sample_weight: Any = None) -> Self:
        """Grow the forest.

        Parameters
        ----------
        X
            A numeric array, or a data frame (pandas, polars, pyarrow).
        y
            The label of each row.
        party
            The party of each row; see `deal_rows`. None: one party holds all rows.
        sample_weight
            How often each row counts: whole multiples of the smallest weight above zero. The
            forest is that of a table in which each row stands so often.
        """
        if sample_weight is not None and self._is_private:
            raise SettingError(
                "sample_weight is refused in a private job: a record that counts several times "
                "would cost its party several times the budget. Drop it."
            )
        known = self._grown_before()
        is_judged = not self.oob_score or hasattr(self, "oob_score_")
        if known is not None and known == self.n_estimators and is_judged:
            warnings.warn(
                "Warm-start fitting without increasing n_estimators does not fit new trees.",
                SpinneyWarning,
                stacklevel=2,
            )
            return self
        rows = repeated_rows(sample_weight, X)
        self._fitted(taken(X, rows), taken(y, rows), taken(party, rows))
        if rows is not None and self.oob_score:
            self._unrepeat(rows, len(y))
        return self

    def _grown_before(self) -> int | None:
        """Return how many trees a warm start begins with; None: it is none."""
        if not isinstance(self.warm_start, bool | np.bool_):
            raise SettingError(f"warm_start must be True or False; got {self.warm_start!r}.")
        if not self.warm_start or not hasattr(self, "model_"):
            self.__dict__.pop("_seed", None)
            return None
        known: int = self.model_.forest.n_trees
        if isinstance(self.n_estimators, int) and self.n_estimators < known:
            raise SettingError(
                f"n_estimators={self.n_estimators} must be larger or equal to the {known} trees "
                "that are grown when warm_start==True."
            )
        return known

    def _checked(self) -> None:
        """Raise if parameters do not fit together."""
        if not isinstance(self.secure_sum, bool | np.bool_):
            raise SettingError(f"secure_sum must be True or False; got {self.secure_sum!r}.")
        if self.max_samples is not None:
            raise SettingError(
                f"max_samples must be None; got {self.max_samples!r}. A bootstrap draws each row "
                "by a hash of its own key, as often as Poisson's law with mean 1 says, so that no "
                "party must know how many rows the others hold. Deal fewer rows instead."
            )
        from spinney.protocols.settings import refuse_max_leaf_nodes  # noqa: PLC0415  loaded late

        refuse_max_leaf_nodes(self.max_leaf_nodes)

    def _shared_settings(self, classes: tuple[Any, ...]) -> dict[str, Any]:
        """Return the settings that are common to all forests over rows."""
        self._checked()
        settings = self._forest_settings(classes) | {"message_limit": self.message_limit}
        if callable(self.oob_score):
            settings["oob_score"] = True  # the job knows of no other; `_judge_out_of_bag` calls it
        # A tree is drawn by its number and the seed: the first trees of a larger forest are those
        # of a smaller one, so that a warm start keeps the seed.
        self._seed = self.__dict__.get("_seed", settings["seed"])
        return settings | {"seed": self._seed}

    @property
    def estimators_(self) -> list[Any]:
        """The trees as `to_sklearn` makes them, for the matrix that its encoder returns.

        They are made anew each time: a view of the trees, not the trees.
        """
        check_is_fitted(self)
        found = self.to_sklearn(exact=True)
        trees: list[Any] = (found[-1] if hasattr(found, "steps") else found).estimators_
        return trees

    def __len__(self) -> int:
        """Return how many trees there are."""
        return len(self.estimators_)

    def __getitem__(self, number: int) -> Any:
        """Return a tree as `estimators_` has it."""
        return self.estimators_[number]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.estimators_)

    def __bool__(self) -> bool:
        return True  # also before it is fitted, when it has no length

    def _judge_out_of_bag(self, table: MemoryTable) -> None:
        """Keep what trees predict for the rows they have not drawn; NaN if all have drawn it."""
        if self._is_private:
            return
        found = self._out_of_bag(table)
        judged = ~np.isnan(found).any(axis=1)
        if not judged.all():
            warnings.warn(
                "Some inputs do not have OOB scores: every tree has drawn them. Grow more trees.",
                SpinneyWarning,
                stacklevel=4,
            )
        truth, said = table.target, found[:, 0]
        if self._is_classifier:
            self.oob_decision_function_ = found
            truth, said = (self.classes_.take(one) for one in (truth, found.argmax(axis=1)))
        else:
            self.oob_prediction_ = said
        if callable(self.oob_score):
            self.oob_score_ = self.oob_score(truth[judged], said[judged])

    def _out_of_bag(self, table: MemoryTable) -> Floats:
        """Return the mean over the trees that have not drawn a row, for all rows of the columns."""
        from spinney.protocols.rows.quality import out_of_bag  # noqa: PLC0415  loads numba

        values, keys = table.columns.values(slice(None)), table.all_keys
        n_threads = thread_count(self.n_jobs)
        return out_of_bag(self.model_, values, keys, self._seed, n_threads=n_threads)

    def _train(self, tables: dict[str, MemoryTable], *how: Any) -> Any:
        self._tables = tables  # for `for_party`; rows are not pickled
        return super()._train(tables, *how)

    def _own_out_of_bag(self, name: str) -> tuple[Floats, Integers]:
        """Return what trees say of a party's rows that they have not drawn, and their classes."""
        table = self.__dict__.get("_tables", {}).get(name)
        if not self.bootstrap or self._is_private or table is None:
            return super()._own_out_of_bag(name)
        rows = np.arange(table.columns.n_rows) if table.rows is None else table.rows
        return self._out_of_bag(table)[rows], table.target[rows]

    def _unrepeat(self, rows: Integers, n_rows: int) -> None:
        """Keep the out-of-bag prediction of each row once; NaN for rows that do not count."""
        first, place = np.unique(rows, return_index=True)
        for name in ("oob_decision_function_", "oob_prediction_"):
            if name in self.__dict__:
                found = getattr(self, name)
                once = np.full((n_rows, *found.shape[1:]), np.nan)
                once[first] = found[place]
                setattr(self, name, once)
