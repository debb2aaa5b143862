"""Randomised labels live as long as their records: what is remembered, refused and erased."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from spinney import ExtraTreesClassifier
from spinney.privacy.budget import Unit
from spinney.privacy.label_memory import LabelMemory
from spinney.privacy.ledger import Ledger
from spinney.protocols import extra_trees
from spinney.protocols.extra_trees.labels import LabelPlan, open_memory
from spinney.protocols.settings import PrivacySettings
from spinney.tables.readers import Source, read_table
from spinney.tables.records import records_of
from spinney.tables.schema import Column, Label, Schema
from spinney.transport.in_process import InProcess

N = 60
COLUMNS = tuple(Column(name, "number", range=(-6.0, 6.0)) for name in ("a", "b"))
SCHEMA = Schema(COLUMNS, Label("sick", "class", ("no", "yes")))
RANDOM = np.random.RandomState(0)
X = RANDOM.standard_normal((N, 2))
Y = np.where(X[:, 0] > 0, "yes", "no")


@pytest.fixture
def table_of(tmp_path):
    """Rows in a file, told apart by a column of it."""

    def read(rows=slice(None), sick=Y, schema=SCHEMA):
        frame = pd.DataFrame({"key": np.arange(N), "a": X[:, 0], "b": X[:, 1], "sick": sick})
        frame["well"] = np.where(frame["sick"] == "yes", "no", "yes")
        path = tmp_path / "rows.csv"
        frame.iloc[rows].to_csv(path, index=False)
        return read_table(Source("csv", path=path, row_id="key"), schema)

    return read


def trained(table, memory, ledger, job="one"):
    settings = extra_trees.Settings(
        task="classification",
        n_estimators=3,
        max_depth=3,
        bootstrap=False,
        binning="magnitudes",
        thresholds="public",
        privacy=PrivacySettings(job=job, mechanism="randomised_labels", epsilon="2"),
    )
    party = extra_trees.Party(table, ledger=ledger, data="rows", memory=memory)
    return extra_trees.train(InProcess({"north": party}), settings).model


def scheme_of(schema):
    privacy = PrivacySettings(job="one", mechanism="randomised_labels", epsilon="2")
    return LabelPlan(schema, privacy, 1).scheme


def test_a_changed_label_keeps_its_first_answer_where_rows_have_ids(table_of, tmp_path, caplog):
    table, ledger = table_of(), Ledger.in_memory("north")
    memory = open_memory(tmp_path, "north", table)
    before = trained(table, memory, ledger)
    flipped = np.where(np.arange(N) == 5, np.where(Y == "yes", "no", "yes"), Y)
    after = trained(table_of(sick=flipped), memory, ledger, "two")
    assert after.to_bytes() == before.to_bytes()
    assert "The labels of 1 records have changed since they were randomised" in caplog.text


def test_answers_are_erased_when_their_records_leave_the_table(table_of, tmp_path):
    ledger, scheme = Ledger.in_memory("north"), scheme_of(SCHEMA)
    table = table_of()
    memory = open_memory(tmp_path, "north", table)
    trained(table, memory, ledger)
    assert memory.n_known(scheme) == N
    answers = memory._answers[scheme]
    left = table_of(slice(0, N - 10))
    gone = np.setdiff1d(answers.ids, records_of(left).ids)
    open_memory(tmp_path, "north", left)
    again = LabelMemory.open(tmp_path / "north.labels", tmp_path / "north.key")  # what is on disk
    assert again.n_known(scheme) == N - 10
    assert again.erasures == 1
    assert not np.isin(gone, again._answers[scheme].ids).any()
    stayed = ~np.isin(answers.ids, gone)
    assert np.array_equal(again._answers[scheme].words, answers.words[stayed])


def test_a_record_that_comes_back_is_drawn_and_paid_for_once_more(table_of, tmp_path):
    ledger = Ledger.in_memory("north")
    for job, rows in (("one", slice(None)), ("two", slice(0, N - 1)), ("three", slice(None))):
        table = table_of(rows)
        trained(table, open_memory(tmp_path, "north", table), ledger, job)
    spent = [ledger.spent(job, Unit.LABEL) for job in ("one", "two", "three")]
    assert spent == [2, 0, 2]


def test_another_label_of_the_same_records_has_answers_of_its_own(table_of, tmp_path):
    well = Schema(COLUMNS, Label("well", "class", ("no", "yes")))
    ledger, table = Ledger.in_memory("north"), table_of()
    memory = open_memory(tmp_path, "north", table)
    trained(table, memory, ledger)
    trained(table_of(schema=well), memory, ledger, "two")
    assert [memory.n_known(scheme_of(schema)) for schema in (SCHEMA, well)] == [N, N]
    assert ledger.spent("two", Unit.LABEL) == 2
    open_memory(tmp_path, "north", table_of(slice(0, 1)))  # and all of them are erased
    memory = LabelMemory.open(tmp_path / "north.labels", tmp_path / "north.key")
    assert [memory.n_known(scheme_of(schema)) for schema in (SCHEMA, well)] == [1, 1]


def test_a_fit_without_a_row_erases_its_answers(tmp_path):
    facts: dict[str, Any] = {"n_estimators": 2, "max_depth": 2, "schema": SCHEMA}
    forest = ExtraTreesClassifier(**facts, label_privacy="local", label_memory=tmp_path)
    site = np.where(np.arange(N) < 30, "north.1", "north.2")  # each has a file of its own
    forest.fit(X, Y, party=site)
    forest.fit(X[1:], Y[1:], party=site[1:])
    scheme = scheme_of(SCHEMA)
    known = {
        name: LabelMemory.open(tmp_path / f"{name}.labels", tmp_path / f"{name}.key")
        for name in ("north.1", "north.2")
    }
    assert {name: memory.n_known(scheme) for name, memory in known.items()} == {
        "north.1": 29,
        "north.2": 30,
    }
