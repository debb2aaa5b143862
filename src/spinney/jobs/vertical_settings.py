"""Job files of vertical forests: their settings, a party's side, what they are compared with."""

from dataclasses import replace
from typing import Any, cast

import msgspec

from spinney.errors import SettingError
from spinney.jobs.file import JobFile
from spinney.jobs.settings import VERTICAL, forest_settings
from spinney.protocols.settings import Task, as_text
from spinney.protocols.vertical_forest import matched as matched_forest
from spinney.protocols.vertical_forest.labels import LabelAccount
from spinney.protocols.vertical_forest.matching import MATCHINGS, Matching
from spinney.protocols.vertical_forest.settings import (
    NAME,
    Labels,
    Place,
    SchemeName,
    VerticalSettings,
)
from spinney.seeds import job_seed
from spinney.tables.holding import Holding
from spinney.tables.schema import Category, listed
from spinney.transport.channel import Answering

N_PARTIES = 2  # where one table is dealt out and nothing else is said


def vertical_settings_of(
    job: JobFile, classes: tuple[Category, ...] | None
) -> matched_forest.Settings:
    """Return the settings of a job; without classes only what can be said without them."""
    given = job.settings
    if given.secure_sum:
        raise SettingError(
            "protocol = 'vertical_forest' adds nothing up over parties: each has its own columns. "
            "Drop secure_sum; labels = 'encrypted' hides the labels."
        )
    if given.epsilon is not None or given.epsilon_per_count is not None:
        raise SettingError(
            "protocol = 'vertical_forest' adds noise to labels only. Use label_epsilon instead of "
            "epsilon."
        )
    weights = given.class_weight
    if classes is None and isinstance(weights, dict):
        classes = tuple(weights)
    plain = msgspec.structs.replace(given, **dict.fromkeys(VERTICAL))
    task = cast("Task", job.job.task)
    epsilon = given.label_epsilon
    vertical = VerticalSettings(
        forest=forest_settings(plain, task, classes or (), job.job.name),
        labels=cast("Labels", given.labels or "shared"),
        label_epsilon=None if epsilon is None else as_text(epsilon, "label_epsilon"),
        job="" if epsilon is None else job.job.name,
        intersect_at=cast("Place", given.intersect_at or "label_party"),
        scheme=cast("SchemeName", given.scheme or "auto"),
        key_bits=2048 if given.key_bits is None else given.key_bits,
    )
    return matched_forest.Settings(
        vertical=vertical,
        label_party=_label_party(job),
        matching=_matching(job),
        held_out=job.simulation.held_out,
        held_out_seed=job_seed(job.simulation.random_state),
        join_parts=bool(given.join_parts),
    )


def _label_party(job: JobFile) -> str:
    named = job.settings.label_party
    known = job.job.parties or tuple(party.name for party in job.parties)
    if job.table is not None:
        n_parties = job.simulation.n_parties or N_PARTIES
        known = tuple(f"party_{number}" for number in range(n_parties))
        named = named or known[0]
    if named is None or (known and named not in known):
        who = f", one of {listed(map(repr, known))}" if known else ""
        raise SettingError(
            f"label_party must name the one party that holds the labels{who}; got {named!r}. "
            "Give it in [settings]."
        )
    return named


def _matching(job: JobFile) -> Matching | None:
    given = job.settings.matching
    if job.table is not None:
        if given is not None:
            raise SettingError(
                "One [table] has its rows in order already. Drop matching, or give each [[party]] "
                "a table of its own."
            )
        return None
    if given not in MATCHINGS:
        known = " or ".join(map(repr, MATCHINGS))
        raise SettingError(
            f"Parties with tables of their own find their common rows by matching = {known}; got "
            f"{given!r}. Give it in [settings], and each table its row_id."
        )
    return given


def vertical_party(table: Holding, settings: Any, site: Any) -> Answering:
    """Return a party's side; the label party pays from its ledger where labels are randomised."""
    pays = settings.privacy is not None
    return matched_forest.Party(
        table,
        settings,
        site.name,
        folder=site.folder,
        n_jobs=site.n_jobs,
        account=LabelAccount(site.ledger, site.data) if pays else LabelAccount(),
    )


def vertical_baseline(settings: matched_forest.Settings) -> tuple[str, matched_forest.Settings]:
    """Return what a vertical forest is held against: one party that has all, labels as they are."""
    forest = replace(settings.vertical, labels="shared", label_epsilon=None, job="")
    return NAME, replace(settings, vertical=forest, matching=None, held_out=0.0)
