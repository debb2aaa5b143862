"""Job files: TOML in, frozen values out; an unknown key or a wrong type is refused by name.

A job file says what is to be grown (`[job]`, `[settings]`), which public facts are agreed
(`[schema]`), and over which tables: one that is dealt out to simulated parties (`[table]`,
`[simulation]`) or one for each party (`[[party]]`). `docs/files.md` describes every key.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from spinney.errors import SettingError
from spinney.jobs.sections import (
    ColumnConfig,
    section,
    sections,
)
from spinney.report.release import Hardening

PROTOCOLS = (  # as in `jobs.registry`, which is slow to import
    "horizontal_forest",
    "private_tree",
    "private_forest",
    "genetic_tree",
    "extra_trees",
    "vertical_forest",
)


_TASKS = ("classification", "regression")


_SOURCES = ("csv", "parquet", "sql")


_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


class JobConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What the job is called and what it grows."""

    name: str
    protocol: str = "horizontal_forest"
    task: str = "classification"
    parties: tuple[str, ...] = ()  # of a deployed job, if not named by [[party]]
    quorum: int | None = None  # how many of them must stay; None: all

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise SettingError(
                f"The job's name must be letters, digits, '.', '_' or '-', since its folder is "
                f"called so; got {self.name!r}."
            )
        _require_choice("protocol", self.protocol, PROTOCOLS)
        _require_choice("task", self.task, _TASKS)


class SettingsConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The estimator's parameters; what is left out has the estimator's default."""

    n_estimators: int | None = None
    criterion: str | None = None
    max_depth: int | None = None
    min_samples_split: int | float | None = None
    min_samples_leaf: int | float | None = None
    min_weight_fraction_leaf: float | None = None
    min_impurity_decrease: float | None = None
    max_features: int | float | str | None = None
    max_bins: int | None = None
    max_cells: int | None = None
    binning: str | None = None
    bootstrap: bool | None = None
    class_weight: str | dict[str, float] | None = None
    oob_score: bool | None = None
    secure_sum: bool | None = None
    honest: int | None = None
    epsilon: int | float | None = None
    epsilon_per_count: int | float | None = None
    mechanism: str | None = None
    tree_rows: str | None = None
    sample_rate: int | float | None = None
    leaf_share: int | float | None = None
    bounds_share: int | float | None = None
    method: str | None = None
    n_bins: int | None = None
    n_rows: int | None = None
    shrinkage: int | float | None = None
    thresholds: str | None = None
    label_privacy: str | None = None
    label_scheme: str | None = None
    message_limit: int | None = None
    max_leaf_nodes: int | None = None  # known only so as to be refused with its reason
    population_size: int | None = None  # this and the next are of evolved trees
    n_generations: int | None = None
    participation: int | float | None = None
    train_ratio: float | None = None
    validation: str | None = None
    metric: str | None = None
    leaf_ratio: int | float | None = None
    tournament_size: int | None = None
    flip_ratio: int | float | None = None
    swap_ratio: int | float | None = None
    n_folds: int | None = None
    min_depth: int | None = None
    noise_threshold: int | float | None = None
    complexity_threshold: int | float | None = None
    unique_threshold: int | float | None = None
    keep_home: bool | None = None
    size_epsilon: int | float | None = None
    delta: int | float | None = None
    label_party: str | None = None  # this and the next are of vertical forests
    matching: str | None = None
    labels: str | None = None
    label_epsilon: int | float | None = None
    scheme: str | None = None
    key_bits: int | None = None
    intersect_at: str | None = None
    join_parts: bool | None = None
    random_state: int = 0
    n_jobs: int | None = None

    @property
    def is_private(self) -> bool:
        """Whether noise is asked for."""
        given = (self.epsilon, self.epsilon_per_count, self.label_privacy)
        return any(value is not None for value in given)


Columns = tuple[str, ...] | dict[str, ColumnConfig]


class SchemaConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The public facts all parties share: the label, its classes or range, the columns."""

    label: str | None = None
    classes: tuple[str | int | float | bool, ...] | None = None
    range: tuple[float, ...] | None = None
    columns: Columns | None = None


class TableConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Where a table is, which of its columns is the label, and its columns' public facts."""

    source: str
    path: str | None = None
    url_env: str | None = None
    query: str | None = None
    label: str | None = None
    row_id: str | None = None
    columns: Columns | None = None

    def __post_init__(self) -> None:
        _require_choice("source", self.source, _SOURCES)


class PartyConfig(TableConfig, frozen=True, kw_only=True):
    """One party's own table."""

    name: str


class SimulationConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How one table is dealt out to parties, and which share of its rows each holds back."""

    n_parties: int | None = None
    skew: float | None = None
    sizes: tuple[float, ...] | None = None
    stratified: bool | None = None
    random_state: int = 0
    held_out: float = 0.2

    def __post_init__(self) -> None:
        if not 0 <= self.held_out < 1:
            raise SettingError(
                f"held_out must be a share of at least 0 and below 1; got {self.held_out}."
            )


class JobFile(msgspec.Struct, frozen=True, kw_only=True):
    """A job file as it was read; paths in it are relative to its folder."""

    folder: Path
    job: JobConfig
    settings: SettingsConfig
    schema: SchemaConfig
    table: TableConfig | None
    parties: tuple[PartyConfig, ...]
    simulation: SimulationConfig
    release: Hardening | None = None  # how the model is hardened before it leaves; None: not said


def load_job(path: Path, *, deployed: bool = False) -> JobFile:
    """Read and check a job file; a deployed job needs no tables, since parties have their own."""
    given = read_toml(path, "job file")
    where = f"{path.name!r}"
    known = ("job", "settings", "schema", "table", "party", "simulation", "release")
    for name in given:
        if name not in known:
            raise SettingError(
                f"Unknown section [{name}] in {where}. Known sections: "
                f"{', '.join(f'[{one}]' for one in known)}."
            )
    if "job" not in given:
        raise SettingError(f"{where} has no [job] section. Begin it with [job] and a name.")
    job = JobFile(
        folder=path.parent,
        job=section(given, "job", JobConfig, where),
        settings=section(given, "settings", SettingsConfig, where),
        schema=section(given, "schema", SchemaConfig, where),
        table=section(given, "table", TableConfig, where) if "table" in given else None,
        parties=sections(given, "party", PartyConfig, where),
        simulation=section(given, "simulation", SimulationConfig, where),
        release=section(given, "release", Hardening, where) if "release" in given else None,
    )
    _require_one_kind(job, where, deployed=deployed)
    return job


def read_toml(path: Path, called: str) -> dict[str, Any]:
    """Return what a TOML file holds; `called` is what messages call it."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise SettingError(
            f"Cannot read the {called} {str(path)!r}: {error.strerror or error}. Check its path."
        ) from None
    except UnicodeDecodeError:
        raise SettingError(f"{str(path)!r} is not a {called}: it is not UTF-8 text.") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SettingError(
            f"{str(path)!r} is not TOML: {error}. Correct that line; docs/files.md shows a "
            f"{called}."
        ) from None


def _require_one_kind(job: JobFile, where: str, *, deployed: bool) -> None:
    """Raise unless there is one table to deal out, or a table for each party."""
    if job.table is None and not job.parties and not deployed:
        raise SettingError(
            f"{where} names no table. Give one [table] to deal out to simulated parties, or a "
            "[[party]] with its own table for each party."
        )
    if job.table is not None and job.parties:
        raise SettingError(
            f"{where} has both [table] and [[party]]. Keep [table] to deal one table out, or "
            "[[party]] where each party has its own."
        )
    names = [party.name for party in job.parties]
    for name in names:
        if not name or names.count(name) > 1:
            raise SettingError(f"Every [[party]] in {where} needs a name of its own; got {name!r}.")
    if names and job.job.parties and job.job.parties != tuple(names):
        raise SettingError(
            f"[job] and the [[party]] sections in {where} name different parties, or in another "
            "order. Name the same ones, or drop parties from [job]."
        )
    dealing = ("n_parties", "skew", "sizes", "stratified")
    given = [key for key in dealing if getattr(job.simulation, key) is not None]
    if job.parties and given:
        raise SettingError(
            f"{where} sets {', '.join(given)} in [simulation], which deals one [table] out, but "
            "each [[party]] has its own table. Drop it."
        )


def _require_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        known = " or ".join(repr(choice) for choice in choices)
        raise SettingError(f"{name} must be {known}; got {value!r}.")
