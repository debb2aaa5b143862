"""A report's conclusions in sentences: whether joining was worth it, and who was lost."""

from collections.abc import Sequence

from spinney.report.facts import PartyQuality, ReportFacts, RoundTraffic
from spinney.report.words import some

WORDS = {"f1": "F1", "auc": "AUC", "rmse": "RMSE", "r2": "R2", "accuracy": "accuracy"}
LESS_IS_BETTER = frozenset({"rmse"})


def verdict(report: ReportFacts) -> str:
    """Return one sentence on whether joining was worth it, by the main score."""
    found = report.quality
    names = score_names(found)
    compared = [
        q for q in found if names and names[0] in q.scores and f"local_{names[0]}" in q.scores
    ]
    if not compared:
        return "No party has its own model to compare with, so the gain is unknown."
    score = names[0]
    sign = -1 if score in LESS_IS_BETTER else 1
    gains = [sign * (q.scores[score] - q.scores[f"local_{score}"]) for q in compared]
    alone = sum(q.scores[f"local_{score}"] for q in compared) / len(compared)
    together = sum(q.scores[score] for q in compared) / len(compared)
    helped = sum(gain > 0 for gain in gains)
    text = (
        f"Joining helped {helped} of {some(len(compared), 'party', 'parties')} by "
        f"{word_of(score)}: on average {alone:.3f} alone and {together:.3f} together."
    )
    known = [q.intervals[f"gain_{score}"] for q in compared if f"gain_{score}" in q.intervals]
    if known:
        sure = sum(low > 0 for low, _ in known)
        text += (
            f" At {sure} of them the gain is more than chance: its 95 % interval is above 0."
            if sure
            else " At none of them is the gain clearly above chance: its 95 % interval reaches 0."
        )
    return text


def why_not_judged(report: ReportFacts) -> str:
    """Return why a report has no scores."""
    if report.is_private:
        return "exact scores of a party's own rows would cost privacy budget"
    return "no party has evaluated the model"


def score_names(found: Sequence[PartyQuality]) -> list[str]:
    """Return the names of the scores, the main one first."""
    return list(dict.fromkeys(n for q in found for n in q.scores if n in WORDS))


def word_of(score: str) -> str:
    """Return the display name of a score."""
    return WORDS.get(score, score)


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


def retries(report: ReportFacts) -> str:
    """Return how often the job was retried."""
    if report.attempts == 1:
        return "No retries."
    return (
        f"{some(report.attempts - 1, 'retry', 'retries')}: the job started {report.attempts} "
        "times, and each time resumed after its last completed round."
    )
