"""Facts that only some kinds of models have, taken from the report."""

from spinney.protocols.model import ForestModel
from spinney.report.facts import Holder, ReportFacts
from spinney.report.page.charts import bar
from spinney.report.page.markup import Content, Html, join_html, table, tag
from spinney.report.tree_text import tree_text

_NOISE_ELSEWHERE = {
    "perturbed_input": "Every row behind this model carries noise (perturbed input), once, before "
    "anything was counted. The counts of those rows are exact, so the model was hardened like one "
    "without noise.",
    "randomised_labels": "Every label behind this model carries noise (randomised labels). How "
    "many rows a node holds does not, so the model was hardened like one without noise; class "
    "counts are estimates.",
}


def special_of(report: ReportFacts, model: ForestModel | None) -> Html:
    """Return what a reader must know first about this kind of model."""
    parts: list[Content] = []
    if report.is_private:
        parts.append(_noise(report, model))
    if model is not None and model.owners:
        parts.append(_personal(model))
    if report.label_leakage is not None:
        words = report.label_leakage.in_words()
        parts.append(tag("p", f"What the nodes reveal: {words}.", class_="warn"))
    if report.holders:
        parts.append(_holders(report.holders, is_drawn=model is not None))
    return join_html(*parts)


def _noise(report: ReportFacts, model: ForestModel | None) -> Html:
    privacy = report.settings.get("privacy")
    told: dict[str, object] = privacy if isinstance(privacy, dict) else {}
    mechanism = str(told.get("mechanism", "noise"))
    how = mechanism.replace("_", " ")
    words = _NOISE_ELSEWHERE.get(
        mechanism,
        f"Every count behind this model carries noise ({how}). Shares of rows, class bars and leaf "
        "values below are noisy too; a leaf with few rows may be noise alone.",
    )
    if model is not None and model.noise is not None:
        words += " Each node of the drawing shows how much: ± is one standard deviation."
    elif report.budgets:
        words += " The amount is listed below, with every charge."
    return tag("p", words, class_="warn")


def _personal(model: ForestModel) -> Html:
    """Return a few facts about each party's own tree, side by side."""
    forest, names = model.forest, model.schema.names
    lines: list[list[Content]] = []
    for tree, owner in enumerate(model.owners):
        asked = forest.feature[forest.tree_start[tree] : forest.tree_start[tree + 1]]
        used = dict.fromkeys(names[column] for column in asked.tolist() if column >= 0)
        n_leaves, depth = int((asked < 0).sum()), int(forest.depths[tree])
        lines.append([owner, str(n_leaves), str(depth), ", ".join(used) or "none"])
    headings = ["party", "leaves", "depth", "columns used, from the root down"]
    trees = (
        tag("figure", tag("figcaption", owner), tag("pre", tree_text(model, number), tabindex=0))
        for number, owner in enumerate(model.owners)
    )
    return join_html(
        table("Every party has its own tree", headings, lines),
        tag("div", *trees, class_="side-by-side"),
    )


def _holders(holders: tuple[Holder, ...], *, is_drawn: bool) -> Html:
    """Return which party owns which splits, and whether the forest may be joined."""
    total = sum(holder.n_splits for holder in holders) or 1
    lines: list[list[Content]] = [
        [
            holder.party,
            ", ".join(holder.columns) or "-",  # none, or kept secret
            str(holder.n_splits),
            bar(holder.n_splits / total),
            "yes" if holder.holds_label else "no",
            "yes" if holder.consents else "no",
        ]
        for holder in holders
    ]
    headings = ["party", "its columns", "splits", "share of splits", "has the labels", "consents"]
    against = " and ".join(holder.party for holder in holders if not holder.consents)
    words = (
        f"Every party consented to joining the parts: {', '.join(h.party for h in holders)}."
        if not against
        else f"The parts stay at their parties: {against} did not consent to joining them. The "
        "whole forest can be neither exported nor drawn outside a simulation; the parties predict "
        "together."
    )
    if against and is_drawn:
        words += " The page can draw trees because this run simulated all parties in one place."
    return join_html(
        table("Who owns which splits", headings, lines, class_="with-bars"), tag("p", words)
    )
