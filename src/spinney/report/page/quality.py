"""Was it worth it? The scores of each party's forests, side by side, on the party's own rows."""

from collections.abc import Mapping, Sequence

from spinney.report.facts import PartyQuality, ReportFacts
from spinney.report.page.charts import NO_NOISE, Dot, dots
from spinney.report.page.markup import Content, Html, join_html, table, tag
from spinney.report.page.measured import measured
from spinney.report.verdicts import (
    FEWEST,
    LESS_IS_BETTER,
    below_majority,
    beside_joint,
    joinings,
    score_names,
    scored_class,
    verdicts,
    why_not_judged,
    word_of,
)
from spinney.report.words import capital

MODELS = {
    "local": "alone",
    "": "together",
    "home": "fitted at home",
    "pooled": "pooled",
    "joint_tree": "joint tree",
    "joint_forest": "joint forest",
}
_PERSONAL = {**MODELS, "": "own tree, evolved together"}

Words = Mapping[str, str]  # the name of each model


def worth_it(report: ReportFacts) -> Html:
    """Return the section."""
    if not report.quality:
        return measured(report) or tag("p", f"Quality was not measured: {why_not_judged(report)}.")
    found = report.quality
    words = words_of_models(report)
    rows = ", ".join(dict.fromkeys(q.rows for q in found))
    told = [*verdicts(report), *filter(None, [beside_joint(found)])]
    parts: list[Content] = [tag("p", words, class_="lead") for words in told]
    parts += [tag("p", words, class_="warn") for words in below_majority(found)]
    scored = scored_class(report)
    of_class = f" {scored}" if scored else ""
    parts.append(
        tag("p", f"Scores are on each party's own {rows} rows.{of_class}", _intervals(found))
    )
    for score in score_names(found):
        lines = [
            (q.party, [_dot(q, model, score, words) for model in _models(found, score)])
            for q in found
        ]
        better = ", less is better" if score in LESS_IS_BETTER else ""
        title = f"{capital(word_of(score))} at each party{better}"
        parts.append(dots(title, lines))
    parts += [_judgements(found), _numbers(found, words), measured(report)]
    return join_html(*parts)


def words_of_models(report: ReportFacts) -> Words:
    """Return the name of each model in a report."""
    words = _PERSONAL if report.history else MODELS  # each party then has a tree of its own
    if not report.is_private:
        return words
    return {
        model: f"{word}{NO_NOISE}" if model in ("local", "pooled") else word
        for model, word in words.items()
    }


def _models(found: Sequence[PartyQuality], score: str) -> list[str]:
    return [m for m in MODELS if any(_key(m, score) in q.scores for q in found)]


def _key(model: str, score: str) -> str:
    return f"{model}_{score}" if model else score


def _dot(quality: PartyQuality, model: str, score: str, words: Words) -> Dot:
    key = _key(model, score)
    return Dot(words[model], quality.scores.get(key), quality.intervals.get(key))


def _intervals(found: Sequence[PartyQuality]) -> str:
    if not any(q.intervals for q in found):
        return ""
    of_class = "" if "r2" in score_names(found) else " of a class"
    return (
        " Lines are 95 % bootstrap intervals over those rows; a party with fewer than "
        f"{FEWEST} rows{of_class} has none."
    )


def _judgements(found: Sequence[PartyQuality]) -> Html:
    """Return what joining did at each party, by each score."""
    told = joinings(found)
    if not told:
        return join_html()
    headings = ["party", *(f"by {word_of(one.score)}" for one in told)]
    lines: list[list[Content]] = [
        [q.party, *(one.parties.get(q.party, "-") for one in told)] for q in found
    ]
    lines.append(["overall", *(one.overall for one in told)])
    return table("What joining did", headings, lines)


def _numbers(found: Sequence[PartyQuality], words: Words) -> Html:
    """Return a table a score: one of all scores would be wider than the page."""
    names = score_names(found)
    if not names:
        return _numbers_of(found, words, None)
    return join_html(*(_numbers_of(found, words, name) for name in names))


def _numbers_of(found: Sequence[PartyQuality], words: Words, score: str | None) -> Html:
    models = _models(found, score) if score else []
    lines: list[list[Content]] = []
    for q in found:
        cells: list[Content] = [_cell(q, _key(model, score or "")) for model in models]
        lines.append([q.party, *cells, f"{q.n_rows:,}"])
    caption = f"{capital(word_of(score))} by party" if score else "Rows by party"
    return table(caption, ["party", *(words[model] for model in models), "rows"], lines)


def _cell(quality: PartyQuality, key: str) -> str:
    if key not in quality.scores:
        return "-"
    text = f"{quality.scores[key]:.4f}"
    if key in quality.intervals:
        low, high = quality.intervals[key]
        text += f" ({low:.3f} to {high:.3f})"
    return text
