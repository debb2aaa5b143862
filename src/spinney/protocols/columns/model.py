"""A party's part of trees over columns, and the model joined from all parts.

**Who learns what.** Whoever joins the parts sees every cut and every leaf. A party gives its part
away only if it was set up to consent.
"""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from spinney.errors import PolicyError, ProtocolError, StorageError
from spinney.protocols.model import Boosted, ForestModel
from spinney.tables.schema import Column, Label, Schema, join_words
from spinney.trees import storage
from spinney.trees.binning import bin_categories
from spinney.trees.forest import paths_end
from spinney.trees.partial import LeafSets, PartialForest, join_forests, leaf_sets
from spinney.typing import Integers, Values

PART = "part.spinney"  # the file of a finished part
_KIND = "part of a forest"
_FOREST = "vertical_forest"  # the protocol of a part that names none


@dataclass(frozen=True)
class PartialModel:
    """The nodes of all trees with one party's cuts, and leaf values if it has the labels."""

    party: str
    columns: tuple[Column, ...]
    label: Label | None
    numbers: Integers  # the numbers of its columns among those of all parties
    bin_of_category: tuple[NDArray[np.uint8], ...]
    part: PartialForest
    protocol: str = _FOREST
    boosted: Boosted | None = None  # at the label party, if trees are summed

    def leaf_sets(self, values: Values, n_threads: int) -> LeafSets:
        """Return which leaves rows may reach; `values` is (own columns, n_rows)."""
        rows = values.copy()
        for column, bins in enumerate(self.bin_of_category):
            if len(bins):
                rows[column] = bin_categories(values[column], bins)
        return leaf_sets(self.part, rows, n_threads)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the part to a file."""
        storage.write_file(path, _KIND, self._meta(), self._arrays())

    def to_bytes(self) -> bytes:
        """Return what `save` writes."""
        return storage.to_bytes(_KIND, self._meta(), self._arrays())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "PartialModel":
        """Read a part that `save` wrote."""
        meta, arrays = storage.read_file(path, _KIND)
        return cls._of(meta, arrays, str(path))

    @classmethod
    def from_bytes(cls, data: bytes, *, name: str = "the data") -> "PartialModel":
        """Return the part that `to_bytes` wrote."""
        return cls._of(*storage.from_bytes(data, _KIND, name=name), name)

    @classmethod
    def _of(
        cls, meta: dict[str, Any], arrays: dict[str, NDArray[Any]], name: str
    ) -> "PartialModel":
        try:
            columns = msgspec.convert(meta["columns"], type=tuple[Column, ...])
            label = msgspec.convert(meta["label"], type=Label | None)
            names = [field.name for field in fields(PartialForest)]
            part = PartialForest(**{name: arrays.pop(name) for name in names})
            bins = tuple(arrays.pop(f"bin_of_category.{i}") for i in range(len(columns)))
            boosted = None
            if "boosted" in meta:
                base = arrays.pop("boosted.base")
                boosted = Boosted(str(meta["boosted"]), base, int(meta["batch_trees"]))
            named = (str(meta.get("protocol", _FOREST)), boosted)
            numbers = arrays.pop("numbers")
            model = cls(str(meta["party"]), columns, label, numbers, bins, part, *named)
        except (KeyError, TypeError, ValueError, msgspec.ValidationError) as error:
            raise StorageError(f"{name!r} is not a complete part of a model: {error}.") from None
        if not model.is_sound():
            raise StorageError(f"{name!r} does not hold a valid part of a forest. Save it again.")
        return model

    def is_sound(self) -> bool:
        """Return whether every path ends and every cut is by an existing column."""
        part, n = self.part, self.part.left.shape[:1]
        shapes = {
            "feature": (np.int32, n), "threshold": (np.float32, n), "left": (np.uint32, n),
            "missing_left": (np.bool_, n), "subset": (np.int32, n), "gain": (np.float64, n),
            "moments": (np.int64, (*n, part.moments.shape[-1])),
            "value": (np.float64, (*n, part.value.shape[-1])),
            "tree_start": (np.int64, part.tree_start.shape[:1]),
            "bin_sets": (np.uint64, (len(part.bin_sets), 4)),
        }  # fmt: skip
        typed = all(
            getattr(part, name).dtype == kind and getattr(part, name).shape == shape
            for name, (kind, shape) in shapes.items()
        )
        linked = typed and paths_end(part.tree_start, part.left, part.feature == -1)
        summed = self.boosted is None or self.boosted.fits(self.label, part.value.shape[-1])
        return linked and summed and self._cuts_are_sound()

    def _cuts_are_sound(self) -> bool:
        part, n_columns = self.part, len(self.columns)
        if np.any(part.feature < -2) or np.any(part.feature >= n_columns):
            return False
        if len(self.bin_of_category) != n_columns or self.numbers.shape != (n_columns,):
            return False
        is_category = np.array([len(bins) > 0 for bins in self.bin_of_category] + [False, False])
        has_set = part.subset >= 0
        known = (part.subset >= -1) & (part.subset < len(part.bin_sets))
        return bool(np.all(known) and np.all(has_set == is_category[part.feature]))

    def _meta(self) -> dict[str, Any]:
        return {
            "party": self.party,
            "columns": msgspec.to_builtins(self.columns),
            "label": msgspec.to_builtins(self.label),
            **({} if self.protocol == _FOREST else {"protocol": self.protocol}),
            **({} if self.boosted is None else self.boosted.meta()),
        }

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays = {field.name: getattr(self.part, field.name) for field in fields(PartialForest)}
        bins = {f"bin_of_category.{i}": b for i, b in enumerate(self.bin_of_category)}
        base = {} if self.boosted is None else {"boosted.base": self.boosted.base}
        return {**arrays, **bins, **base, "numbers": self.numbers}


def join_model(parts: Mapping[str, PartialModel], consent: Collection[str]) -> ForestModel:
    """Return the forest joined from all parts; raise unless every party consents."""
    missing = [name for name in parts if name not in consent]
    if missing:
        raise PolicyError(
            f"{join_words(map(repr, missing))} did not consent to joining the parts. "
            "The parts of a model over columns are joined only if all parties agree."
        )
    holders = [model for model in parts.values() if model.label is not None]
    numbers = np.concatenate([model.numbers for model in parts.values()])
    if len(holders) != 1 or not np.array_equal(np.sort(numbers), np.arange(numbers.size)):
        raise ProtocolError("The parts do not form a forest: a part is missing or duplicated.")
    columns: list[Column] = [column for model in parts.values() for column in model.columns]
    bins = [found for model in parts.values() for found in model.bin_of_category]
    order = np.argsort(numbers)
    (holder,) = holders
    assert holder.label is not None
    boosted = holder.boosted
    together = None if boosted is None else boosted.batch_trees * boosted.base.size
    every = [(model.part, model.numbers) for model in parts.values()]
    forest = join_forests(every, together=together)
    schema = Schema(tuple(columns[i] for i in order), holder.label)
    own_bins = tuple(bins[i] for i in order)
    return ForestModel(holder.protocol, schema, forest, own_bins, boosted=boosted)
