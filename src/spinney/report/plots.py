"""A report as pictures, with matplotlib (`spinney[plot]`); each function returns the axes."""

from collections.abc import Sequence
from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np

from spinney.errors import MissingExtraError, SettingError
from spinney.protocols.model import ForestModel
from spinney.report.explained import Importance
from spinney.report.facts import ReportFacts
from spinney.report.page.charts import COLOURS, short, style_of
from spinney.report.page.quality import MODELS, words_of_models
from spinney.report.tree_text import NodeText, place_nodes, tree_nodes
from spinney.report.verdicts import score_names, word_of

_SHOWN = 20
_DEEPEST = 4


def axes_of(ax: Any) -> Any:
    """Return the given axes, or new ones."""
    try:
        pyplot = import_module("matplotlib.pyplot")
    except ImportError:
        raise MissingExtraError("matplotlib", "plot", "A plot") from None
    return pyplot.subplots(layout="constrained")[1] if ax is None else ax


def gain(report: ReportFacts, ax: Any = None) -> Any:
    """Draw the main score of each party, alone and together."""
    quality, names = report.quality, score_names(report.quality)
    if not names:
        raise SettingError("This report has no scores to plot: no party has evaluated the model.")
    score, drawn = names[0], axes_of(ax)
    place = np.arange(len(quality))[::-1]
    keys = {model: f"{model}_{score}" if model else score for model in MODELS}
    models = [m for m in MODELS if any(keys[m] in q.scores for q in quality)]
    for number, model in enumerate(models):
        name = words_of_models(report)[model]
        colour, shape = style_of(name)
        for y, q in zip(place, quality, strict=True):
            if keys[model] not in q.scores:
                continue
            value = q.scores[keys[model]]
            at = y + 0.15 * ((len(models) - 1) / 2 - number)
            drawn.plot(q.intervals.get(keys[model], (value, value)), [at, at], color=colour)
            drawn.plot(value, at, shape, color=colour, label=name if y == place[0] else None)
    drawn.set_yticks(place, [q.party for q in quality], parse_math=False)
    drawn.set_xlabel(word_of(score))
    _legend(drawn)
    return drawn


def budget(report: ReportFacts, ax: Any = None) -> Any:
    """Draw the privacy budget that each party has spent and has left."""
    budgets = report.budgets
    if not budgets:
        why = (
            "the parties' ledgers are not available here. Each party can read its own: "
            "spinney ledger show ledger.db"
            if report.is_private
            else "the job spent no privacy budget"
        )
        raise SettingError(f"This report has no budget to plot: {why}.")
    drawn = axes_of(ax)
    names = [f"{b.party}\n{b.unit}" for b in budgets]
    spent = [float(Fraction(b.spent)) for b in budgets]
    left = [float(Fraction(b.left)) if b.left is not None else 0.0 for b in budgets]
    place = np.arange(len(budgets))
    drawn.barh(place, spent, 0.5, color=COLOURS[0], label="spent")
    drawn.barh(place, left, 0.5, left=spent, color=COLOURS[4], label="left")
    drawn.set_yticks(place, names, parse_math=False)
    drawn.invert_yaxis()
    drawn.set_xlabel("epsilon" if budgets[0].measure == "pure" else "rho")
    _legend(drawn)
    return drawn


def importances(found: Sequence[Importance], ax: Any = None) -> Any:
    """Draw the impurity importances, and the permutation importances beside them."""
    if not found:
        raise SettingError("This report has no importances to plot: the job has no model.")
    drawn, shown = axes_of(ax), list(found)[:_SHOWN]
    place = np.arange(len(shown))
    drawn.barh(place, [one.impurity for one in shown], 0.4, color=COLOURS[0], label="impurity")
    losses = [one.permutation for one in shown]
    if any(loss is not None for loss in losses):
        values = [loss or 0.0 for loss in losses]
        drawn.barh(place + 0.4, values, 0.4, color=COLOURS[1], label="permutation")
    drawn.set_yticks(place, [one.column for one in shown], parse_math=False)
    drawn.invert_yaxis()
    _legend(drawn)
    return drawn


def tree(model: ForestModel, number: int, ax: Any = None) -> Any:
    """Draw the upper levels of a tree from left to right, and the number of nodes below them."""
    nodes = tree_nodes(model, number)
    root = int(model.forest.tree_start[number])
    places = place_nodes(nodes, root, _DEEPEST)
    if ax is None:
        ax = axes_of(None)
        ax.figure.set_size_inches(
            2.7 * (1 + max(nodes[node].depth for node in places)),
            0.5 * (1 + max(y for y in places.values())),
        )
    ax.set_axis_off()
    ax.invert_yaxis()
    for node, y in places.items():
        _draw(ax, nodes, node, places)
        ax.plot(nodes[node].depth + 0.95, y, alpha=0)  # room for its text
    return ax


def _is_end(text: NodeText) -> bool:
    """Whether nothing is drawn below a node."""
    return not text.question or text.depth == _DEEPEST


def _draw(ax: Any, nodes: dict[int, NodeText], node: int, places: dict[int, float]) -> None:
    text, x, y = nodes[node], nodes[node].depth, places[node]
    words = "\n".join(text.lines) if not text.question else short(f"{text.question}?", 38)
    if text.question and _is_end(text):
        words += f"\n… {_below(nodes, node)} nodes below"
    box = {"boxstyle": "round", "facecolor": "white", "edgecolor": COLOURS[0]}
    how = {"va": "center", "fontsize": 7, "parse_math": False, "in_layout": False, "zorder": 2}
    ax.text(x, y, words, bbox=box, **how)
    if _is_end(text):
        return
    for child, word in ((text.left, "yes"), (text.left + 1, "no")):
        ax.plot([x + 0.1, x + 1], [y, places[child]], color="#999999", linewidth=1, zorder=1)
        ax.text(
            x + 0.9,
            places[child] + 0.1 * (y - places[child]),
            word,
            ha="right",
            backgroundcolor="white",
            **how,
        )


def _below(nodes: dict[int, NodeText], node: int) -> int:
    """Return the number of nodes below a node."""
    if not nodes[node].question:
        return 0
    left = nodes[node].left
    return 2 + _below(nodes, left) + _below(nodes, left + 1)


def _legend(drawn: Any) -> None:
    """Put the legend above the axes, where it covers nothing."""
    drawn.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)
