"""What is special to a kind of model, from what its report says of it."""

from spinney.protocols.model import ForestModel
from spinney.report.page.markup import Content, Html, joined, table, tag
from spinney.report.report import Report


def special_of(report: Report, model: ForestModel | None) -> Html:
    """Return what a reader must know of this kind of model before all else."""
    parts: list[Content] = []
    if report.is_private:
        parts.append(_noise(report))
    if model is not None and model.owners:
        parts.append(_personal(model))
    if report.label_leakage is not None:
        parts.append(tag("p", report.label_leakage.in_words(), class_="warn"))
    owner = report.settings.get("column_party")
    if isinstance(owner, dict) and model is not None:
        parts.append(_owners(owner, model))
    return joined(*parts)


def _noise(report: Report) -> Html:
    privacy = report.settings.get("privacy")
    told: dict[str, object] = privacy if isinstance(privacy, dict) else {}
    how = str(told.get("mechanism", "noise")).replace("_", " ")
    words = (
        f"Every count behind this model carries noise ({how}). Shares of rows, class bars and leaf "
        "values below are noisy too; a leaf with few rows may be noise alone."
    )
    return tag("p", words, class_="warn")


def _personal(model: ForestModel) -> Html:
    """Return each party's own tree in a few facts, side by side."""
    forest, names = model.forest, model.schema.names
    lines: list[list[Content]] = []
    for tree, owner in enumerate(model.owners):
        asked = forest.feature[forest.tree_start[tree] : forest.tree_start[tree + 1]]
        used = dict.fromkeys(names[column] for column in asked.tolist() if column >= 0)
        n_leaves, depth = int((asked < 0).sum()), int(forest.depths[tree])
        lines.append([owner, str(n_leaves), str(depth), ", ".join(used) or "none"])
    headings = ["party", "leaves", "depth", "columns asked, from the root down"]
    return table("Every party has a tree of its own", headings, lines)


def _owners(owner: dict[str, list[str]], model: ForestModel) -> Html:
    """Return which party owns which splits."""
    forest, names = model.forest, model.schema.names
    n_splits = dict.fromkeys(names, 0)
    for column in forest.feature[forest.feature >= 0].tolist():
        n_splits[names[column]] += 1
    total = sum(n_splits.values()) or 1
    lines: list[list[Content]] = []
    for party, columns in owner.items():
        n = sum(n_splits.get(str(column), 0) for column in columns)
        lines.append([party, str(len(columns)), str(n), f"{100 * n / total:.1f} %"])
    headings = ["party", "columns", "splits", "share of splits"]
    return table("Who owns which splits", headings, lines)
