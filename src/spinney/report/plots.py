"""A report as pictures, with matplotlib (`spinney[plot]`); each function returns the axes."""

from collections.abc import Sequence
from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np

from spinney.errors import MissingExtraError, SettingError
from spinney.protocols.model import ForestModel
from spinney.report.budgets import PartyBudget
from spinney.report.explained import Importance
from spinney.report.page.charts import COLOURS
from spinney.report.page.quality import MODELS
from spinney.report.report import PartyQuality
from spinney.report.tree_text import NodeText, tree_nodes
from spinney.report.verdicts import WORDS, score_names

_SHOWN = 20
_DEEPEST = 4


def axes_of(ax: Any) -> Any:
    """Return the axes to draw on: those given, or new ones."""
    try:
        pyplot = import_module("matplotlib.pyplot")
    except ImportError:
        raise MissingExtraError("matplotlib", "plot", "A plot") from None
    return pyplot.subplots(layout="constrained")[1] if ax is None else ax


def gain(quality: Sequence[PartyQuality], ax: Any = None) -> Any:
    """Draw each party's scores alone and together, by the score that decides."""
    names = score_names(quality)
    if not names:
        raise SettingError("This report has no scores to plot: no party has judged the model.")
    score, drawn = names[0], axes_of(ax)
    place = np.arange(len(quality))[::-1]
    models = [
        m for m in MODELS if any((f"{m}_{score}" if m else score) in q.scores for q in quality)
    ]
    for number, model in enumerate(models):
        key = f"{model}_{score}" if model else score
        for y, q in zip(place, quality, strict=True):
            if key not in q.scores:
                continue
            low, high = q.intervals.get(key, (q.scores[key], q.scores[key]))
            at = y + 0.15 * ((len(models) - 1) / 2 - number)
            name = MODELS[model] if y == place[0] else None
            drawn.plot([low, high], [at, at], color=COLOURS[number], linewidth=1)
            drawn.plot(q.scores[key], at, "o", color=COLOURS[number], label=name)
    drawn.set_yticks(place, [q.party for q in quality])
    drawn.set_xlabel(WORDS.get(score, score))
    drawn.legend()
    return drawn


def budget(budgets: Sequence[PartyBudget], ax: Any = None) -> Any:
    """Draw what each party has spent, and what is left."""
    if not budgets:
        raise SettingError("This report has no budget to plot: no noise was paid for in this job.")
    drawn = axes_of(ax)
    names = [f"{b.party}\n{b.unit}" for b in budgets]
    spent = [float(Fraction(b.spent)) for b in budgets]
    left = [float(Fraction(b.left)) if b.left is not None else 0.0 for b in budgets]
    drawn.barh(names, spent, color=COLOURS[0], label="spent")
    drawn.barh(names, left, left=spent, color=COLOURS[4], label="left")
    drawn.invert_yaxis()
    drawn.set_xlabel("epsilon" if budgets[0].measure == "pure" else "rho")
    drawn.legend()
    return drawn


def importances(found: Sequence[Importance], ax: Any = None) -> Any:
    """Draw which columns matter; permutation importances beside those by impurity."""
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
    drawn.legend()
    return drawn


def tree(model: ForestModel, number: int, ax: Any = None) -> Any:
    """Draw the upper levels of a tree; what is below is told by its number of nodes."""
    nodes = tree_nodes(model, number)
    drawn = axes_of(ax)
    drawn.set_axis_off()
    _draw(drawn, nodes, int(model.forest.tree_start[number]), (0.0, 1.0))
    return drawn


def _draw(ax: Any, nodes: dict[int, NodeText], node: int, within: tuple[float, float]) -> None:
    text, (low, high) = nodes[node], within
    x, y = (low + high) / 2, -float(text.depth)
    is_cut = bool(text.question) and text.depth == _DEEPEST
    words = "…" if is_cut else text.question + "?" if text.question else "\n".join(text.lines)
    box = {"boxstyle": "round", "facecolor": "white", "edgecolor": COLOURS[0]}
    how = {"ha": "center", "va": "center", "fontsize": 7, "parse_math": False, "in_layout": False}
    ax.text(x, y, words, bbox=box, zorder=2, **how)
    if is_cut or not text.question:
        return
    for child, part in ((text.left, (low, x)), (text.left + 1, (x, high))):
        ax.plot([x, sum(part) / 2], [y, y - 1], color="#999999", linewidth=1, zorder=1)
        _draw(ax, nodes, child, part)
