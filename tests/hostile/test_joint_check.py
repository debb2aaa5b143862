"""`job check` against who asks in many words, and against parties that lie to read the answer."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from spinney.errors import PolicyError
from spinney.protocols.table_fit import MOST_LAYOUTS, N_BINS, FitAsk, Party, PlacesAsk, Told
from spinney.tables.describe import describe
from spinney.tables.frames import columns_of, encode_target
from spinney.tables.schema import Column
from spinney.tables.table import MemoryTable

SECRET = bytes(range(32))


def table_of(frame, label, ids=None):
    schema, _ = describe(frame, label, label_kind="class")
    return MemoryTable(
        schema, columns_of(frame, schema), encode_target(label, schema.label), ids=ids
    )


def told_by(table, edges=np.inf):
    """Return the first column's counts, as they leave."""
    n_columns = len(table.schema.columns)
    ask = FitAsk(table.schema.digest(), np.full((n_columns, N_BINS - 1), edges, np.float32))
    return Party(table, SECRET).answer(ask).counts.reshape(n_columns, -1)[0]


@pytest.fixture
def visits():
    random = np.random.default_rng(0)
    others = {f"x{place}": random.normal(size=200) for place in range(6)}
    ward = random.choice(["eye", "ear", "lung"], 200, p=[0.9, 0.07, 0.03])
    return pd.DataFrame({"ward": ward, **others}), np.where(random.random(200) < 0.3, "yes", "no")


def test_rounding_is_not_averaged_away_by_asking_about_other_columns_too(visits):
    """Fifty schemas gave fifty draws, whose mean was the exact count, in a first version."""
    X, y = visits
    asked = [X.iloc[:, :n] for n in range(1, 8)]
    told = [told_by(table_of(frame, y)) for frame in asked]
    assert all((one == told[0]).all() for one in told[1:])
    exact = pd.crosstab(X["ward"], y).to_numpy()
    assert (told[0][: exact.size] != exact.ravel()).any()  # there is something to average


def test_rounding_is_not_averaged_away_by_other_orders_of_categories_or_bins(visits):
    X, y = visits
    told = []
    for order in (["eye", "ear", "lung"], ["lung", "eye", "ear"]):
        column = Column("ward", "category", categories=tuple(order))
        schema = replace(table_of(X[["ward"]], y).schema, columns=(column,))
        target = encode_target(y, schema.label)
        counts = told_by(MemoryTable(schema, columns_of(X[["ward"]], schema), target))
        told.append(dict(zip(order, counts.reshape(-1, 2).tolist(), strict=False)))
    assert told[0] == told[1]
    numbers = table_of(X[["x0"]], y)
    low = float(X["x0"].min())
    assert (told_by(numbers, low - 1)[-4:] == told_by(numbers, low - 2)[-4:]).all()


def test_leading_bits_are_rounded_alike_beside_any_column(visits):
    X, y = visits

    def places(frame):
        table = table_of(frame, y)
        ask = PlacesAsk(table.schema.digest(), np.zeros((0, 0), np.float32))
        return Party(table, SECRET).answer(ask).counts[:4096]

    assert (places(X[["x0"]]) == places(X[["x0", "x3", "ward"]])).all()
    assert set(places(X[["x0"]]).tolist()) <= {0, 5, 10, 15, 20, 25, 30}


def test_what_a_party_says_of_itself_follows_from_its_rounded_counts(visits, monkeypatch):
    """With made-up sums of all others, a distance was one exact share in a first version."""
    X, y = visits
    table = table_of(X[["ward"]], y)
    ask = FitAsk(table.schema.digest(), np.full((1, N_BINS - 1), np.inf, np.float32))
    party = Party(table, SECRET)
    rounded = party.answer(ask).counts
    found = set()
    for counted in (party._exact(ask)[0], rounded.reshape(1, -1, 2)):
        marks = party._exact(ask)[1]
        monkeypatch.setattr(party, "_exact", lambda _, c=counted, m=marks: (c, m))
        for part in range(3):
            lie = np.zeros_like(rounded)
            lie[2 * part : 2 * part + 2] = 10**6
            found.add((part, party.compare(Told(ask, rounded + lie, np.zeros(0, np.int64)), 3)))
    assert len(found) == 3  # the same three answers, from the exact and from the rounded counts
    assert all(said for _, said in found)


class Remembering:
    def __init__(self):
        self.told = {}

    def settle(self, run, what, digest):
        return self.told.setdefault((run, what), digest)


def test_a_party_divides_its_rows_in_a_few_ways_only():
    """Differences of overlapping bins, each rounded anew, tell a count if there are hundreds."""
    random = np.random.default_rng(2)
    pay = np.round(random.normal(3000, 800, 600))
    label = np.where(random.random(600) < 0.3, "yes", "no")
    table = table_of(pd.DataFrame({"pay": pay}), label)
    memory = Remembering()

    def asked(party, *edges):
        laid = np.full((1, N_BINS - 1), np.inf, np.float32)
        laid[0, : len(edges)] = edges
        return party.answer(FitAsk(table.schema.digest(), laid)).counts.reshape(-1, 2)

    def guessed(party, lows):
        """Return about how many rows with the class "yes" have a pay above 3,000, to 3,050."""
        found = [asked(party, low, 3050)[1] - asked(party, low, 3000)[1] for low in lows]
        return np.mean(found, axis=0)[1]

    exact = int(((pay > 3000) & (pay <= 3050) & (label == "yes")).sum())
    lows = np.unique(pay)[100:300]
    forgetful = Party(table, SECRET)
    assert abs(guessed(forgetful, lows) - exact) < 1  # the attack works where nothing is remembered
    party = Party(table, SECRET, memory=memory, data="visits")
    for low in lows[: MOST_LAYOUTS // 2]:
        asked(party, low, 3050)
        asked(party, low, 3000)
    with pytest.raises(PolicyError, match=f"has divided its rows into bins in {MOST_LAYOUTS} ways"):
        asked(party, lows[-1], 3050)
    asked(party, lows[0], 3000)  # what was asked before is answered again
    party.answer(PlacesAsk(table.schema.digest(), np.zeros((0, 0), np.float32)))
