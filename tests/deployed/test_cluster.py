"""A party whose rows lie on workers: the same bytes as one table, also when a worker is lost."""

import importlib
import logging
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from distributed import LocalCluster, Security

from deployed.handmade import (  # type: ignore[import-not-found]
    EXAMPLES,
    Sites,
    agreed_job,
    clinics_in,
    write_party,
)
from spinney import __version__
from spinney.deployment import sandbox
from spinney.deployment.job import EVALUATE
from spinney.deployment.party.config import load_party
from spinney.deployment.party.status import check
from spinney.deployment.party.tables import fingerprint, left_behind, open_table
from spinney.errors import (
    InternalError,
    MissingExtraError,
    PolicyError,
    ProtocolError,
    SettingError,
    TableError,
)
from spinney.jobs.file import load_job
from spinney.jobs.tables import tables_of
from spinney.protocols import extra_trees, horizontal_boosting, horizontal_forest
from spinney.protocols.horizontal_boosting.messages import CurveReply
from spinney.protocols.horizontal_forest.messages import LevelAsk
from spinney.protocols.settings import ForestSettings
from spinney.protocols.verified.channel import VerifiedSums
from spinney.tables.cluster import asking, workers
from spinney.tables.cluster.parts import ParquetTable
from spinney.tables.cluster.spread import SpreadTable
from spinney.tables.cluster.workers import ClusterAddress
from spinney.tables.readers import Source, read_table
from spinney.tables.schema import Column, Label, Schema
from spinney.transport.in_process import InProcess

COLUMNS = (
    Column("a", "number", (-4.0, 4.0)),
    Column("b", "number", (-4.0, 4.0)),
    Column("ward", "category", categories=("x", "y", "z")),
    Column("smokes", "boolean"),
)
CLASSES = Schema(COLUMNS, Label("y", "class", (0, 1, 2)))
AMOUNTS = Schema(COLUMNS, Label("amount", "number", range=(-10.0, 10.0)))
N_ROWS = 6000
EMPTY: dict[str, Any] = {
    "n_workers": 0,
    "threads_per_worker": 1,
    "host": "127.0.0.1",
    "dashboard_address": "127.0.0.1:0",
    "silence_logs": logging.CRITICAL,
}


@pytest.fixture(scope="module")
def cluster():
    """Three workers on this machine."""
    with LocalCluster(**EMPTY | {"n_workers": 3}) as running:
        yield running


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A table with gaps, and with rows that stand in it more than once."""
    random = np.random.RandomState(3)
    a, b = random.standard_normal((2, N_ROWS)).round(1).clip(-4, 4)
    ward = random.choice(["x", "y", "z"], N_ROWS)
    amount = (a * b + (ward == "x")).clip(-10, 10).round(1)
    rows = {
        "a": pa.array(a, mask=random.random_sample(N_ROWS) < 0.1),
        "b": b,
        "ward": ward,
        "smokes": random.random_sample(N_ROWS) < 0.3,
        "amount": amount,
        "y": (amount > 0).astype(int) + (b > 1),
    }
    table = pa.table(rows)
    again = pa.concat_tables([table, table.slice(1000, 2500)])
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pq.write_table(again, path, row_group_size=512)
    return Source("parquet", str(path))


@pytest.fixture(scope="module")
def table(cluster, source):
    """A table that no test changes."""
    opened = on_cluster(cluster, source, CLASSES)
    yield opened
    opened.close()


@dataclass(frozen=True)
class InParts:
    """A table that is cut into some parts, however many workers there are."""

    table: ParquetTable
    n_parts: int

    def cut(self, n_parts):
        return self.table.cut(min(self.n_parts, n_parts))


def on_cluster(cluster, source, schema, n_parts=2):
    where = ClusterAddress(cluster.scheduler_address)
    return SpreadTable.open(where, InParts(ParquetTable.of(source), n_parts), schema)


def trained(family, table, settings):
    return family.train(InProcess({"north": family.Party(table, n_jobs=1)}), settings, n_jobs=1)


SMALL: dict[str, Any] = {"n_estimators": 4, "max_depth": 5}
AS_CLASSES = SMALL | {"task": "classification"}
AS_AMOUNTS = SMALL | {"task": "regression", "criterion": "squared_error"}
FORESTS = {
    "classes": (horizontal_forest, CLASSES, AS_CLASSES),
    "amounts": (horizontal_forest, AMOUNTS, AS_AMOUNTS | {"oob_score": True}),
    "extra": (extra_trees, CLASSES, AS_CLASSES | {"thresholds": "public"}),
    "exchanged": (extra_trees, AMOUNTS, AS_AMOUNTS | {"thresholds": "exchanged"}),
}


@pytest.mark.parametrize("name", FORESTS)
def test_workers_grow_the_forest_of_one_table(cluster, source, name):
    family, schema, given = FORESTS[name]
    settings = ForestSettings(**given)
    one = trained(family, read_table(source, schema), settings)
    for n_parts in (1, 2, 3) if name == "classes" else (3,):
        table = on_cluster(cluster, source, schema, n_parts)
        spread = trained(family, table, settings)
        table.close()
        assert spread.model.to_bytes() == one.model.to_bytes()
        assert spread.quality == one.quality
        assert [each.bytes_up for each in spread.rounds] == [each.bytes_up for each in one.rounds]


BOOSTED: dict[str, Any] = {
    "classes": (CLASSES, {"task": "classification", "loss": "log_loss", "early_stopping": True}),
    "amounts": (AMOUNTS, {"task": "regression", "loss": "squared_error"}),
}


@pytest.mark.parametrize("name", BOOSTED)
def test_workers_boost_the_trees_of_one_table(cluster, source, name):
    schema, given = BOOSTED[name]
    settings = horizontal_boosting.Settings(max_iter=4, batch_trees=2, max_depth=3, **given)
    one = trained(horizontal_boosting, read_table(source, schema), settings)
    table = on_cluster(cluster, source, schema, 3)
    spread = trained(horizontal_boosting, table, settings)
    table.close()
    assert spread.model.to_bytes() == one.model.to_bytes()
    assert (spread.quality, spread.curves) == (one.quality, one.curves)
    assert [each.bytes_up for each in spread.rounds] == [each.bytes_up for each in one.rounds]


def test_parts_join_their_learning_curves():
    replies = [CurveReply(np.array([[n, 10 * n], [n, 5 * n]])) for n in (2, 3)]
    joined = horizontal_boosting.party.BoostedCounting.joined(replies)
    assert joined.losses.tolist() == [[5, 50], [5, 25]]


class Losing(horizontal_forest.Party):
    """A party that loses a worker while trees grow."""

    def __init__(self, table, lose):
        super().__init__(table, n_jobs=1)
        self._lose = lose

    def answer(self, ask):
        if isinstance(ask, LevelAsk) and len(ask.levels) == 2 and self._lose:
            self._lose.pop()()
        return super().answer(ask)


def kill_home(cluster, table, number):
    """Kill the worker that holds a part."""
    home = table._held._home[number]
    (nanny,) = [one for one in cluster.workers.values() if one.worker_address == home]
    os.kill(nanny.pid, signal.SIGKILL)


def test_a_part_whose_worker_is_lost_is_read_again_elsewhere(cluster, source):
    settings = ForestSettings(**AS_CLASSES)
    one = trained(horizontal_forest, read_table(source, CLASSES), settings)
    table = on_cluster(cluster, source, CLASSES)
    homes = dict(table._held._home)
    party = Losing(table, [lambda: kill_home(cluster, table, 1)])
    spread = horizontal_forest.train(InProcess({"north": party}), settings, n_jobs=1)
    assert spread.model.to_bytes() == one.model.to_bytes()
    assert table._held._home[0] == homes[0]
    assert table._held._home[1] != homes[1]
    table.close()


def test_a_table_that_changed_is_noticed_when_a_part_is_read_again(cluster, source, tmp_path):
    path = tmp_path / "rows.parquet"
    path.write_bytes(Path(source.path).read_bytes())
    table = on_cluster(cluster, Source("parquet", str(path)), CLASSES)
    rows = pq.read_table(path)
    pq.write_table(rows.take(np.arange(rows.num_rows)[::-1]), path)
    table._held._place(1)  # as if its worker was lost
    with pytest.raises(TableError, match="The table changed during the job"):
        trained(horizontal_forest, table, ForestSettings(**AS_CLASSES))
    table.close()


def test_a_worker_that_forgot_is_told_again(cluster, source):
    """As after a restart at the same address, when Dask itself makes the part anew."""
    table = on_cluster(cluster, source, CLASSES)
    held = table._held
    held.settled, known = [None, None], held.settled
    held._place(0)
    held.settled = known
    settings = ForestSettings(**AS_CLASSES)
    one = trained(horizontal_forest, read_table(source, CLASSES), settings)
    assert trained(horizontal_forest, table, settings).model.to_bytes() == one.model.to_bytes()
    table.close()


def test_a_cluster_that_loses_one_worker_after_another_is_given_up(table, monkeypatch):
    monkeypatch.setattr(workers.Workers, "outcome", lambda *_: workers.Missing.LOST)
    with pytest.raises(ProtocolError, match="loses one worker after another"):
        table.targets()


def test_a_worker_that_has_paused_for_long_is_named(table, monkeypatch):
    look = table._workers.look()
    paused = workers.Look(look.threads, frozenset(look.threads))
    monkeypatch.setattr(workers.Workers, "look", lambda _: paused)
    monkeypatch.setattr(workers.Workers, "outcome", lambda *_: workers.Missing.PENDING)
    monkeypatch.setattr(asking, "PATIENCE", 0.0)
    with pytest.raises(ProtocolError, match="has paused, because its memory is nearly full"):
        table.targets()


def test_a_cluster_that_falls_silent_is_named_only_to_the_party(table, monkeypatch):
    async def fail(**_):
        raise OSError("tcp://127.0.0.1:9 refuses")

    monkeypatch.setattr(table._workers._client.scheduler, "identity", fail)
    with pytest.raises(
        TableError, match="cluster of this party's table does not answer any more"
    ) as told:
        table.targets()
    assert "127.0.0.1" not in told.value.public


def test_a_cluster_without_spinney_is_refused(table, monkeypatch):
    def fail(_):
        raise ModuleNotFoundError("No module named 'spinney'")

    monkeypatch.setattr(table._workers._client, "run", fail)
    with pytest.raises(TableError, match="table cannot run Spinney") as told:
        table._workers.require_same_versions()
    assert "ModuleNotFoundError" in told.value.local


def test_a_worker_that_fails_keeps_its_reason_here(table):
    with pytest.raises(ProtocolError, match=r"A worker of this party's cluster failed\.") as told:
        table.each(divmod, 3)
    assert told.value.public == "A worker of this party's cluster failed."
    assert "TypeError" in told.value.local


def test_nobody_reads_the_rows_in_the_party(table):
    with pytest.raises(InternalError, match="gives no batches"):
        table.batches()


def clinics_on(cluster, folder, tls=""):
    """Make two parties; the rows of north lie on a cluster if there is one."""
    clinics_in(folder, ("st-mary", "north"))
    rows = pyarrow.csv.read_csv(EXAMPLES / "north.csv")
    pq.write_table(rows, folder / "north" / "visits.parquet", row_group_size=50)
    table = 'source = "parquet"\npath = "visits.parquet"\nrow_id = "visit"\n'
    if cluster:
        table += f'cluster = "{cluster}"\n'
    write_party(folder, "north", table=table + tls)
    return folder


def job_of(folder, **settings):
    return agreed_job(folder, parties=("st-mary", "north"), **settings)


def test_a_party_file_names_the_cluster_and_the_model_keeps_its_bytes(cluster, tmp_path):
    """Also the rows that are held back are the same."""
    models, rows = [], []
    for address in ("", cluster.scheduler_address):
        folder = clinics_on(address, tmp_path / (address[:3] or "one"))
        agreed = job_of(folder, held_out=0.2)
        with left_behind(open_table(load_party(folder / "north" / "party.toml"), agreed)) as table:
            rows.append(table.n_rows)
            assert len(fingerprint(table)) == 64
        sites = Sites(folder, agreed)
        settings = agreed.protocol_settings()
        channel = VerifiedSums(sites.keyed())
        training = agreed.spec.train(channel, settings, n_jobs=1, progress=lambda *_: None)
        sites.close()
        models.append(training.model.to_bytes())
    assert models[0] == models[1]
    assert rows[0] == rows[1]
    assert "stay_days" in check(folder / "north" / "party.toml", None)["columns"]


IN_CAGE = """
import sys, tempfile
from pathlib import Path
from spinney.deployment import process, sandbox
from spinney.deployment.job import Agreed
from spinney.deployment.party.config import load_party
from spinney.deployment.party.tables import open_ledger, open_table
path = Path(sys.argv[1])
file = load_party(path)
open_ledger(file).close()
sandbox.confine(process._party_cage(path, file, 9))
tempfile.tempdir = str(file.records / "tmp")
agreed = Agreed.of_bytes(sys.stdin.buffer.read())
print(open_table(file, agreed).n_rows)
"""


@pytest.mark.skipif(not sandbox.version(), reason="this system has no Landlock")
def test_a_party_in_its_cage_reaches_its_cluster(cluster, tmp_path):
    folder = clinics_on(cluster.scheduler_address, tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", IN_CAGE, str(folder / "north" / "party.toml")],
        input=job_of(folder).to_bytes(),
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src")},
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert done.stdout.decode().strip() == str(
        len((EXAMPLES / "north.csv").read_text().split()) - 1
    )


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"binning": '"adaptive"'}, "a job that has binning = 'adaptive'"),
        ({"epsilon": 1}, "a job that adds noise to what it counts or reads"),
        ({"job": 'protocol = "genetic_tree"'}, "a job that follows protocol = 'genetic_tree'"),
    ],
)
def test_jobs_that_need_all_rows_in_one_process_are_refused(tmp_path, settings, words):
    folder = clinics_on("tcp://127.0.0.1:9", tmp_path)
    if "genetic" in str(settings):
        settings |= {"n_estimators": None}
    with pytest.raises(PolicyError, match=words):
        open_table(load_party(folder / "north" / "party.toml"), job_of(folder, **settings))


def test_an_evaluation_is_refused(tmp_path):
    folder = clinics_on("tcp://127.0.0.1:9", tmp_path)
    job = msgspec.structs.replace(job_of(folder), kind=EVALUATE, model="m")
    with pytest.raises(PolicyError, match="a job that is not a training"):
        open_table(load_party(folder / "north" / "party.toml"), job)


def test_a_cluster_that_does_not_answer_is_named_only_to_the_party(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "_CONNECT_SECONDS", 1)
    folder = clinics_on("tcp://127.0.0.1:9", tmp_path)
    with pytest.raises(TableError, match="cluster of this party's table does not answer") as told:
        open_table(load_party(folder / "north" / "party.toml"), job_of(folder))
    assert "127.0.0.1" not in told.value.public
    assert "127.0.0.1:9" in told.value.local


def test_a_cluster_without_workers_is_refused(source, monkeypatch):
    monkeypatch.setattr(workers, "PATIENCE", 0.1)
    with (
        LocalCluster(**EMPTY) as empty,
        pytest.raises(TableError, match="has no workers"),
    ):
        on_cluster(empty, source, CLASSES)


def test_workers_with_another_version_are_refused(cluster, source, monkeypatch):
    monkeypatch.setattr(workers, "__version__", "9.9")
    with pytest.raises(
        TableError, match="cluster has another version of spinney than the party"
    ) as told:
        on_cluster(cluster, source, CLASSES)
    assert f"has {__version__}; the party has 9.9" in told.value.local


def test_without_the_extra_its_command_is_named(monkeypatch, source):
    real = importlib.import_module

    def without(name, *rest):
        if name == "distributed":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(
        MissingExtraError, match=r"A table on a cluster .* pip install 'spinney-trees\[cluster\]'"
    ):
        SpreadTable.open(ClusterAddress("tcp://127.0.0.1:9"), ParquetTable.of(source), CLASSES)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("tcp://10.0.0.5:8786", "is on another machine and not encrypted"),
        ("tcp://cluster.example.org:8786", "is on another machine and not encrypted"),
        ("tls://cluster.example.org:8786", "needs cluster_tls, the folder with ca.pem"),
        ("127.0.0.1:8786", "must be the address of a Dask scheduler"),
        ("tcp://127.0.0.1", "must be the address of a Dask scheduler"),
        ("tcp://127.0.0.1:port", "must be the address of a Dask scheduler"),
    ],
)
def test_an_address_that_anybody_could_answer_is_refused(address, words):
    with pytest.raises(SettingError, match=words):
        ClusterAddress(address)


def test_certificates_must_all_be_there(tmp_path):
    (tmp_path / "ca.pem").write_text("")
    with pytest.raises(SettingError, match=r"has no cert\.pem"):
        ClusterAddress("tls://cluster.example.org:8786", tmp_path)


def test_certificates_for_a_connection_without_any_are_refused(tmp_path):
    with pytest.raises(SettingError, match=r"'tcp:.*' uses none"):
        ClusterAddress("tcp://127.0.0.1:8786", tmp_path)


def write_certificates(folder, security):
    """Write what cluster_tls names."""
    folder.mkdir()
    (folder / "ca.pem").write_text(security.tls_ca_file)
    (folder / "cert.pem").write_text(security.tls_client_cert)
    (folder / "key.pem").write_text(security.tls_client_key)
    return folder


def test_only_a_cluster_of_the_own_authority_is_spoken_to(source, tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "PATIENCE", 0.1)
    monkeypatch.setattr(workers, "_CONNECT_SECONDS", 2)
    own, foreign = Security.temporary(), Security.temporary()
    table = ParquetTable.of(source)
    with LocalCluster(**EMPTY, security=own) as cluster:
        address = cluster.scheduler_address
        assert address.startswith("tls://")
        where = ClusterAddress(address, write_certificates(tmp_path / "own", own))
        with pytest.raises(TableError, match="has no workers"):  # it was spoken to
            SpreadTable.open(where, table, CLASSES)
        where = ClusterAddress(address, write_certificates(tmp_path / "foreign", foreign))
        with pytest.raises(TableError, match=r"does not answer\..*its certificates"):
            SpreadTable.open(where, table, CLASSES)


def test_cluster_tls_without_a_cluster_is_refused(tmp_path):
    folder = clinics_on("", tmp_path, tls='cluster_tls = "tls"\n')
    with pytest.raises(SettingError, match="the table names no cluster"):
        load_party(folder / "north" / "party.toml")


def test_a_simulation_has_no_cluster(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text(
        '[job]\nname = "q"\n[schema]\nlabel = "y"\n[table]\nsource = "parquet"\n'
        'path = "rows.parquet"\ncluster = "tcp://127.0.0.1:9"\n'
    )
    with pytest.raises(SettingError, match="A simulation deals out and compares tables"):
        tables_of(load_job(path), needs_ranges=False)
