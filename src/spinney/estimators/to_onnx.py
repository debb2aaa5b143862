"""A forest as an ONNX graph around one tree ensemble: float32 input, categories as numbers.

A category split becomes a chain of questions "is it this category?", whose yes branches lead to one
child; the runtime treats such chains as sets. The schema, which numbers the categories, is in the
model's metadata under "spinney.schema". The graph chooses the class with the largest share itself,
because the operator for classifiers has its own rule for two classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple

import msgspec

from spinney.errors import MissingExtraError
from spinney.estimators.walked import Leaf, Split, nodes_of, require_one_answer
from spinney.protocols.model import Boosted, ForestModel
from spinney.typing import Floats
from spinney.version import __version__

_OPSETS = {"": 17, "ai.onnx.ml": 3}
_IR_VERSION = 8  # as old as the opsets, so that older runtimes read it


def onnx_forest(model: ForestModel) -> Any:
    """Return an `onnx.ModelProto`: input `X`, outputs `label` and `probabilities`, or `value`."""
    require_one_answer(model)
    try:
        onnx = import_module("onnx")
    except ImportError:
        raise MissingExtraError("onnx", "export", "to_onnx()") from None
    helper, kinds = onnx.helper, onnx.TensorProto
    nodes = _Nodes(1 if model.boosted is not None else model.forest.n_trees)
    for tree in range(model.forest.n_trees):
        nodes.add_tree(tree, list(nodes_of(model, tree)))
    classes = model.schema.label.classes
    said = "value" if classes is None else "probabilities"
    sums = said if model.boosted is None else "scores"
    graph = [
        helper.make_node(
            "TreeEnsembleRegressor", ["X"], [sums], domain="ai.onnx.ml",
            n_targets=model.forest.value.shape[1], aggregate_function="SUM", **nodes.attributes(),
        )
    ]  # fmt: skip
    if model.boosted is not None:
        graph += _linked(helper, model.boosted, said)
    outputs = [helper.make_tensor_value_info(said, kinds.FLOAT, [None, model.n_outputs])]
    constants = _bases(helper, kinds, model.boosted)
    if classes is not None:
        labels, kind = _labels(classes, kinds)
        constants += [helper.make_tensor("classes", kind, [len(classes)], labels)]
        graph += [
            helper.make_node("ArgMax", [said], ["best"], axis=1, keepdims=0),
            helper.make_node("Gather", ["classes", "best"], ["label"], axis=0),
        ]
        outputs.insert(0, helper.make_tensor_value_info("label", kind, [None]))
    given = helper.make_tensor_value_info("X", kinds.FLOAT, [None, len(model.schema.columns)])
    made = helper.make_model(
        helper.make_graph(graph, "spinney", [given], outputs, constants),
        opset_imports=[helper.make_opsetid(name, version) for name, version in _OPSETS.items()],
        producer_name="spinney",
        producer_version=__version__,
        ir_version=_IR_VERSION,
    )
    told = {
        "spinney.schema": msgspec.json.encode(model.schema).decode(),
        "spinney.protocol": model.protocol,
    }
    if model.consent:
        told["spinney.consent"] = msgspec.json.encode(model.consent).decode()
    helper.set_model_props(made, told)
    onnx.checker.check_model(made)
    return made


def _bases(helper: Any, kinds: Any, boosted: Boosted | None) -> list[Any]:
    """Return the constants that the scores of boosted trees need."""
    if boosted is None:
        return []
    found = [helper.make_tensor("base", kinds.FLOAT, [boosted.base.size], boosted.base)]
    if boosted.link == "logistic":
        found.append(helper.make_tensor("signs", kinds.FLOAT, [1, 2], [-1.0, 1.0]))
    return found


def _linked(helper: Any, boosted: Boosted, said: str) -> list[Any]:
    """Return the nodes that turn the sum of boosted trees into predictions."""
    if boosted.link == "identity":
        return [helper.make_node("Add", ["scores", "base"], [said])]
    graph = [helper.make_node("Add", ["scores", "base"], ["moved"])]
    if boosted.link == "log":
        return [*graph, helper.make_node("Exp", ["moved"], [said])]
    if boosted.link == "softmax":
        return [*graph, helper.make_node("Softmax", ["moved"], [said], axis=1)]
    return [
        *graph,
        helper.make_node("Mul", ["moved", "signs"], ["both"]),
        helper.make_node("Sigmoid", ["both"], [said]),
    ]


def _labels(classes: Sequence[Any], kinds: Any) -> tuple[list[Any], int]:
    """Return the class labels as ONNX can hold them: integers or texts."""
    if all(type(label) is int for label in classes):
        return list(classes), kinds.INT64
    return [str(label).encode() for label in classes], kinds.STRING


@dataclass
class _Nodes:
    """The ensemble's attributes, written node by node; leaf values are divided by `divisor`."""

    divisor: int
    node: dict[str, list[Any]] = field(
        default_factory=lambda: {
            name: []
            for name in (
                "treeids", "nodeids", "featureids", "values", "modes", "truenodeids",
                "falsenodeids", "missing_value_tracks_true",
            )
        }
    )  # fmt: skip
    leaf: dict[str, list[Any]] = field(
        default_factory=lambda: {name: [] for name in ("treeids", "nodeids", "ids", "weights")}
    )

    def attributes(self) -> dict[str, list[Any]]:
        """Return all attributes under the operator's names."""
        nodes = {f"nodes_{name}": values for name, values in self.node.items()}
        return {**nodes, **{f"target_{name}": values for name, values in self.leaf.items()}}

    def add_tree(self, tree: int, nodes: list[Split | Leaf]) -> None:
        """Write a tree; the extra nodes of category chains are numbered after its own nodes."""
        more = len(nodes)
        for number, node in enumerate(nodes):
            if isinstance(node, Leaf):
                self._add(tree, number, _Question(0, 0.0, "LEAF", 0, 0, 0))
                self._add_leaf(tree, number, node.value)
            elif node.categories is None:
                self._add(tree, number, _at_most(node, node.threshold))
            else:
                more = self._add_chain(tree, number, node, more)

    def _add_chain(self, tree: int, number: int, split: Split, more: int) -> int:
        """Test one category after another; only yes branches may lead to a child more than once.

        The first question is whether the value is missing: no category is below 0. It is always
        asked, because onnxruntime 1.31 merges two successive chains on one column, even if they
        lead to different children.
        """
        assert split.categories is not None
        here, left = number, split.categories.tolist()
        following = more if left else split.right
        missing = int(split.missing_left)
        first = _Question(split.column, -1.0, "BRANCH_LEQ", split.left, following, missing)
        self._add(tree, here, first)
        here, more = more, more + bool(left)
        for step, category in enumerate(left):
            following = more if step < len(left) - 1 else split.right
            question = _Question(
                split.column, float(category), "BRANCH_EQ", split.left, following, 0
            )
            self._add(tree, here, question)
            here, more = more, more + (step < len(left) - 1)
        return more

    def _add(self, tree: int, number: int, question: "_Question") -> None:
        for values, one in zip(self.node.values(), (tree, number, *question), strict=True):
            values.append(one)

    def _add_leaf(self, tree: int, number: int, value: Floats) -> None:
        for output in range(value.size):
            fields = (tree, number, output, float(value[output] / self.divisor))
            for values, one in zip(self.leaf.values(), fields, strict=True):
                values.append(one)


class _Question(NamedTuple):
    """One node: its question, and where yes, no and a missing value lead."""

    column: int
    value: float
    mode: str
    true: int
    false: int
    missing_true: int


def _at_most(split: Split, value: float) -> _Question:
    missing = int(split.missing_left)
    return _Question(split.column, value, "BRANCH_LEQ", split.left, split.right, missing)
