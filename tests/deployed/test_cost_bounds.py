"""The stated bytes of a job hold for wide tables, many classes and many categories, too."""

import numpy as np
import pytest

from spinney.deployment.costs import cost_of
from spinney.deployment.job import agreement_of
from spinney.jobs.file import load_job
from spinney.protocols.settings import ForestSettings
from spinney.protocols.spec import PartySite
from spinney.protocols.verified.simulated import connect_parties
from spinney.tables.columns import VectorColumns
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MemoryTable

PARTIES = ("a", "b", "c")
SMALL = "n_estimators = 1\nmax_depth = 2\n"
DEEP = "n_estimators = 1\nmax_depth = 24\nmax_features = 1\nmessage_limit = 65536\n"
BOOSTED = "max_iter = 4\nbatch_trees = 2\nmax_depth = 2\n"
MASKED = SMALL + "secure_sum = true\n"
NUMBER = 'kind = "number"\nrange = [0, 1]'


def job_in(folder, schema, settings, *, protocol="horizontal_forest", declares="all"):
    """Return the agreed job over a schema: it declares all of it, names only, or nothing."""
    names = ", ".join(f'"{column.name}"' for column in schema.columns)
    columns = {"all": "", "names": f"columns = [{names}]", "nothing": ""}[declares]
    if declares == "all":
        for column in schema.columns:
            values = ", ".join(f'"{name}"' for name in column.categories or ())
            kind = f'kind = "category"\nvalues = [{values}]' if values else NUMBER
            columns += f"[schema.columns.{column.name}]\n{kind}\n"
    path = folder / "job.toml"
    classes = ", ".join(f'"{name}"' for name in schema.label.classes)
    path.write_text(
        f'[job]\nname = "q"\nprotocol = "{protocol}"\ntask = "classification"\n'
        f"parties = {list(PARTIES)}\n[settings]\n{settings}"
        f'[schema]\nlabel = "y"\nclasses = [{classes}]\n{columns}\n'
    )
    return agreement_of(load_job(path, deployed=True))


def schema_of(n_numbers=1, n_categories=0, n_classes=2):
    columns = [Column(f"x{i}", "number", range=(0.0, 1.0)) for i in range(n_numbers)]
    if n_categories:
        names = tuple(f"diagnosis {i}" for i in range(n_categories))
        columns.append(Column("code", "category", categories=names))
    return Schema(tuple(columns), Label("y", "class", tuple(f"c{i}" for i in range(n_classes))))


def table_of(schema, seed, n_rows=1500):
    rng = np.random.default_rng(seed)
    values = tuple(
        (rng.integers(0, len(c.categories), n_rows) if c.categories else rng.random(n_rows)).astype(
            np.float32
        )
        for c in schema.columns
    )
    label = rng.integers(0, len(schema.label.classes), n_rows).astype(np.int32)
    return MemoryTable(schema, VectorColumns(values), label)


def groups_in(schema, seed, n_rows=600):
    """A table whose columns differ among a sixth of the rows each: elsewhere they cut nothing."""
    rng = np.random.default_rng(seed)
    group = np.arange(n_rows) % 6
    values = tuple(
        np.where(group == number % 6, rng.random(n_rows), 0).astype(np.float32)
        for number, _ in enumerate(schema.columns)
    )
    return MemoryTable(schema, VectorColumns(values), rng.integers(0, 2, n_rows).astype(np.int32))


def moved_in(job, schema, table_in=table_of):
    """Run the job in process; return the bytes to and from the busiest party, and the rows."""
    settings = job.protocol_settings()
    tables = {name: table_in(schema, seed) for seed, name in enumerate(PARTIES)}
    sides = {n: job.spec.party(t, settings, PartySite(n, 1)) for n, t in tables.items()}
    channel = connect_parties(sides, is_masked=job.is_masked, privacy=settings.privacy)
    job.spec.train(channel, settings, n_jobs=1, progress=lambda *_: None)
    moved = {
        n: sum(r.bytes_up.get(n, 0) + r.bytes_down.get(n, 0) for r in channel.rounds)
        for n in PARTIES
    }
    return max(moved.values()), sum(table.n_rows for table in tables.values())


@pytest.mark.parametrize(
    ("schema", "settings", "protocol"),
    [
        (schema_of(8), MASKED, "horizontal_forest"),
        (schema_of(60), MASKED, "horizontal_forest"),
        (schema_of(60), MASKED + 'binning = "quantiles"\n', "extra_trees"),
        (schema_of(n_classes=600), SMALL + 'binning = "ranges"\n', "horizontal_forest"),
        (schema_of(n_categories=20_000), SMALL, "horizontal_forest"),
        (schema_of(2), DEEP, "horizontal_forest"),
        (schema_of(60), BOOSTED + "secure_sum = true\n", "horizontal_boosting"),
        (schema_of(4, 2000, 30), BOOSTED, "horizontal_boosting"),
    ],
    ids=[
        "8 masked",
        "60 masked",
        "60 masked extra",
        "600 classes",
        "20000 categories",
        "deep",
        "60 boosted",
        "30 classes",
    ],
)
def test_no_party_moves_more_than_is_stated(schema, settings, protocol, tmp_path):
    job = job_in(tmp_path, schema, settings, protocol=protocol)
    cost = cost_of(job)
    moved, n_rows = moved_in(job, schema)
    assert moved <= cost.bytes + cost.bytes_a_row * n_rows
    assert cost.assumes == ""
    assert "if no party leaves; about" in str(cost)


@pytest.mark.parametrize("protocol", ["horizontal_forest", "extra_trees"])
def test_the_bound_holds_where_nodes_must_draw_on(protocol, tmp_path, monkeypatch):
    schema = schema_of(60)
    settings = "n_estimators = 3\nmax_depth = 5\nmax_features = 1\nsecure_sum = true\n"
    job = job_in(tmp_path, schema, settings, protocol=protocol)
    cost = cost_of(job)
    moved, n_rows = moved_in(job, schema, groups_in)
    assert moved <= cost.bytes + cost.bytes_a_row * n_rows
    assert "MB unless nodes must draw more columns)" in str(cost)
    monkeypatch.setattr(ForestSettings, "goes_on", False)
    assert moved > moved_in(job, schema, groups_in)[0]  # they did


def test_what_the_bounds_assume_is_said(tmp_path):
    schema = schema_of(3)
    nothing = cost_of(job_in(tmp_path, schema, SMALL, declares="nothing"))
    assert "assuming 10 columns with at most 255 categories each" in str(nothing)
    names = cost_of(job_in(tmp_path, schema, SMALL, declares="names"))
    assert "assuming at most 255 categories in columns whose" in str(names)
