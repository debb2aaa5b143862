"""A report's conclusions in sentences: whether joining was worth it, and who was lost."""

from collections.abc import Sequence

from spinney.report.facts import PartyQuality, ReportFacts, RoundTraffic
from spinney.report.words import some

WORDS = {"f1": "F1", "auc": "AUC", "rmse": "RMSE", "r2": "R2", "accuracy": "accuracy"}
_NOISY_WORDS = WORDS | {"log_loss": "log loss", "brier": "Brier score", "mae": "MAE"}
LESS_IS_BETTER = frozenset({"rmse"})
NOT_COMPARED = (
    "Quality was not compared: no party's own model was scored beside this one, so the gain is "
    "unknown. `spinney simulate` compares them on held-out rows."
)
NOTHING_TO_JOIN = "There was one party, so there was nothing to join: joining needs two or more."
_ABOVE = "its 95 % interval is above 0"
_NOT_ABOVE = "its 95 % interval reaches 0"


def verdict(report: ReportFacts) -> str:
    """Return one sentence on whether joining was worth it, by the main score."""
    if len(report.parties) == 1:
        return NOTHING_TO_JOIN
    found = report.quality
    names = score_names(found)
    compared = [
        q for q in found if names and names[0] in q.scores and f"local_{names[0]}" in q.scores
    ]
    if not compared:
        return NOT_COMPARED
    score = names[0]
    sign = -1 if score in LESS_IS_BETTER else 1
    gains = [sign * (q.scores[score] - q.scores[f"local_{score}"]) for q in compared]
    return joining_helped(
        score,
        (sum(gain > 0 for gain in gains), len(compared)),
        alone=sum(q.scores[f"local_{score}"] for q in compared) / len(compared),
        together=sum(q.scores[score] for q in compared) / len(compared),
        gains=[q.intervals[f"gain_{score}"] for q in compared if f"gain_{score}" in q.intervals],
    )


def joining_helped(
    score: str,
    helped: tuple[int, int],
    *,
    alone: float,
    together: float,
    gains: Sequence[tuple[float, float]],
) -> str:
    """Return what joining brought by one score, for reports and for the terminal.

    Parameters
    ----------
    score
        The name of the score.
    helped
        At how many parties it improved, and how many could compare.
    alone, together
        Its means.
    gains
        The 95 % intervals of the parties' gains, as far as they are known.
    """
    n_helped, n_compared = helped
    is_worse = together > alone if score in LESS_IS_BETTER else together < alone
    is_worse = is_worse and number(alone) != number(together)
    average = "; on average it hurt: " if is_worse else ": on average "
    text = (
        f"Joining helped {n_helped} of {some(n_compared, 'party', 'parties')} by {word_of(score)}"
        f"{average}{number(alone)} alone and {number(together)} together."
    )
    if not gains:
        return text
    n_sure = sum(low > 0 for low, _ in gains)
    if n_sure:
        return f"{text} At {n_sure} of them the gain is more than chance: {_ABOVE}."
    return f"{text} At none of them is the gain clearly above chance: {_NOT_ABOVE}."


def number(value: float) -> str:
    """Return a score as text."""
    return f"{value:.3f}" if abs(value) < 100 else f"{value:,.4g}"


def why_not_judged(report: ReportFacts) -> str:
    """Return why a report has no scores."""
    if report.is_private:
        return (
            "exact scores of a party's own rows would cost privacy budget, and the job has no "
            "[evaluation] that pays for noisy ones"
        )
    return "no party has evaluated the model"


def measured_in_words(report: ReportFacts) -> str:
    """Say what an evaluation with noise measured, and what it cost; empty if there was none."""
    found = report.evaluation
    if found is None:
        return ""
    folds = f", each scored by one of {found.n_folds} models" if found.n_folds > 1 else ""
    return (
        f"Counted on {found.rows} rows{folds}, with noise: epsilon {found.epsilon}, in addition to "
        "what the training cost. Every interval covers 95 %: the noise, and which rows there were."
    )


def score_names(found: Sequence[PartyQuality]) -> list[str]:
    """Return the names of the scores, the main one first."""
    return list(dict.fromkeys(n for q in found for n in q.scores if n in WORDS))


def word_of(score: str) -> str:
    """Return the display name of a score."""
    return _NOISY_WORDS.get(score, score)


def lost_parties(report: ReportFacts) -> list[str]:
    """Return the parties that were dropped, or that stopped answering a kind of question.

    Not every round of a vertical job asks every party, and a lost party ends such a job.
    """
    lost = set(report.dropped)
    first: dict[str, RoundTraffic] = {}
    last: dict[str, RoundTraffic] = {}
    for r in report.traffic if not report.holders else ():
        first.setdefault(r.question, r)
        last[r.question] = r
    for question, r in first.items():
        lost |= set(r.bytes_up) - set(last[question].bytes_up)
    return [party for party in report.parties if party in lost]


def not_pooled(report: ReportFacts) -> str:
    """Say that rows were not counted everywhere; empty if they were."""
    if report.adds_up:
        return ""
    return (
        "The model is not that of the pooled rows: some nodes counted fewer rows than their "
        "parents sent there. Parties count themselves out of nodes in which they have few rows, if "
        "their policy says so (min_own_rows); or a party counts wrongly."
    )


def retries(report: ReportFacts) -> str:
    """Return how often the job was retried."""
    if report.attempts == 1:
        return "No retries."
    return (
        f"{some(report.attempts - 1, 'retry', 'retries')}: the job started {report.attempts} "
        "times, and each time resumed after its last completed round."
    )
