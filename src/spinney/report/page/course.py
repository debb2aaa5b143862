"""How it went: rounds, bytes, seconds, score by number of trees, lost parties."""

from spinney.report.facts import ReportFacts, RoundTraffic
from spinney.report.page.charts import bar
from spinney.report.page.curves import curve
from spinney.report.page.markup import Content, Html, join_html, table, tag
from spinney.report.render import size
from spinney.report.settings import settings_in_words
from spinney.report.verdicts import lost_parties, retries, word_of
from spinney.report.words import capital, some


def how_it_went(report: ReportFacts) -> Html:
    """Return the section."""
    up = max(report.bytes_up.values(), default=0)
    down = max(report.bytes_down.values(), default=0)
    total = sum(report.seconds.values()) or sum(r.seconds for r in report.traffic)
    words = (
        f"{some(report.rounds, 'round', 'rounds')}, {size(up)} from and {size(down)} to the "
        f"busiest party, {total:.2f} seconds."
    )
    parts: list[Content] = [
        tag("p", words, class_="lead"),
        _lost(report),
        tag("p", retries(report)),
        _phases(report),
    ]
    if report.explanation is not None and report.explanation.score_by_trees:
        score, by_trees = word_of(report.explanation.score), report.explanation.score_by_trees
        title = f"{capital(score)} on {report.explanation.rows} rows, by number of trees"
        line = [(score, [value for _, value in by_trees])]
        parts.append(tag("div", curve(title, [n for n, _ in by_trees], line), class_="small"))
    if report.history:
        steps = list(range(1, len(report.history) + 1))
        line = [("best score", list(report.history))]
        chart = curve("Best score of each generation", steps, line)
        parts.append(tag("div", chart, class_="small"))
    parts += _losses(report)
    rounds = table(
        "Every round",
        ["round", "question", "sent to the parties", "sent by them", "seconds", "answered"],
        [_round(r) for r in report.traffic],
    )
    parts.append(tag("details", tag("summary", f"All rounds: {report.rounds}"), rounds))
    settings: list[list[Content]] = [[*told] for told in settings_in_words(report.settings).items()]
    shown = table("Settings", ["setting", "value"], settings)
    parts.append(tag("details", tag("summary", "Settings"), shown))
    return join_html(*parts)


def _losses(report: ReportFacts) -> list[Content]:
    """Return how the loss of boosted trees fell, over all parties and at each."""
    charts: list[Content] = []
    told = (
        ("Mean loss of all parties' rows, by batches of trees", report.curves),
        ("Mean loss of each party's training rows", report.own_curves),
    )
    for title, curves in told:
        # The loss after the last batch is not told of all kinds of rows.
        n = min(map(len, curves.values()), default=0)
        if n > 1:
            lines = [(name, list(line[:n])) for name, line in curves.items()]
            charts.append(tag("div", curve(title, list(range(n)), lines), class_="small"))
    return charts


def _lost(report: ReportFacts) -> Html:
    lost = lost_parties(report)
    if not lost:
        return join_html() if report.ended else tag("p", "No party was lost.")
    return tag("p", f"Lost on the way: {', '.join(lost)}.", class_="warn")


def _phases(report: ReportFacts) -> Html:
    if not report.seconds:
        return join_html()
    total = sum(report.seconds.values()) or 1.0
    lines: list[list[Content]] = [
        [phase, f"{seconds:.2f}", bar(seconds / total)] for phase, seconds in report.seconds.items()
    ]
    return table("Seconds by phase", ["phase", "seconds", "share"], lines, class_="with-bars")


def _round(r: RoundTraffic) -> list[Content]:
    answered = str(len(r.bytes_up))
    sent = size(sum(r.bytes_down.values()))
    return [
        r.number,
        r.question,
        sent,
        size(sum(r.bytes_up.values())),
        f"{r.seconds:.3f}",
        answered,
    ]
