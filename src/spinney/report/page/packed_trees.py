"""The trees of a forest in few bytes, for the page's script to draw; no node becomes markup.

Each tree's nodes are stored level by level, so links need no space: the children of a tree's k-th
split are its nodes 2k + 1 and 2k + 2. A split is stored as an index into its column's list of cuts,
or as the threshold itself if few thresholds repeat. The first class's share is 1 minus the others.
Numbers of the same kind are stored together and deflated together.
"""

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.protocols.model import ForestModel
from spinney.tables.schema import Label
from spinney.trees.forest import Forest
from spinney.trees.layout import join_forests
from spinney.trees.leaf_counts import NodeNoise
from spinney.typing import Integers

MOST_BYTES = 4_600_000
"""The most bytes for the trees and the facts of their columns; the page stays under 5 MB."""

_UNITS = 65535  # the number of steps in which a class's share is stored


@dataclass(frozen=True)
class PackedTrees:
    """The page script's input: a description, and the deflated arrays in base64."""

    head: str
    data: str
    n_drawn: int


def pack_trees(
    model: ForestModel, holder: Mapping[str, str] | None = None, dates: tuple[str, ...] = ()
) -> PackedTrees:
    """Return the trees, or the first few if a page cannot hold them all.

    `holder` names the party of each column, if the columns belong to different parties; `dates`
    are the columns that count days.
    """
    shown = {
        column.name: {"holder": (holder or {}).get(column.name), "is_date": column.name in dates}
        for column in model.schema.columns
    }
    base = None
    if model.boosted is not None:
        model, base = scores_of(model)
    n_trees = model.forest.n_trees
    while True:
        found = _packed(model, n_trees, shown, base)
        room = max(0, MOST_BYTES - len(found.head))
        if len(found.data) <= room or n_trees == 1:
            return found
        n_trees = max(1, min(n_trees - 1, n_trees * room // len(found.data)))


def level_order(forest: Forest, n_trees: int) -> Integers:
    """Return the nodes of the first trees; within each tree, level by level."""
    orders = []
    for tree in range(n_trees):
        level = forest.tree_start[tree : tree + 1]
        while level.size:
            orders.append(level)
            splits = level[forest.feature[level] >= 0]
            left = forest.left[splits].astype(np.int64)
            level = np.stack([left, left + 1], axis=1).reshape(-1)
    return np.concatenate(orders)


def scores_of(model: ForestModel) -> tuple[ForestModel, float]:
    """Return boosted trees as a forest of numbers whose sum is a score, and where the sum begins.

    Of several classes, which have trees of their own, these are the trees of the last.
    """
    assert model.boosted is not None
    forest, label, base = model.forest, model.schema.label, model.boosted.base
    if label.classes is None:
        if model.boosted.link == "log":
            named = Label(f"logarithm of {label.name}", "number")
            model = replace(model, schema=replace(model.schema, label=named))
        return replace(model, boosted=None), float(base[0])
    trees = [forest.tree(number) for number in range(base.size - 1, forest.n_trees, base.size)]
    kept = join_forests(trees)
    what = "log odds" if base.size == 1 else "score"
    named = Label(f"{what} of {label.name} = {label.classes[-1]}", "number")
    schema = replace(model.schema, label=named)
    noise = model.noise
    if noise is not None:
        tree = np.repeat(np.arange(forest.n_trees), np.diff(forest.tree_start))
        is_kept = tree % base.size == base.size - 1
        noise = NodeNoise(noise.counts[is_kept], noise.gain[is_kept])
    values = np.ascontiguousarray(kept.value[:, -1:])
    named_model = replace(model, schema=schema, boosted=None, noise=noise)
    return replace(named_model, forest=replace(kept, value=values)), float(base[-1])


def _packed(
    model: ForestModel, n_trees: int, shown: Mapping[str, dict[str, Any]], base: float | None
) -> PackedTrees:
    forest, schema = model.forest, model.schema
    order = level_order(forest, n_trees)
    feature = forest.feature[order]
    is_leaf = feature < 0
    splits, leaves = order[~is_leaf], order[is_leaf]
    wide = len(schema.columns) >= 255
    number = np.where(is_leaf, 65535 if wide else 255, feature)
    cuts, is_direct = _cuts(model, splits)
    arrays: dict[str, NDArray[Any]] = {
        "feature": number.astype(np.uint16 if wide else np.uint8),
        "missing_left": _missing_left(forest, splits),
        **cuts,
        "cover": _cover(model)[leaves].clip(0, 2**32 - 1).astype(np.uint32),
        "value": _values(model, leaves),
    }
    if model.noise is not None:
        arrays["deviation"] = model.noise.counts[order].astype(np.float32)
    head = {
        "n_trees": n_trees,
        "of_trees": forest.n_trees,
        "n_nodes": np.diff(forest.tree_start)[:n_trees].tolist(),
        "is_direct": is_direct,
        "owners": list(model.owners),
        "columns": [
            {**_column(model, place), **shown[column.name]}
            for place, column in enumerate(schema.columns)
        ],
        "label": schema.label.name,
        "base": base,
        "classes": None if schema.label.classes is None else list(schema.label.classes),
        "arrays": [[name, a.dtype.str.lstrip("<|"), a.size] for name, a in arrays.items()],
    }
    body = b"".join(np.ascontiguousarray(a).tobytes() for a in arrays.values())
    data = base64.b64encode(zlib.compress(body, 6)).decode()
    return PackedTrees(json.dumps(head, ensure_ascii=True), data, n_trees)


def _column(model: ForestModel, place: int) -> dict[str, Any]:
    column = model.schema.columns[place]
    return {
        "name": column.name,
        "kind": column.kind,
        "middle": _middle(model.forest, place),
        "categories": None if column.categories is None else list(map(str, column.categories)),
        "bins": model.bin_of_category[place].tolist(),
    }


def _middle(forest: Forest, place: int) -> float | None:
    """Return the middle cut of a column, as a starting value; None if no split uses the column."""
    cuts = forest.threshold[(forest.feature == place) & (forest.subset < 0)]
    known = cuts[np.isfinite(cuts)]  # an infinite cut only separates missing values
    return float(f"{np.median(known):.5g}") if known.size else None


def _missing_left(forest: Forest, splits: Integers) -> NDArray[np.uint8]:
    """Return whether each split sends missing values left, for numbers and categories alike."""
    side = forest.missing_left[splits].astype(np.uint8)
    sets = forest.subset[splits]
    has_set = sets >= 0
    side[has_set] = (forest.bin_sets[sets[has_set], 3] >> np.uint64(63)).astype(np.uint8)
    return side


def _cuts(model: ForestModel, splits: Integers) -> tuple[dict[str, NDArray[Any]], bool]:
    """Return each split's cut as an index into its column's list, and the lists.

    If few thresholds repeat, they are stored split by split instead; the flag says whether.
    """
    forest = model.forest
    feature = forest.feature[splits]
    cut = np.zeros(splits.size, np.int64)
    n_cuts = np.zeros(len(model.schema.columns), np.uint32)
    thresholds: list[NDArray[Any]] = [np.zeros(0, np.float32)]
    sets: list[NDArray[Any]] = [np.zeros((0, 4), np.uint64)]
    is_number = forest.subset[splits] < 0
    n_different = np.unique(forest.threshold[splits[is_number]]).size
    is_direct = bool(2 * n_different > is_number.sum())
    if is_direct:
        thresholds = [np.where(is_number, forest.threshold[splits], np.float32(0))]
    for column in np.unique(feature):
        here = feature == column
        if len(model.bin_of_category[column]):
            rows = forest.bin_sets[forest.subset[splits[here]]]
            known, place = np.unique(rows, axis=0, return_inverse=True)
            sets.append(known)
        elif is_direct:
            continue
        else:
            known, place = np.unique(forest.threshold[splits[here]], return_inverse=True)
            thresholds.append(known)
        n_cuts[column] = len(known)
        cut[here] = place.reshape(-1)
    most = int(n_cuts.max(initial=0))
    kind = np.uint8 if most <= 256 else np.uint16 if most <= 65536 else np.uint32
    arrays = {
        "cut": cut.astype(kind),
        "n_cuts": n_cuts,
        "threshold": np.concatenate(thresholds),
        "set": np.concatenate(sets).astype("<u8").view(np.uint8).reshape(-1),
    }
    return arrays, is_direct


def _cover(model: ForestModel) -> NDArray[np.int64]:
    """Return the number of rows in each node; a row that was drawn twice counts twice."""
    moments = model.forest.moments
    return moments[:, 0] if model.schema.label.kind == "number" else moments.sum(axis=1)


def _values(model: ForestModel, leaves: Integers) -> NDArray[Any]:
    """Return the leaves' predictions: shares in steps from the second class on, or numbers."""
    value = model.forest.value[leaves]
    if model.schema.label.kind == "number":
        return value[:, 0].astype(np.float32)
    return np.rint(value.T[1:] * _UNITS).clip(0, _UNITS).astype(np.uint16).reshape(-1)
