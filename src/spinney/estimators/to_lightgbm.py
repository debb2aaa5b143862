"""Boosted trees as LightGBM's text model: categories as numbers, native category sets.

LightGBM has no score before the first tree, so the first tree of each output carries it. Its
categories that are missing or unknown go right; where ours go left, the sides change places.
"""

from typing import Final

import numpy as np

from spinney.errors import SettingError
from spinney.estimators.walked import Leaf, Split, nodes_of, require_one_answer
from spinney.protocols.model import Boosted, ForestModel
from spinney.typing import Bools

_OBJECTIVES: Final = {
    "identity": "regression",
    "log": "poisson",
    "logistic": "binary sigmoid:1",
}
_IS_CATEGORY: Final = 1
_MISSING_LEFT: Final = 2
_MISSING_IS_NAN: Final = 8
_WORD: Final = 32


def lightgbm_text(model: ForestModel) -> str:
    """Return the text that `lightgbm.Booster(model_str=...)` reads."""
    require_one_answer(model)
    boosted = model.boosted
    if boosted is None:
        raise SettingError(
            "LightGBM's text model holds boosted trees, and this model is a forest. Use to_onnx() "
            "or to_treelite()."
        )
    n_outputs, n_columns = boosted.base.size, len(model.schema.columns)
    softmax = f"multiclass num_class:{n_outputs}"
    head = {
        "version": "v4",
        "num_class": n_outputs,
        "num_tree_per_iteration": n_outputs,
        "label_index": 0,
        "max_feature_idx": n_columns - 1,
        "objective": _OBJECTIVES.get(boosted.link, softmax),
        "feature_names": " ".join(f"Column_{number}" for number in range(n_columns)),
        "feature_infos": " ".join(["none"] * n_columns),
    }
    trees = [_tree(model, boosted, number) for number in range(model.forest.n_trees)]
    return "\n".join(["tree", *_lines(head), "", *trees, "end of trees", ""])


def _lines(values: dict[str, object]) -> list[str]:
    return [f"{name}={value}" for name, value in values.items()]


def _tree(model: ForestModel, boosted: Boosted, number: int) -> str:
    output = number % boosted.base.size
    base = float(boosted.base[output]) if number < boosted.base.size else 0.0
    nodes = list(nodes_of(model, number))
    place = {}  # inner nodes are numbered from 0, leaves downwards from -1
    n_inner = n_leaves = 0
    for at, node in enumerate(nodes):
        if isinstance(node, Leaf):
            n_leaves += 1
            place[at] = -n_leaves
        else:
            place[at] = n_inner
            n_inner += 1
    leaves = [base + float(node.value[output]) for node in nodes if isinstance(node, Leaf)]
    splits = [node for node in nodes if isinstance(node, Split)]
    start = int(model.forest.tree_start[number])
    rows = model.forest.moments[start : start + len(nodes), 0]
    counts = [int(max(n, 0)) for n, node in zip(rows, nodes, strict=True) if isinstance(node, Leaf)]
    fields: dict[str, list[object]] = {name: [] for name in _OF_SPLIT}
    ends, words = [0], []
    for split in splits:
        left, right = place[split.left], place[split.right]
        if split.categories is None:
            kind = _MISSING_IS_NAN | (_MISSING_LEFT if split.missing_left else 0)
            threshold: object = repr(split.threshold)
        else:
            kind, threshold = _MISSING_IS_NAN | _IS_CATEGORY, len(ends) - 1
            chosen = np.zeros(len(model.schema.columns[split.column].categories or ()), np.bool_)
            chosen[split.categories] = True
            if split.missing_left:
                left, right, chosen = right, left, ~chosen
            words += _bits(chosen)
            ends.append(len(words))
        values = (split.column, 0, threshold, kind, left, right)
        for name, value in zip(_OF_SPLIT, values, strict=True):
            fields[name].append(value)
    told: dict[str, object] = {"num_leaves": n_leaves, "num_cat": len(ends) - 1}
    told |= {name: _joined(found) for name, found in fields.items()}
    told |= {
        "leaf_value": _joined([repr(value) for value in leaves]),
        "leaf_count": _joined(counts),
    }
    if len(ends) > 1:
        told |= {"cat_boundaries": _joined(ends), "cat_threshold": _joined(words)}
    told |= {"is_linear": 0, "shrinkage": 1}
    return "\n".join([f"Tree={number}", *_lines(told), "", ""])


_OF_SPLIT: Final = (
    "split_feature",
    "split_gain",
    "threshold",
    "decision_type",
    "left_child",
    "right_child",
)


def _joined(values: list[object] | list[int] | list[str]) -> str:
    return " ".join(map(str, values))


def _bits(chosen: Bools) -> list[int]:
    """Return a set of categories as words of 32 bits."""
    words = [0] * (chosen.size // _WORD + 1)
    for category in np.flatnonzero(chosen).tolist():
        words[category // _WORD] |= 1 << (category % _WORD)
    return words
