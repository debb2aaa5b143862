"""Read job files: TOML in, frozen values out; errors name the unknown key or the wrong type.

A job file says what to train (`[job]`, `[settings]`), which public facts are agreed (`[schema]`),
and on which tables: one table dealt out to simulated parties (`[table]`, `[simulation]`), or one
table for each party (`[[party]]`). `docs/files.md` describes every key.
"""

import re
import tomllib
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import UNSET, UnsetType

from spinney.errors import SettingError
from spinney.jobs.careful import careful_settings
from spinney.jobs.registry import SPECS, spec_of
from spinney.jobs.sections import ColumnConfig, section, sections
from spinney.protocols.release_terms import Hardening
from spinney.protocols.settings import Task, as_text, require_choice
from spinney.protocols.spec import JobFacts, Spec
from spinney.tables.schema import Category, join_words

_TASKS = ("classification", "regression")
_SOURCES = ("csv", "parquet", "sql")
_N_PARTIES = 5
_N_COLUMN_PARTIES = 2
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


class JobConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The job's name and protocol, and its parties."""

    name: str
    protocol: str = "horizontal_forest"
    task: str = "classification"
    parties: tuple[str, ...] = ()  # for a deployed job without [[party]] sections
    quorum: int | None = None  # how many of them must stay; None: all

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise SettingError(
                f"The job's name must consist of letters, digits, '.', '_' or '-', because its "
                f"folder has the same name; got {self.name!r}."
            )
        spec_of(self.protocol)  # refuses an unknown protocol
        require_choice("task", self.task, _TASKS)


Columns = tuple[str, ...] | dict[str, ColumnConfig]


class SchemaConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The public facts that all parties share: the label, its classes or range, the columns."""

    label: str | None = None
    classes: tuple[str | int | float | bool, ...] | None = None
    range: tuple[float, ...] | None = None
    columns: Columns | None = None
    # Numbers that count days since 1970-01-01: reports show them as dates. Left out: none.
    dates: tuple[str, ...] | UnsetType = UNSET

    @property
    def date_columns(self) -> tuple[str, ...]:
        """The columns in `dates`."""
        return () if self.dates is UNSET else self.dates


class TableConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Where a table is, which of its columns is the label, and its columns' public facts."""

    source: str
    path: str | None = None
    url_env: str | None = None
    query: str | None = None
    label: str | None = None
    row_id: str | None = None
    row_weight: str | None = None
    columns: Columns | None = None
    cluster: str | None = None
    cluster_tls: str | None = None

    def __post_init__(self) -> None:
        require_choice("source", self.source, _SOURCES)
        if self.cluster is None and self.cluster_tls is not None:
            raise SettingError(
                "cluster_tls names certificates for a cluster, but the table names no cluster. "
                "Add cluster, or drop cluster_tls."
            )
        if self.cluster is not None and self.row_weight is not None:
            raise SettingError(
                "row_weight names a column of weights, which the workers of a cluster do not read. "
                "Drop cluster, or drop row_weight."
            )


class PartyConfig(TableConfig, frozen=True, kw_only=True):
    """One party's own table."""

    name: str


class SimulationConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How one table is dealt out to parties, and which share of rows each party holds back."""

    n_parties: int | None = None
    skew: float | None = None
    sizes: tuple[float, ...] | None = None
    stratified: bool | None = None
    by: str | None = None  # the column whose values decide who gets a row
    random_state: int = 0
    held_out: float = 0.2

    def __post_init__(self) -> None:
        if not 0 <= self.held_out < 1:
            raise SettingError(f"held_out must be at least 0 and less than 1; got {self.held_out}.")


class EvaluationConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the finished model is evaluated with noise: at which price, and by which subgroups."""

    epsilon: int | float
    by: str | None = None
    per_party: bool = False

    def __post_init__(self) -> None:
        as_text(self.epsilon, "[evaluation] epsilon")


class JobFile(msgspec.Struct, frozen=True, kw_only=True):
    """A job file as read; its paths are relative to its folder."""

    folder: Path
    job: JobConfig
    settings: Any  # a `JobSettings` of the job's protocol
    schema: SchemaConfig
    table: TableConfig | None
    parties: tuple[PartyConfig, ...]
    simulation: SimulationConfig
    release: Hardening | None = None  # how the model is hardened before it leaves; None: not set
    evaluation: EvaluationConfig | None = None  # of the finished model, with noise; None: exact

    @property
    def spec(self) -> Spec[Any]:
        """The protocol."""
        return spec_of(self.job.protocol)

    @property
    def n_parties(self) -> int:
        """The number of simulated parties to which one table is dealt."""
        default = _N_COLUMN_PARTIES if self.spec.divides == "columns" else _N_PARTIES
        return default if self.simulation.n_parties is None else self.simulation.n_parties

    def facts(self, classes: tuple[Category, ...] | None = None) -> JobFacts:
        """Return the file's facts other than its settings; None: the classes are not yet known."""
        parties = self.job.parties or tuple(party.name for party in self.parties)
        if self.table is not None:
            parties = tuple(f"party_{number}" for number in range(self.n_parties))
        return JobFacts(
            name=self.job.name,
            task=cast("Task", self.job.task),
            classes=classes,
            parties=parties,
            is_aligned=self.table is not None,
            held_out=self.simulation.held_out,
            held_out_seed=self.simulation.random_state,
            n_columns=len(self.schema.columns or ()),
        )

    def protocol_settings(self, classes: tuple[Category, ...] | None = None) -> Any:
        """Return the protocol's settings, checked as far as possible if the classes are unknown."""
        return self.spec.settings_of(self.settings, self.facts(classes))


def load_job(path: Path, *, deployed: bool = False) -> JobFile:
    """Read and check a job file; a deployed job needs no tables, because parties have their own."""
    given = read_toml(path, "job file")
    where = f"{path.name!r}"
    known = ("job", "settings", "schema", "table", "party", "simulation", "release", "evaluation")
    for name in given:
        if name not in known:
            raise SettingError(
                f"Unknown section [{name}] in {where}. Known sections: "
                f"{', '.join(f'[{one}]' for one in known)}."
            )
    if "job" not in given:
        raise SettingError(f"{where} has no [job] section. Begin it with [job] and a name.")
    named = section(given, "job", JobConfig, where)
    job = JobFile(
        folder=path.parent,
        job=named,
        settings=settings_section(given, spec_of(named.protocol), where),
        schema=section(given, "schema", SchemaConfig, where),
        table=section(given, "table", TableConfig, where) if "table" in given else None,
        parties=sections(given, "party", PartyConfig, where),
        simulation=section(given, "simulation", SimulationConfig, where),
        release=section(given, "release", Hardening, where) if "release" in given else None,
        evaluation=(
            section(given, "evaluation", EvaluationConfig, where) if "evaluation" in given else None
        ),
    )
    _require_one_kind(job, where, deployed=deployed)
    _require_known_dates(job, where)
    return _with_careful_settings(job, deployed=deployed)


def _require_known_dates(job: JobFile, where: str) -> None:
    """Raise if `dates` names a column that the file does not declare, if it declares any."""
    given = [job.schema.columns, *(one.columns for one in (job.table, *job.parties) if one)]
    declared = {name for columns in given for name in columns or ()}
    unknown = [name for name in job.schema.date_columns if declared and name not in declared]
    if unknown:
        raise SettingError(
            f"[schema] in {where} names {unknown[0]!r} in dates, which is not among the columns: "
            f"{join_words(sorted(declared))}. Correct the name, or leave it out."
        )


def _with_careful_settings(job: JobFile, *, deployed: bool) -> JobFile:
    """Return a job without noise with careful settings where its file gives none."""
    try:
        asked = job.protocol_settings(job.schema.classes)
    except SettingError:  # refused where it is used
        return job
    if asked.privacy is not None:
        return job
    parties = (job.job.parties or job.parties) if deployed else job.facts().parties
    settings = careful_settings(job.spec, job.settings, asked, len(parties))
    return msgspec.structs.replace(job, settings=settings)


def settings_section(given: dict[str, Any], spec: Spec[Any], where: str) -> Any:
    """Return the [settings] of a protocol; a key of another protocol is refused by name."""
    found = given.get("settings", {})
    for key in found if isinstance(found, dict) else ():
        owners = [repr(other.name) for other in SPECS.values() if key in _keys(other)]
        if owners and key not in _keys(spec):
            raise SettingError(
                f"protocol = {spec.name!r} has no setting {key!r}: it belongs to "
                f"{join_words(owners)}. Drop it, or change protocol."
            )
    return section(given, "settings", spec.job_settings, where)


def _keys(spec: Spec[Any]) -> tuple[str, ...]:
    names: tuple[str, ...] = spec.job_settings.__struct_encode_fields__
    return names


def read_toml(path: Path, called: str) -> dict[str, Any]:
    """Return the contents of a TOML file; messages refer to it as `called`."""
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
    """Raise unless the job has one table to deal out, or one table per party."""
    if job.table is None and not job.parties and not deployed:
        raise SettingError(
            f"{where} names no table. Give one [table] to deal out to simulated parties, or a "
            "[[party]] with its own table for each party."
        )
    if job.table is not None and job.parties:
        raise SettingError(
            f"{where} has both [table] and [[party]]. Keep [table] to deal out one table, or "
            "[[party]] if each party has its own table."
        )
    names = [party.name for party in job.parties]
    for name in names:
        if not name or names.count(name) > 1:
            raise SettingError(f"Every [[party]] in {where} needs a unique name; got {name!r}.")
    if names and job.job.parties and job.job.parties != tuple(names):
        raise SettingError(
            f"[job] and the [[party]] sections in {where} name different parties, or in a "
            "different order. Name the same parties, or drop parties from [job]."
        )
    dealing = ("n_parties", "skew", "sizes", "stratified", "by")
    given = [key for key in dealing if getattr(job.simulation, key) is not None]
    if job.parties and given:
        raise SettingError(
            f"{where} sets {', '.join(given)} in [simulation], which is for dealing out one "
            "[table], but each [[party]] has its own table. Drop it."
        )
