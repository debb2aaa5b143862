"""A forest as a treelite model: float32 input, categories as numbers, native category sets."""

from importlib import import_module
from typing import Any

from spinney.errors import MissingExtraError
from spinney.estimators.walked import Leaf, Split, nodes_of, require_one_answer
from spinney.protocols.model import ForestModel


def treelite_forest(model: ForestModel) -> Any:
    """Return a `treelite.Model` whose predictions are the mean over trees, or boosted ones.

    Of two classes, boosted trees predict the second's probability.
    """
    require_one_answer(model)
    try:
        building = import_module("treelite.model_builder")
    except ImportError:
        raise MissingExtraError("treelite", "export", "to_treelite()") from None
    boosted, n_trees = model.boosted, model.forest.n_trees
    n_outputs = int(model.forest.value.shape[1])
    is_class = model.schema.label.kind == "class" and n_outputs > 1
    task = "kMultiClf" if is_class else "kRegressor"
    after = "identity_multiclass" if is_class else "identity"
    if boosted is not None and boosted.link == "log":
        after = "exponential"
    elif boosted is not None and boosted.link != "identity":
        task, after = ("kMultiClf", "softmax") if is_class else ("kBinaryClf", "sigmoid")
    builder = building.ModelBuilder(
        threshold_type="float32",
        leaf_output_type="float32",
        metadata=building.Metadata(
            num_feature=len(model.schema.columns),
            task_type=task,
            average_tree_output=boosted is None,
            num_target=1,
            num_class=[n_outputs],
            leaf_vector_shape=(1, n_outputs),
        ),
        tree_annotation=building.TreeAnnotation(
            num_tree=n_trees, target_id=[0] * n_trees, class_id=[-1 if is_class else 0] * n_trees
        ),
        postprocessor=building.PostProcessorFunc(name=after),
        base_scores=[0.0] * n_outputs if boosted is None else boosted.base.tolist(),
    )
    for tree in range(n_trees):
        builder.start_tree()
        for number, node in enumerate(nodes_of(model, tree)):
            builder.start_node(number)
            _write(builder, node, is_class=is_class)
            builder.end_node()
        builder.end_tree()
    return builder.commit()


def _write(builder: Any, node: Split | Leaf, *, is_class: bool) -> None:
    if isinstance(node, Leaf):
        builder.leaf(node.value.tolist() if is_class else float(node.value[0]))
        return
    how = {
        "feature_id": node.column,
        "default_left": node.missing_left,
        "left_child_key": node.left,
        "right_child_key": node.right,
    }
    if node.categories is None:
        builder.numerical_test(threshold=node.threshold, opname="<=", **how)
    else:
        builder.categorical_test(
            category_list=node.categories.tolist(), category_list_right_child=False, **how
        )
