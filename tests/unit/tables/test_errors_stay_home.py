"""No cell value, row id, row count or path is ever in the public part of an error."""

import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pytest

from spinney.errors import SpinneyError
from spinney.tables.describe import describe
from spinney.tables.frames import columns_of, encode_target
from spinney.tables.readers import Source, findings_of_source, read_table
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MemoryTable, hashes_of_ids

CANARY = "canary"
NUMBER = 867530.9
SCHEMA = Schema(
    (Column("age", "number"), Column("ward", "category", categories=("eye",))),
    Label("ill", "class", ("no", "yes")),
)
GOOD = {"age": [1.0], "ward": ["eye"]}
NUMERIC = Schema(
    (Column("grade", "category", categories=(1, 2)), Column("smokes", "boolean")),
    Label("y", "number"),
)


def csv_source(folder, cells, query=None):
    path = folder / f"{CANARY}.csv"
    path.write_text(f"age,ward,ill\n1,eye,yes\n{cells}\n")
    return Source("csv", path=str(path), query=query)


def sqlite_source(folder, query):
    path = folder / f"{CANARY}.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("create table t (age, ward, ill)")
        database.execute("insert into t values (?, 'eye', 'no')", (CANARY,))
        database.commit()
    return Source("sql", url=f"sqlite:///{path}", query=query)


def read_csv(cells, query=None):
    return lambda folder: read_table(csv_source(folder, cells, query), SCHEMA)


def read_frame(change):
    return lambda _: columns_of(pd.DataFrame(GOOD | change), SCHEMA)


REFUSED = {
    "text for a number": read_frame({"age": [CANARY]}),
    "mixed for a number": lambda _: columns_of(
        pd.DataFrame({"age": [CANARY, 1.0], "ward": ["eye", "eye"]}), SCHEMA
    ),
    "unknown category": read_frame({"ward": [CANARY]}),
    "number for text": read_frame({"ward": [NUMBER]}),
    "a date": read_frame({"age": [pd.Timestamp("1867-05-30")]}),
    "an object": read_frame({"age": [{CANARY: 1}]}),
    "a huge number": read_frame({"age": [float(f"{NUMBER}e200")]}),
    "unknown number": lambda _: columns_of(np.array([[NUMBER, 1]]), NUMERIC),
    "not a boolean": lambda _: columns_of(np.array([[1, NUMBER]]), NUMERIC),
    "unknown class": lambda _: encode_target(["no", CANARY], SCHEMA.label),
    "text for a target": lambda _: encode_target([CANARY], NUMERIC.label),
    "infinite target": lambda _: encode_target([NUMBER, np.inf], NUMERIC.label),
    "missing target": lambda _: encode_target([CANARY, None], SCHEMA.label),
    "one class": lambda _: describe([[1]], [CANARY], label_kind="class"),
    "text unlisted": lambda _: describe(
        [[CANARY]], [1], label_kind="number", categorical_features=None
    ),
    "missing id": lambda _: hashes_of_ids([CANARY, None]),
    "lengths": lambda _: MemoryTable(
        SCHEMA, columns_of(pd.DataFrame(GOOD), SCHEMA), np.zeros(8675309, dtype=np.int8)
    ),
    "csv number": read_csv(f"{CANARY},eye,no"),
    "csv category": read_csv(f"1,{CANARY},no"),
    "csv class": read_csv(f"1,eye,{CANARY}"),
    "csv ragged": read_csv(f"{CANARY},eye"),
    "csv quote": read_csv(f'1,"{CANARY},no'),
    "csv query": read_csv("1,eye,no", f"select {CANARY} from source"),
    "csv cast": read_csv(f"{CANARY},eye,no", "select age::int as age, ward, ill from source"),
    "csv missing": lambda folder: read_table(
        Source("csv", path=str(folder / f"{CANARY}.csv")), SCHEMA
    ),
    "csv described": lambda folder: findings_of_source(
        csv_source(folder, f"{CANARY},eye"), "ill", "class"
    ),
    "sqlite number": lambda folder: read_table(sqlite_source(folder, "select * from t"), SCHEMA),
    "sqlite query": lambda folder: read_table(sqlite_source(folder, f"select {CANARY}"), SCHEMA),
}


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED.keys())
def test_no_cell_value_is_in_the_public_part(refused, tmp_path):
    with pytest.raises(SpinneyError) as caught:
        refused(tmp_path)
    for secret in (CANARY, "8675309", "867530.9", "1867", str(tmp_path)):
        assert secret not in caught.value.public
    assert caught.value.public.endswith(".")


def test_the_party_itself_is_told_more(tmp_path):
    for name in ("unknown category", "unknown class", "csv number", "csv missing", "sqlite query"):
        with pytest.raises(SpinneyError) as caught:
            REFUSED[name](tmp_path)
        assert CANARY in caught.value.local
