"""An outcome as text for a terminal."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from spinney.jobs.registry import spec_of
from spinney.report.render import size
from spinney.report.verdicts import NOT_SCORED, NOTHING_TO_JOIN, number, scored_in_words, word_of
from spinney.report.words import some
from spinney.simulation.comparison import MODELS
from spinney.simulation.outcome import Outcome


def show(outcome: Outcome, opening: str, *, as_json: bool) -> None:
    """Print an outcome to stdout, as one JSON document or as text that begins with `opening`."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    if as_json:
        console.out(outcome.to_json(), highlight=False)
        return
    console.print(opening)
    if any(party.n_held_out for party in outcome.parties):
        console.print()
        console.print(_table(outcome))
        if outcome.scored and any(scores.get("f1") is not None for scores in outcome.mean.values()):
            console.print(scored_in_words(outcome.scored))
        console.print()
        console.print(joining(outcome))
        for note in filter(None, (outcome.beside, means(outcome), *outcome.below)):
            console.print(note)
    else:
        console.print(
            "No rows were held out, so the forests were not compared."
            if len(outcome.parties) > 1
            else NOTHING_TO_JOIN
        )
    if outcome.identical_to_pooled is not None:
        console.print(_identity(outcome))
    if outcome.privacy:
        console.print("\nThe joint forest carries noise; local and pooled forests carry none.")
        console.print("Privacy, from every party's ledger:")
        for claim in outcome.privacy:
            console.print(f"- {claim}")
        console.print()
    if outcome.measured:
        console.print(f"Measured with noise: {outcome.measured}.")
    up = max(outcome.bytes_up.values())
    down = max(outcome.bytes_down.values())
    console.print(
        f"{some(outcome.rounds, 'round', 'rounds')}; {size(up)} from and {size(down)} to the "
        f"busiest party; {outcome.seconds:.2f} s."
    )
    console.print(f"Model   {outcome.model}")
    console.print(f"Report  {outcome.report}")
    console.print(f"Page    {outcome.page}")


def opening(outcome: Outcome) -> str:
    """Return the line that describes the run."""
    rows = [party.n_training + party.n_held_out for party in outcome.parties]
    held = f"{rows[0]:,} rows in common" if outcome.shares_rows else f"{sum(rows):,} rows"
    who = f"{outcome.name}: {some(len(outcome.parties), 'party', 'parties')} with {held}"
    trees = some(outcome.n_trees, "tree", "trees")
    verb = spec_of(outcome.protocol).verb
    if outcome.is_personal:
        return f"{who} {verb} one tree each, of depth {outcome.depth} at most."
    return f"{who} {verb} a forest of {trees}, depth {outcome.depth}."


def joining(outcome: Outcome) -> str:
    """Return whether joining helped, and whether that is more than chance; a line for each score.

    These are the report's own sentences.
    """
    if len(outcome.parties) == 1:
        return NOTHING_TO_JOIN
    lines = [one.in_words() for one in outcome.joining]
    if not lines and not any(party.federated for party in outcome.parties):
        return NOT_SCORED
    if not lines:
        return "No party could train and score a forest alone, so there is nothing to compare with."
    return "\n".join(lines)


def means(outcome: Outcome) -> str:
    """Return which parties the means leave out, if any."""
    left_out = {}
    for score, (_, n_compared) in outcome.helped.items():
        if 0 < n_compared < len(outcome.parties):
            left_out[word_of(score)] = f"{n_compared} of {len(outcome.parties)}"
    if not left_out:
        return ""
    counts = " and ".join(f"{count} by {score}" for score, count in left_out.items())
    return (
        f"The plain means leave out parties at which a forest could not be scored; they are over "
        f"{counts}."
    )


def _identity(outcome: Outcome) -> Text:
    if outcome.identical_to_pooled:
        return Text("The federated forest is identical to the pooled one, bit for bit.", "green")
    if not outcome.expects_identical:
        why = spec_of(outcome.protocol).differs
        because = f": {why}" if why else ""
        return Text(f"The federated forest differs from the pooled one{because}.")
    return Text(
        "WARNING: THE FEDERATED FOREST IS NOT IDENTICAL TO THE POOLED ONE. It should be: this is "
        "a bug in Spinney. Please report it with the job and its report.",
        "bold red",
    )


def _table(outcome: Outcome) -> Table:
    models = [model for model in MODELS if model in outcome.mean]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("held-out rows of")
    table.add_column("rows", justify="right")
    for model in models:
        for place, score in enumerate(outcome.score_names):
            heading = "" if place else model.replace("_", " ")
            table.add_column(f"{heading}\n{word_of(score)}", justify="right")
    for party in outcome.parties:
        cells = [
            _number((party.scores_of(model) or {}).get(score))
            for model in models
            for score in outcome.score_names
        ]
        table.add_row(Text(party.party), str(party.n_held_out), *cells)
    averaged = [
        _number(outcome.mean[model].get(score)) for model in models for score in outcome.score_names
    ]
    table.add_section()
    table.add_row("plain mean", "", *averaged, style="bold")
    return table


def _number(value: float | None) -> str:
    return "-" if value is None else number(value)
