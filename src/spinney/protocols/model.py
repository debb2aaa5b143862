"""A trained forest with the public facts it needs to predict without a network or an engine."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from spinney.errors import SettingError, StorageError
from spinney.protocols.release_terms import Hardening
from spinney.tables.columns import Columns
from spinney.tables.schema import Label, Schema, join_words
from spinney.tables.withheld import UndeclaredRows
from spinney.trees import storage
from spinney.trees.binning import bin_categories
from spinney.trees.dtypes import CATEGORY_WORDS
from spinney.trees.forest import Forest, RowValues, paths_end, row_ranges
from spinney.trees.leaf_counts import NodeNoise
from spinney.trees.threads import run_ranges
from spinney.typing import Floats, Integers, Values

_KIND = "forest model"
_NOISE = tuple(field.name for field in fields(NodeNoise))


@dataclass(frozen=True)
class Boosted:
    """What turns the sum of boosted trees into a prediction; `base` is in units of leaf values."""

    link: str  # "identity", "log", "logistic" for two classes, or "softmax"
    base: Floats  # (n_outputs,) the score before the first tree
    batch_trees: int  # how many trees of an output were added at once

    def meta(self) -> dict[str, Any]:
        """Return what a file says about it, besides `base`."""
        return {"boosted": self.link, "batch_trees": self.batch_trees}

    def fits(self, label: Label | None, n_values: int) -> bool:
        """Return whether scores and their link fit a label, and leaves with so many values."""
        if label is None:
            return False
        link, size, classes = "identity", 1, label.classes
        if classes is not None:
            link, size = ("logistic", 1) if len(classes) == 2 else ("softmax", len(classes))
        base = self.base
        sound = base.dtype == np.float64 and base.shape == (size,) and self.batch_trees > 0
        known = self.link == link or (classes is None and self.link == "log")
        return sound and known and n_values == size and bool(np.all(np.isfinite(base)))

    def predicted(self, scores: Floats) -> Floats:
        """Return predictions from the trees' sums, (n_rows, n_outputs)."""
        scores = scores + self.base
        if self.link == "identity":
            return scores
        if self.link == "log":
            return np.exp(scores)
        if self.link == "logistic":
            odds = np.exp(-np.abs(scores[:, 0]))
            less, more = odds / (1.0 + odds), 1.0 / (1.0 + odds)
            chance = np.where(scores[:, 0] >= 0, more, less)
            return np.stack([np.where(scores[:, 0] >= 0, less, more), chance], axis=1)
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        found: Floats = shares / shares.sum(axis=1, keepdims=True)
        return found


@dataclass(frozen=True)
class ForestModel:
    """A forest, the schema of its tables, and which bin each category has."""

    protocol: str
    schema: Schema
    forest: Forest
    bin_of_category: tuple[NDArray[np.uint8], ...]  # empty for numbers
    owners: tuple[str, ...] = ()  # personal trees: the party of each; else empty
    noise: NodeNoise | None = None  # for trees whose counts carry noise
    consent: tuple[str, ...] = ()  # a forest joined from parts: the parties that agreed to it
    released: Hardening | None = None  # the terms on which it left its run; None: as it was trained
    boosted: Boosted | None = None  # trees that are summed; else predictions are their mean
    undeclared: UndeclaredRows = field(default_factory=UndeclaredRows)  # read; never stored

    def of_owner(self, party: str) -> "ForestModel":
        """Return the model of one party's own tree."""
        if party not in self.owners:
            raise SettingError(
                f"No party is called {party!r}. The model has trees of: {join_words(self.owners)}."
            )
        tree = self.forest.tree(self.owners.index(party))
        return ForestModel(
            self.protocol,
            self.schema,
            tree,
            self.bin_of_category,
            (party,),
            released=self.released,
            undeclared=self.undeclared,
        )

    @property
    def n_outputs(self) -> int:
        """How many numbers a prediction has: one per class, or one for regression."""
        classes = self.schema.label.classes
        return int(self.forest.value.shape[1]) if classes is None else len(classes)

    def predict(self, columns: Columns, *, n_threads: int = 1) -> Floats:
        """Return predictions, (n_rows, n_outputs), reading the rows in batches."""
        out = np.zeros((columns.n_rows, self.forest.value.shape[1]))
        has_categories = any(map(len, self.bin_of_category))

        def task(first: int, last: int) -> None:
            part = slice(first, last)
            rows = self.rows(columns.values(part)) if has_categories else columns.lines(part)
            self.forest.add_predictions(rows, out[part])

        run_ranges(task, row_ranges(columns.n_rows, n_threads), n_threads)
        return self.of_sums(out)

    def of_sums(self, sums: Floats, n_trees: int | None = None) -> Floats:
        """Return predictions from sums over trees: their mean, unless they are boosted."""
        if self.boosted is not None:
            return self.boosted.predicted(sums)
        means: Floats = sums / (n_trees or self.forest.n_trees)
        return means

    def decided(self, shares: Floats) -> Integers:
        """Return the most probable class of each row, by its number."""
        best: Integers = shares.argmax(axis=1)
        return best

    def predict_batches(self, batches: Iterator[Values], *, n_threads: int = 1) -> Iterator[Floats]:
        """Return predictions batch by batch, for tables that do not fit in memory."""
        for values in batches:
            out = np.zeros((values.shape[1], self.forest.value.shape[1]))
            self.forest.add_predictions(self.rows(values), out, n_threads=n_threads)
            yield self.of_sums(out)

    def staged(self, columns: Columns, *, n_threads: int = 1) -> Iterator[Floats]:
        """Yield the predictions of boosted trees after each batch."""
        assert self.boosted is not None
        forest, size = self.forest, self.boosted.batch_trees * self.boosted.base.size
        rows = self.rows(columns.values(slice(0, columns.n_rows)))
        out = np.zeros((len(rows), self.boosted.base.size))
        for first in range(0, forest.n_trees, size):
            part = replace(forest, tree_start=forest.tree_start[first : first + size + 1])
            part.add_predictions(rows, out, n_threads=n_threads)
            yield self.of_sums(out)

    def importances(self) -> Floats:
        """Return each column's share of the gain: of each tree's, averaged, or of all if boosted.

        Of a random forest every tree counts the same; boosted trees gain less and less.
        """
        n_columns = len(self.schema.columns)
        if self.boosted is None:
            return self.forest.importances(n_columns)
        split = self.forest.feature >= 0
        total = np.bincount(self.forest.feature[split], self.forest.gain[split], n_columns)
        shares: Floats = total / total.sum() if total.sum() > 0 else np.zeros(n_columns)
        return shares

    def rows(self, values: Values) -> RowValues:
        """Return values row by row, with each category replaced by its bin."""
        rows: RowValues = np.ascontiguousarray(values.T)
        for column, bins in enumerate(self.bin_of_category):
            if len(bins):
                rows[:, column] = bin_categories(values[column], bins)
        return rows

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file; the same model always gives the same bytes."""
        storage.write_file(path, _KIND, self._meta(), self._arrays())

    def to_bytes(self) -> bytes:
        """Return what `save` writes."""
        return storage.to_bytes(_KIND, self._meta(), self._arrays())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "ForestModel":
        """Read a model that `save` wrote."""
        return cls._of_parts(*storage.read_file(path, _KIND), name=str(path))

    @classmethod
    def from_bytes(cls, data: bytes, *, name: str) -> "ForestModel":
        """Return the model that `to_bytes` wrote; errors call it `name`."""
        return cls._of_parts(*storage.from_bytes(data, _KIND, name=name), name=name)

    @classmethod
    def _of_parts(
        cls, meta: dict[str, Any], arrays: dict[str, NDArray[Any]], *, name: str
    ) -> "ForestModel":
        try:
            schema = msgspec.convert(meta["schema"], type=Schema)
            forest = Forest(**{field.name: arrays.pop(field.name) for field in fields(Forest)})
            n_columns = len(schema.columns)
            bins = tuple(arrays.pop(f"bin_of_category.{i}") for i in range(n_columns))
            owners = tuple(str(name) for name in meta.get("owners", ()))
            noise = None
            if f"noise.{_NOISE[0]}" in arrays:
                noise = NodeNoise(**{name: arrays.pop(f"noise.{name}") for name in _NOISE})
            consent = tuple(str(name) for name in meta.get("consent", ()))
            released = msgspec.convert(meta.get("released"), type=Hardening | None)
            boosted = None
            if "boosted" in meta:
                base = arrays.pop("boosted.base")
                boosted = Boosted(str(meta["boosted"]), base, int(meta["batch_trees"]))
            named = (owners, noise, consent, released, boosted)
            model = cls(str(meta["protocol"]), schema, forest, bins, *named)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise StorageError(f"{name!r} is not a complete model: {error}.") from None
        model.check(name)
        return model

    def check(self, name: str) -> None:
        """Raise unless every node leads to a node that exists; no file is trusted."""
        forest = self.forest
        sound = self._arrays_are_sound() and paths_end(
            forest.tree_start, forest.left, forest.feature < 0
        )
        if not (sound and self._splits_are_sound()):
            raise StorageError(f"{name!r} does not hold a valid forest. Save the model again.")

    def _arrays_are_sound(self) -> bool:
        """Return whether every array has the right type and shape."""
        forest, n = self.forest, self.forest.feature.shape[:1]
        classes = self.schema.label.classes
        if self.schema.label.kind == "class" and not classes:
            return False
        n_outputs = 1 if classes is None else len(classes)
        n_moments = 2 if classes is None else n_outputs
        if self.boosted is not None:
            n_outputs, n_moments = self.boosted.base.size, 1
            if not self.boosted.fits(self.schema.label, n_outputs):
                return False
        expected = {
            "tree_start": (np.int64, forest.tree_start.shape[:1]),
            "feature": (np.int32, n),
            "threshold": (np.float32, n),
            "left": (np.uint32, n),
            "missing_left": (np.bool_, n),
            "subset": (np.int32, n),
            "bin_sets": (np.uint64, (*forest.bin_sets.shape[:1], CATEGORY_WORDS)),
            "moments": (np.int64, (*n, n_moments)),
            "gain": (np.float64, n),
            "value": (np.float64, (*n, n_outputs)),
        }
        if self.owners and len(set(self.owners)) != forest.n_trees:
            return False
        arrays = all(
            getattr(forest, name).dtype == dtype and getattr(forest, name).shape == shape
            for name, (dtype, shape) in expected.items()
        )
        bins = all(
            bins.dtype == np.uint8 and bins.shape == (len(column.categories or ()),)
            for bins, column in zip(self.bin_of_category, self.schema.columns, strict=True)
        )
        return (
            arrays and bins and self._noise_is_sound() and bool(np.all(np.isfinite(forest.value)))
        )

    def _noise_is_sound(self) -> bool:
        """Return whether every node has its standard deviations, if there are any."""
        held = [] if self.noise is None else [getattr(self.noise, name) for name in _NOISE]
        return all(
            array.dtype == np.float64
            and array.shape == self.forest.feature.shape
            and bool(np.all(np.isfinite(array) & (array >= 0)))
            for array in held
        )

    def _splits_are_sound(self) -> bool:
        """Return whether splits on categories, and only those, have a set of bins."""
        forest, n_columns = self.forest, len(self.schema.columns)
        if np.any(forest.feature < -1) or np.any(forest.feature >= n_columns):
            return False
        is_category = np.array([len(bins) > 0 for bins in self.bin_of_category] + [False])
        has_set = forest.subset >= 0
        known = (forest.subset >= -1) & (forest.subset < len(forest.bin_sets))
        return bool(np.all(known) and np.all(has_set == is_category[forest.feature]))

    def _meta(self) -> dict[str, Any]:
        named = {"owners": self.owners, "consent": self.consent}
        released = {} if self.released is None else {"released": msgspec.to_builtins(self.released)}
        return {
            "protocol": self.protocol,
            "schema": msgspec.to_builtins(self.schema),
            **({} if self.boosted is None else self.boosted.meta()),
            **{key: list(names) for key, names in named.items() if names},
            **released,
        }

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays = {field.name: getattr(self.forest, field.name) for field in fields(Forest)}
        bins = {f"bin_of_category.{i}": b for i, b in enumerate(self.bin_of_category)}
        noise = {} if self.noise is None else {f"noise.{k}": getattr(self.noise, k) for k in _NOISE}
        base = {} if self.boosted is None else {"boosted.base": self.boosted.base}
        return {**arrays, **bins, **noise, **base}
