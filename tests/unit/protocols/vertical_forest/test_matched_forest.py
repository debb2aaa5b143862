"""A vertical job from matching to its forest: what is told to whom, what a party agrees to."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spinney.errors import ProtocolError, SchemaError, SettingError, TableError
from spinney.protocols import vertical_forest
from spinney.protocols.columns.matching_messages import CommonAsk
from spinney.protocols.columns.messages import FinishAsk, GainAsk
from spinney.protocols.columns.model import PART, PartialModel, join_model
from spinney.protocols.columns.prediction import PartAsk
from spinney.protocols.columns.seat import seats_in_one_process
from spinney.protocols.settings import ForestSettings
from spinney.protocols.vertical_forest import matched as matched_forest
from spinney.protocols.vertical_forest.messages import LabelsAsk, SealAsk, StartAsk
from spinney.protocols.vertical_forest.settings import MatchedSettings
from spinney.tables.columns import VectorColumns
from spinney.tables.holding import Holding
from spinney.tables.schema import Column, Label
from spinney.transport import codec
from spinney.transport.in_process import InProcess

N = 90
CLASSES = ("canary-well", "canary-ill")
CANARY = 123456.875
IDS = np.array([f"citizen-{1000 + 7 * row}" for row in range(N)])
SHOP_ROWS = np.random.RandomState(1).permutation(N)[: N - 12]


def table():
    random = np.random.RandomState(0)
    X = random.standard_normal((3, N)).astype(np.float32)
    y = (X[0] + X[1] * X[2] + 0.3 * random.standard_normal(N) > 0).astype(np.int32)
    X[:, 4] = CANARY
    return X, y


def holdings(label: Label | None = None) -> dict[str, Holding]:
    """Return a bank with the labels and one column, and a shop with other rows in another order."""
    X, y = table()
    label = label or Label("canary-label", "class", CLASSES)
    target = y if label.kind == "class" else y * 10.0 + X[0]
    own = VectorColumns((X[0],))
    bank = Holding(N, (Column("canary-age", "number"),), own, label, target, list(IDS))
    shop = Holding(
        SHOP_ROWS.size,
        (Column("canary-visits", "number"), Column("canary-basket", "number")),
        VectorColumns((X[1][SHOP_ROWS], X[2][SHOP_ROWS])),
        ids=list(IDS[SHOP_ROWS]),
    )
    return {"bank": bank, "shop": shop}


def job(matching: Any = "keyed_hash", **changes: Any) -> MatchedSettings:
    own = {key: changes.pop(key) for key in ("held_out", "join_parts") if key in changes}
    forest = ForestSettings(task="classification", n_estimators=2, max_depth=3, seed=5)
    given: dict[str, Any] = {"forest": forest, "scheme": "paillier"} | changes
    vertical = vertical_forest.Settings(**given)
    return MatchedSettings(vertical=vertical, label_party="bank", matching=matching, **own)


class Overheard:
    """A party all of whose messages are noted, as bytes."""

    def __init__(self, side, notes):
        self.side, self.notes = side, notes

    def answer(self, ask):
        reply = self.side.answer(ask)
        self.notes += [codec.encode(ask), codec.encode(reply)]
        return reply


SEATS = seats_in_one_process(("bank", "shop"), "bank")


def sides_of(settings, folder=None, held=None):
    return {
        name: matched_forest.Party(
            holding,
            settings,
            name,
            folder=None if folder is None else folder / name,
            n_jobs=1,
            seat=SEATS[name],
        )
        for name, holding in (held or holdings()).items()
    }


def overheard(settings):
    notes: list[bytes] = []
    sides = sides_of(settings)
    heard = {name: Overheard(side, notes) for name, side in sides.items()}
    matched_forest.train(InProcess(heard, through_codec=True), settings)
    return sides, notes


def in_any(needle: bytes, notes: list[bytes]) -> bool:
    return any(needle in note for note in notes)


# --- what is told --------------------------------------------------------------------------------


@pytest.mark.parametrize("matching", ["psi", "keyed_hash"])
@pytest.mark.parametrize("labels", ["shared", "encrypted"])
def test_no_id_name_or_cell_is_in_any_message(matching, labels):
    _, notes = overheard(job(matching, labels=labels))
    assert len(notes) > 20
    for text in (*IDS, *CLASSES, "canary-label", "canary-age", "canary-visits", "canary-basket"):
        assert not in_any(str(text).encode(), notes)
    for width in (np.float32, np.float64):
        for order in ("<", ">"):
            cell = np.array(CANARY, np.dtype(width).newbyteorder(order)).tobytes()
            assert not in_any(cell, notes)


def test_labels_are_in_messages_only_where_they_are_shared():
    for labels in ("shared", "encrypted"):
        sides, notes = overheard(job(labels=labels))
        target = sides["bank"].training.target
        assert target is not None
        as_sent = target.astype(np.uint8).tobytes()
        as_bits = [np.packbits(target, bitorder=order).tobytes()[:8] for order in ("big", "little")]
        assert in_any(as_sent, notes) == (labels == "shared")
        if labels == "encrypted":
            assert not any(in_any(bits, notes) for bits in as_bits)


def test_each_party_moves_its_own_rows_into_one_common_order():
    for held_out in (0.0, 0.25):
        settings = job(held_out=held_out)
        sides, _ = overheard(settings)
        bank, shop = sides["bank"], sides["shop"]
        assert np.array_equal(IDS[bank.rows], IDS[SHOP_ROWS][shop.rows])
        assert set(IDS[bank.rows]) == set(IDS[SHOP_ROWS])
        n_held_out = round(held_out * SHOP_ROWS.size)
        assert bank.held_out.n_rows == shop.held_out.n_rows == n_held_out
        assert bank.training.n_rows == SHOP_ROWS.size - n_held_out


@pytest.mark.parametrize("labels", ["shared", "encrypted"])
def test_the_forest_is_that_of_the_common_rows_in_one_place(labels):
    sides, _ = overheard(job(labels=labels))
    parts = {name: side.finished_model for name, side in sides.items()}
    held = [side.training for side in sides.values()]
    values = [one.features.values(slice(None)) for one in held if one.features is not None]
    columns = tuple(column for one in held for column in one.columns)
    pooled = Holding(
        held[0].n_rows, columns, VectorColumns(tuple(np.concatenate(values))),
        held[0].label, held[0].target,
    )  # fmt: skip
    alone = vertical_forest.Party(pooled, n_jobs=1)
    vertical_forest.train(InProcess({"all": alone}), job().vertical)
    whole = join_model({"all": alone.finished_model}, ("all",))
    assert join_model(parts, tuple(parts)).to_bytes() == whole.to_bytes()


def test_the_coordinator_gets_the_forest_only_if_the_job_says_so():
    settings = job(join_parts=True)
    sides = sides_of(settings)
    joined = matched_forest.train(InProcess(sides), settings).model
    parts = {name: side.finished_model for name, side in sides.items()}
    assert joined is not None
    assert joined.consent == ("bank", "shop")
    bare = replace(joined, consent=())
    assert bare.to_bytes() == join_model(parts, tuple(parts)).to_bytes()
    plain = sides_of(job())
    assert matched_forest.train(InProcess(plain), job()).model is None
    with pytest.raises(ProtocolError, match="agreed to: different join_parts"):
        plain["bank"].answer(PartAsk())


# --- what a party agrees to ----------------------------------------------------------------------


def asked_of(settings, kind):
    """Return a question of a job as its coordinator puts it."""
    found: list[Any] = []

    class Noting:
        def __init__(self, side):
            self.side = side

        def answer(self, ask):
            found.append(ask)
            return self.side.answer(ask)

    matched_forest.train(
        InProcess({name: Noting(side) for name, side in sides_of(settings).items()}), settings
    )
    return next(ask for ask in found if isinstance(ask, kind))


def test_labels_that_are_to_be_encrypted_are_given_to_nobody():
    shown = asked_of(job(), LabelsAsk)
    hidden = sides_of(job(matching=None, labels="encrypted"))["bank"]
    with pytest.raises(ProtocolError, match="agreed to: different labels"):
        hidden.answer(shown)
    with pytest.raises(ProtocolError, match="has encrypted labels; they are not shared"):
        hidden.answer(LabelsAsk(replace(shown.job, labels="encrypted")))


@pytest.mark.parametrize(
    ("scheme", "key_bits", "what"), [("auto", 3072, "scheme"), ("paillier", 2048, "key_bits")]
)
def test_labels_are_encrypted_with_the_agreed_key_only(scheme, key_bits, what):
    shown = asked_of(job(), LabelsAsk)
    hidden = sides_of(job(matching=None, labels="encrypted", key_bits=3072))["bank"]
    ask = SealAsk(replace(shown.job, labels="encrypted"), scheme, key_bits)
    with pytest.raises(ProtocolError, match=f"agreed to: different {what}"):
        hidden.answer(ask)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"label_epsilon": "1", "name": "other"}, "label_epsilon"),
        ({"name": "other"}, "name"),
        ({"settings": ForestSettings(task="classification", min_samples_leaf=1)}, "settings"),
    ],
    ids=["epsilon", "name", "settings"],
)
def test_a_party_answers_for_the_job_it_agreed_to_only(changes, what):
    ask = asked_of(job(), StartAsk)
    side = sides_of(job(matching=None))["bank"]
    with pytest.raises(ProtocolError, match=f"agreed to: different {what}"):
        side.answer(StartAsk(replace(ask.job, **changes), ask.target, (), (), ()))


def test_common_rows_are_taken_once():
    settings = job()
    sides = sides_of(settings)
    first = asked_of(settings, CommonAsk)
    matched_forest.train(InProcess(sides), settings)
    with pytest.raises(ProtocolError, match="Some matched rows are not rows of this party"):
        sides["bank"].answer(first)  # tags by another run's key
    side = sides["bank"]
    fewer = side._matched()._ids.tags(side._matched()._known_key())[:5]
    with pytest.raises(ProtocolError, match="already received different common rows"):
        side.answer(CommonAsk(fewer))
    with pytest.raises(ProtocolError, match="list of common rows sent for party 'bank' is not"):
        sides["shop"].answer(CommonAsk(fewer))


def test_who_has_the_label_is_settled_by_the_job():
    held = holdings()
    both = held | {"shop": replace(held["shop"], label=held["bank"].label,
                                   target=np.zeros(SHOP_ROWS.size, np.int32))}  # fmt: skip
    with pytest.raises(SchemaError, match="'shop' has a label column, but label_party is 'bank'"):
        sides_of(job(), held=both)
    none = held | {"bank": replace(held["bank"], label=None, target=None)}
    with pytest.raises(SchemaError, match="label_party is 'bank', but its table names no label"):
        sides_of(job(), held=none)


def test_rows_without_ids_or_before_matching_are_refused():
    settings = job()
    with pytest.raises(ProtocolError, match="have not been matched"):
        sides_of(settings)["shop"].answer(GainAsk("", 0, (), None))  # type: ignore[arg-type]
    held = {name: replace(one, ids=None) for name, one in holdings().items()}
    with pytest.raises(TableError, match="names no row id"):
        matched_forest.train(InProcess(sides_of(settings, held=held)), settings)
    with pytest.raises(ProtocolError, match="does not match rows"):
        sides_of(job(matching=None))["shop"].answer(CommonAsk(np.zeros((0, 16), np.uint8)))
    with pytest.raises(SettingError, match="matching must be 'psi' or 'keyed_hash'; got 'md5'"):
        job(matching="md5")
    with pytest.raises(SettingError, match="held_out must be"):
        job(held_out=1.0)


# --- stopped in the middle -----------------------------------------------------------------------


@pytest.mark.parametrize("when", [GainAsk, FinishAsk])
@pytest.mark.parametrize("name", ["bank", "shop"])
def test_a_party_that_was_stopped_knows_its_common_rows(when, name, tmp_path):
    """A new object over the same folder stands for a process that was started again."""
    settings = job()
    stopped: list[Any] = []
    sides = sides_of(settings, tmp_path)

    class Stopping:
        def answer(self, ask):
            if isinstance(ask, when) and getattr(ask, "depth", 2) > 1 and not stopped:
                stopped.append(ask)
                sides[name] = sides_of(settings, tmp_path)[name]
            return sides[name].answer(ask)

    matched_forest.train(InProcess(sides | {name: Stopping()}), settings)
    assert stopped
    parts = {one: side.finished_model for one, side in sides.items()}
    saved = {one: PartialModel.load(tmp_path / one / PART) for one in parts}
    assert {n: p.to_bytes() for n, p in saved.items()} == {
        n: p.to_bytes() for n, p in parts.items()
    }
    assert join_model(parts, tuple(parts)).forest.n_trees == 2
