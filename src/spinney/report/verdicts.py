"""A report's conclusions in sentences: whether joining was worth it, and who was lost."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final

import msgspec

from spinney.privacy.budget import Unit
from spinney.protocols.accounts.account import READ_FROM_DATA
from spinney.report.facts import PartyQuality, ReportFacts, RoundTraffic
from spinney.report.privacy import delta_in_all, epsilon_in_all
from spinney.report.words import some
from spinney.tables.schema import join_words

WORDS = {"f1": "F1", "auc": "AUC", "rmse": "RMSE", "r2": "R2", "accuracy": "accuracy"}
_NOISY_WORDS = WORDS | {"log_loss": "log loss", "brier": "Brier score", "mae": "MAE"}
LESS_IS_BETTER = frozenset({"rmse"})
NOT_COMPARED = (
    "Quality was not compared: no party's own model was scored beside this one, so the gain is "
    "unknown. `spinney simulate` compares them on held-out rows."
)
NOT_SCORED = (
    "Nothing could be scored: no party's held-out rows are of more than one class. Hold out more "
    "rows, or find more rows of the rare class; until then nobody can tell whether joining helps."
)
NOTHING_TO_JOIN = "There was one party, so there was nothing to join: joining needs two or more."
_SAME_SHARE = 0.05
_SAME_CLASS = (
    "That class is as common at the other parties, so its share is not why: the model has found "
    "too little, in too few rows or with too much noise."
)
FEWEST = 10
"""Rows of each class, or rows, that an interval needs; with fewer no interval holds."""


Interval = tuple[float, float]
HELPED, HURT, UNCLEAR, UNKNOWN = "helped", "hurt", "no clear difference", "too few rows to tell"


def judge(interval: Interval | None) -> str:
    """Return what a gain's 95 % interval says: it helped, it hurt, or one cannot tell."""
    if interval is None:
        return UNKNOWN
    low, high = interval
    return HELPED if low > 0 else HURT if high < 0 else UNCLEAR


class Joining(msgspec.Struct, frozen=True):
    """What joining brought by one score; gains are positive where it helped."""

    score: str
    parties: dict[str, str]  # what the gain's interval says, by party
    alone: float  # means over the parties whose gain has an interval, or over all if none has
    together: float
    gain: Interval | None  # of the mean gain over the same parties

    @property
    def overall(self) -> str:
        """What the interval of the mean gain says."""
        return judge(self.gain)

    def in_words(self) -> str:
        """Return the verdict in two sentences."""
        found = Counter(self.parties.values())
        n = len(self.parties)
        means = f"on average {number(self.alone)} alone and {number(self.together)} together"
        if found[UNKNOWN] == n:
            return (
                f"By {word_of(self.score)}, no party has enough held-out rows to tell whether "
                f"joining helped ({FEWEST} of each class): {means}."
            )
        words = (
            f"Joining helped {found[HELPED]} of {some(n, 'party', 'parties')} by "
            f"{word_of(self.score)} and hurt {found[HURT]}"
        )
        rest = [f"{found[UNCLEAR]} no clear difference"] if found[UNCLEAR] else []
        rest += [f"{found[UNKNOWN]} too few rows to tell"] if found[UNKNOWN] else []
        words += f" ({', '.join(rest)})" if rest else ""
        assert self.gain is not None
        low, high = (number(end) for end in self.gain)
        n_told = n - found[UNKNOWN]
        of = f" at the {some(n_told, 'party', 'parties')} with enough rows" if n_told < n else ""
        return (
            f"{words}. Overall: {_OVERALL[self.overall]}, {means}{of} (mean gain within {low} to "
            f"{high}, 95 %)."
        )


_OVERALL = {HELPED: "it helped", HURT: "it hurt", UNCLEAR: UNCLEAR}


def joinings(found: Sequence[PartyQuality]) -> tuple[Joining, ...]:
    """Return what joining brought, by each score by which some party could compare."""
    return tuple(
        joining for score in score_names(found) if (joining := _joining(found, score)) is not None
    )


def _joining(found: Sequence[PartyQuality], score: str) -> Joining | None:
    compared = [q for q in found if score in q.scores and f"local_{score}" in q.scores]
    if not compared:
        return None
    gain_of = {q.party: q.intervals.get(f"gain_{score}") for q in compared}
    told = [q for q in compared if gain_of[q.party] is not None] or compared
    alone = sum(q.scores[f"local_{score}"] for q in told) / len(told)
    together = sum(q.scores[score] for q in told) / len(told)
    return Joining(
        score,
        {party: judge(gain) for party, gain in gain_of.items()},
        alone,
        together,
        _mean_gain(told, score),
    )


def _mean_gain(found: Sequence[PartyQuality], score: str) -> Interval | None:
    """Return the interval of the parties' mean gain; None if they have none.

    The parties' rows are different, so squared distances from their gains to the ends add up, on
    each side of its own (Zou and Donner 2008): the interval holds the gain that it is about.
    """
    sign = -1.0 if score in LESS_IS_BETTER else 1.0
    gains, below, above = [], 0.0, 0.0
    for q in found:
        interval = q.intervals.get(f"gain_{score}")
        if interval is None:
            return None
        gain = sign * (q.scores[score] - q.scores[f"local_{score}"])
        gain = min(max(gain, interval[0]), interval[1])
        gains.append(gain)
        below, above = below + (gain - interval[0]) ** 2, above + (interval[1] - gain) ** 2
    n, middle = len(gains), sum(gains) / len(gains)
    return middle - math.sqrt(below) / n, middle + math.sqrt(above) / n


def below_majority(found: Sequence[PartyQuality]) -> list[str]:
    """Name each party at which the model is wrong more often than its most common class; why."""
    below = [one for one in found if _is_below(one.scores)]
    alike = [one for one in below if _has_same_share(one)]
    if len(alike) < 2:
        return [_told_below(one) for one in below]
    names = join_words(repr(one.party) for one in alike)
    together = (
        f"At {names} the joint model is right in fewer rows than always to say the party's most "
        f"common class would be. {_SAME_CLASS}"
    )
    return [*(_told_below(one) for one in below if one not in alike), together]


def _is_below(scores: Mapping[str, float]) -> bool:
    return "majority" in scores and scores.get("accuracy", 1.0) < scores["majority"]


def _has_same_share(one: PartyQuality) -> bool:
    joint = one.scores.get("joint_majority")
    return joint is not None and abs(one.scores["majority"] - joint) < _SAME_SHARE


def _told_below(one: PartyQuality) -> str:
    own, joint = one.scores["majority"], one.scores.get("joint_majority")
    fitted = one.scores.get("home_accuracy")
    words = (
        f"At {one.party!r} the joint model is right in {one.scores['accuracy']:.3f} of "
        f"{one.n_rows} rows; always to say its most common class would be right in {own:.3f}."
    )
    if joint is None:
        return (
            f"{words} If that class is rarer at the other parties, which this report does not "
            "know, that is why, and the party can fit the model at home: spinney party fit."
        )
    if _has_same_share(one):
        return f"{words} {_SAME_CLASS}"
    words += (
        f" That class is {joint:.3f} of all parties' rows: a joint model knows that share, and not "
        "the party's own."
    )
    if fitted is None:
        return f"{words} The party can fit it at home, and tell nobody: spinney party fit."
    if fitted <= one.scores["accuracy"]:
        return f"{words} Fitted at home it is right in {fitted:.3f}, which is no better."
    return (
        f"{words} Fitted at home it is right in {fitted:.3f} (spinney party fit; in Python, "
        "for_party)."
    )


def beside_joint(found: Sequence[PartyQuality]) -> str:
    """Say how trees that parties keep compare with joint models, and what is recommended."""
    for score in score_names(found)[:1]:
        names = {score: "", f"joint_tree_{score}": "a tree", f"joint_forest_{score}": "a forest"}
        judged = [q.scores for q in found if names.keys() <= q.scores.keys()]
        if not judged:
            return ""
        means = {name: sum(scores[name] for scores in judged) / len(judged) for name in names}
        own, tree, forest = means.values()
        sign = -1 if score in LESS_IS_BETTER else 1
        better = [names[name] for name, mean in means.items() if sign * mean > sign * own]
        advice = f"grow {' or '.join(better)} so" if better else "neither is better here"
        return (
            "Grown jointly, from summed counts of all parties, a tree of the same depth has "
            f"{word_of(score)} {number(tree)} on average and a forest {number(forest)}, against "
            f"{number(own)} of the trees evolved together. Where such counts may leave, {advice}."
        )
    return ""


def verdicts(report: ReportFacts) -> list[str]:
    """Return whether joining was worth it, by each score."""
    if len(report.parties) == 1:
        return [NOTHING_TO_JOIN]
    found = [one.in_words() for one in joinings(report.quality)]
    return found or [why_not_compared(report.quality)]


def why_not_compared(found: Sequence[PartyQuality]) -> str:
    """Say why no party could compare."""
    unscored = found and all(one.n_rows and not one.scores for one in found)
    return NOT_SCORED if unscored else NOT_COMPARED


def noise_in_words(report: ReportFacts) -> str:
    """Say where noise was added; the coordinator may have seen exact counts nevertheless."""
    if not report.is_private:
        return "Not differentially private: no noise was added."
    open_to = [
        claim.text
        for claim in report.privacy
        if (claim.view, claim.verdict) == ("coordinator", "UNPROTECTED")
    ]
    if any(READ_FROM_DATA in text for text in open_to):
        return (
            "Noise was added, and charged to each party's ledger. But public facts were read from "
            "the tables, and no noise covers those: declare them in a schema."
        )
    if open_to:
        return (
            "Noise was added to the model, and charged to each party's ledger. The coordinator "
            "saw exact counts and is trusted with them."
        )
    return "Noise was added to what left the parties, and charged to each party's ledger."


def scored_in_words(scored: str) -> str:
    """Say of which class F1 is; empty if there are not two."""
    return f"F1 is that of the class {scored!r}, the second of two." if scored else ""


def scored_class(report: ReportFacts) -> str:
    """Say of which class F1 is, where a report has F1."""
    has_f1 = any("f1" in q.scores for q in report.quality)
    return scored_in_words(report.subject.scored) if report.subject and has_f1 else ""


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
        f"what the training cost.{_together(report)} Every interval covers 95 %: the noise, and "
        "which rows there were."
    )


_SAMPLERS: Final = Fraction(1, 10**12)  # a delta below it is that of samplers, which claims tell


def _together(report: ReportFacts) -> str:
    """Say what training and all evaluations come to, if that is an epsilon."""
    total = epsilon_in_all(report.privacy, report.evaluation_privacy)
    record = Unit.RECORD_ADD_REMOVE.value
    if record not in total:
        return ""
    found = delta_in_all(report.privacy, report.evaluation_privacy)[record]
    delta = f", delta {float(found):.6g}" if found > _SAMPLERS else ""
    return (
        f" Training and all evaluations together: epsilon {float(total[record]):.6g}{delta} for a "
        "record, as if all counted it."
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


def distilled(report: ReportFacts) -> str:
    """Say what it means that a tree was distilled; empty if it was not."""
    if report.settings.get("method") != "distilled":
        return ""
    return (
        "The tree was distilled: many small trees were boosted from sums with noise, and this one "
        "imitates them on rows that were drawn from noisy shares of each column. So its cuts say "
        "what the boosted trees learnt, column by column. What its leaves say was counted in the "
        "parties' own rows, with noise."
    )


def retries(report: ReportFacts) -> str:
    """Return how often the job was retried."""
    if report.attempts == 1:
        return "No retries."
    return (
        f"{some(report.attempts - 1, 'retry', 'retries')}: the job started {report.attempts} "
        "times, and each time resumed after its last completed round."
    )
