"""What is fixed before a vertical forest grows, from what the parties say they hold."""

from collections.abc import Mapping
from dataclasses import replace

from spinney.errors import SchemaError
from spinney.protocols.settings import ForestSettings
from spinney.protocols.vertical_job import Job, target_step
from spinney.protocols.vertical_messages import HoldingsReply
from spinney.protocols.vertical_settings import VerticalSettings
from spinney.seeds import derived
from spinney.tables.holding import Holding


def held_by(holding: Holding) -> HoldingsReply:
    """Return what a party brings, in numbers."""
    label = holding.label
    return HoldingsReply(
        holding.n_rows,
        len(holding.columns),
        label is not None,
        len(label.classes or ()) if label else 0,
        target_step(label, holding.n_rows) if label else 0.0,
    )


def label_party_of(holdings: Mapping[str, HoldingsReply]) -> str:
    """Return who holds the labels; refuse none, several, and tables that do not fit."""
    holders = [name for name, held in holdings.items() if held.holds_label]
    if len(holders) != 1:
        found = f"{', '.join(map(repr, holders))} do" if holders else "none does"
        raise SchemaError(
            f"Exactly one party must hold the labels; {found}. Say which column is the label at "
            "one party, and leave it out at the others."
        )
    (first, reference), *others = holdings.items()
    for name, held in others:
        if held.n_rows != reference.n_rows:
            raise SchemaError(
                f"Parties {first!r} and {name!r} hold different numbers of rows. Match their row "
                "ids first, so that all hold the same rows in the same order."
            )
    return holders[0]


def job_of(
    settings: VerticalSettings, holdings: Mapping[str, HoldingsReply], label_party: str
) -> Job:
    """Return the terms of a job, as every party is told."""
    label, forest = holdings[label_party], settings.forest
    if (label.n_classes > 0) != (forest.task == "classification"):
        raise SchemaError(
            f"The job is {forest.task}, but the label at party {label_party!r} is not for that."
        )
    n_columns = sum(held.n_columns for held in holdings.values())
    if not n_columns:
        raise SchemaError("No party holds a column. A forest needs at least one.")
    return Job(
        told_settings(forest),
        settings.labels,
        label.n_rows,
        label.n_classes,
        label.target_step,
        forest.n_slots(n_columns) == n_columns,
        settings.label_epsilon,
        settings.job,
        len(holdings),
    )


def told_settings(forest: ForestSettings) -> ForestSettings:
    """Return the settings as parties see them: the samples have a seed of their own.

    From it nobody can tell which columns were drawn.
    """
    return replace(forest, seed=derived(forest.seed, 1))
