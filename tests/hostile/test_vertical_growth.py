"""A coordinator that invents the levels, jobs and questions of a forest over columns."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spinney.errors import ProtocolError
from spinney.protocols import vertical_forest
from spinney.protocols.columns.encrypted_messages import ChooseAsk, SumsAsk
from spinney.protocols.columns.growing import Offered
from spinney.protocols.columns.level_seal import LevelSeal, join_seals
from spinney.protocols.columns.matching_party import MatchingLimit
from spinney.protocols.columns.messages import FinishAsk, GainAsk, SplitAsk
from spinney.protocols.columns.predicting import PredictingWithPart
from spinney.protocols.columns.prediction import (
    JudgeAsk,
    LeavesAsk,
    Named,
    ValuesAsk,
)
from spinney.protocols.columns.seat import seats_in_one_process
from spinney.protocols.settings import ForestSettings
from spinney.protocols.vertical_forest import matched as matched_forest
from spinney.protocols.vertical_forest.job import Job, public_settings
from spinney.protocols.vertical_forest.messages import LabelsAsk, SealAsk, StartAsk
from spinney.protocols.vertical_forest.settings import MatchedSettings
from spinney.tables.columns import VectorColumns
from spinney.tables.holding import Holding
from spinney.tables.schema import Column, Label
from spinney.transport.in_process import InProcess
from spinney.trees.partition import Partition

N = 256
IDS = tuple(range(N))
NAMES = ("bank", "shop", "city")
INVENTED = "of the trees is not what the parties cut"
labels = pytest.mark.parametrize("labels", ["shared", "encrypted"])


def settings(labels="shared", **forest: Any) -> MatchedSettings:
    how = {"n_estimators": 2, "max_depth": 4, "max_features": None, "seed": 1} | forest
    vertical = vertical_forest.Settings(
        forest=ForestSettings(task="classification", **how), labels=labels, scheme="paillier"
    )
    return MatchedSettings(vertical=vertical, label_party="bank", matching="keyed_hash")


def holdings():
    random = np.random.RandomState(0)
    X = random.standard_normal((6, N)).astype(np.float32)
    y = (X.sum(axis=0) + random.standard_normal(N) > 0).astype(np.int32)
    found = {}
    for place, name in enumerate(NAMES):
        columns = tuple(Column(f"{name} {one}", "number") for one in range(2))
        cells = VectorColumns(tuple(X[2 * place : 2 * place + 2]))
        label = Label("left", "class", ("no", "yes")) if name == "bank" else None
        found[name] = Holding(N, columns, cells, label, y if label else None, IDS)
    return found


def parties(how, folder=None):
    seats = seats_in_one_process(NAMES, "bank")
    return {
        name: matched_forest.Party(
            held, how, name, n_jobs=1, seat=seats[name], folder=folder and folder / name
        )
        for name, held in holdings().items()
    }


def said(party, ask):
    try:
        party.answer(ask)
    except ProtocolError as error:
        return str(error)
    return ""


class Cheated:
    """A party that is asked something else first, whenever a kind of question comes."""

    def __init__(self, honest, kinds, otherwise):
        self.honest, self.kinds, self.otherwise = honest, kinds, otherwise
        self.words: list[str] = []

    def answer(self, ask):
        other = self.otherwise(ask) if isinstance(ask, self.kinds) else None
        if other is not None:
            self.words.append(said(self.honest, other))
        return self.honest.answer(ask)


def grown(sides, how):
    matched_forest.train(InProcess(sides), how)


# --- invented levels -----------------------------------------------------------------------------


def moved_row(level):
    sides = level.sides.copy()
    sides[0] ^= 1  # one row of the first node goes to the other side
    return Partition(level.split, level.child_open, sides, level.seal)


def other_children(level):
    return Partition(level.split, ~level.child_open, level.sides, level.seal)


def unsealed(level):
    return Partition(level.split, level.child_open, level.sides)


def fewer(level):
    """Leave out one node, and its sides with it."""
    first = np.flatnonzero(level.split)[0]
    split = level.split.copy()
    split[first] = False
    n_bytes = level.sides.size // int(level.split.sum())
    return Partition(split, level.child_open[2:], level.sides[n_bytes:], level.seal)


@labels
@pytest.mark.parametrize("invent", [moved_row, other_children, unsealed, fewer])
@pytest.mark.parametrize("name", ["bank", "shop"])
def test_rows_are_moved_only_as_the_parties_cut(name, invent, labels):
    """Before: any rows in any node; 256 of 256 rows alone in theirs, with min_samples_leaf=20."""

    def otherwise(ask):
        if getattr(ask, "depth", 0) == 1:
            return replace(ask, newest=(invent(ask.newest[0]),))
        return None

    how = settings(labels)
    sides: dict[str, Any] = parties(how)
    sides[name] = Cheated(sides[name], (GainAsk, SumsAsk, ChooseAsk), otherwise)
    grown(sides, how)
    assert len(sides[name].words) == 1
    expected = (INVENTED, "does not fit its open nodes", "leaves out cuts")
    assert any(one in sides[name].words[0] for one in expected)
    if invent is not fewer:
        assert INVENTED in sides[name].words[0]


@labels
def test_a_party_that_starts_again_is_not_given_other_levels(labels):
    """A coordinator can say that anybody was stopped."""

    def otherwise(ask):
        if ask.depth != 3:
            return
        levels = [level for level, _ in city.honest.forest.growing.levels]
        for place, invent in ((0, moved_row), (1, other_children)):
            other = [*levels, *ask.newest]
            other[place] = invent(other[place])
            start = replace(begun[0], levels=tuple(other), n_own=(0,) * len(other))
            assert said(city.honest, start)
        every = (*levels, *ask.newest)
        start = replace(begun[0], levels=every, n_own=n_own(city.honest, 3))
        assert not said(city.honest, start)

    def n_own(party, depth):
        job = party.forest.growing.job.digest
        return tuple(party.forest._notebook.cuts(job, at).node.size for at in range(depth))

    begun: list[Any] = []
    how = settings(labels)
    sides: dict[str, Any] = parties(how)
    city = Cheated(sides["city"], (GainAsk, SumsAsk), otherwise)

    class Noting:
        def answer(self, ask):
            if isinstance(ask, StartAsk):
                begun[:] = [ask]
            return city.answer(ask)

    sides["city"] = Noting()
    grown(sides, how)
    assert begun


def test_a_seal_does_not_say_who_cut_a_node():
    """And it has no other order, depth, job or key."""
    random = np.random.RandomState(0)
    sizes = np.array([20, 9, 40, 33])
    n_bytes = (sizes + 7) // 8
    sides = random.randint(0, 256, n_bytes.sum()).astype(np.uint8)
    children = random.random_sample(8) < 0.5
    seal = LevelSeal(b"k" * 32, "job")
    whole = Partition(np.ones(4, np.bool_), children, sides)

    def sealed(groups):
        parts = []
        for own in groups:
            cut = [sides[n_bytes[:u].sum() : n_bytes[: u + 1].sum()] for u in own]
            own_nodes = np.array(own)
            parts.append(seal.of_sides(2, own_nodes, sizes[own_nodes], np.concatenate(cut)))
            flags = children.reshape(-1, 2)[own_nodes].reshape(-1)
            parts.append(seal.of_children(2, 4, own_nodes, flags, whole.turns))
        return join_seals(parts)

    found = {sealed(groups) for groups in ([[0, 1, 2, 3]], [[0, 3], [1, 2]], [[2], [0], [3], [1]])}
    assert len(found) == 1
    whole.seal = np.frombuffer(found.pop(), np.uint8)
    assert seal.fits(2, whole, sizes)
    assert not seal.fits(3, whole, sizes)
    assert not LevelSeal(b"k" * 32, "another").fits(2, whole, sizes)
    assert not LevelSeal(b"l" * 32, "job").fits(2, whole, sizes)


def test_parties_that_were_told_other_levels_do_not_accept_each_other_s_cuts():
    told, otherwise = LevelSeal(b"k" * 32, "job"), LevelSeal(b"k" * 32, "job")
    sizes, cut = np.array([16, 16]), np.array([7, 1, 9, 3], np.uint8)
    first = Partition(np.array([True, False]), np.ones(2, np.bool_), cut[:2])
    other = Partition(np.array([True, True]), np.ones(4, np.bool_), cut)
    both, flags = np.arange(2), other.child_open
    parts = (told.of_sides(1, both, sizes, cut), told.of_children(1, 2, both, flags, other.turns))
    assert join_seals(parts)  # the same at both, as long as both were told the same
    assert otherwise.of_sides(1, both, sizes, cut) == parts[0]
    told.go_on(first)
    otherwise.go_on(other)
    parts = (told.of_sides(1, both, sizes, cut), told.of_children(1, 2, both, flags, other.turns))
    level = Partition(other.split, flags, cut)
    level.seal = np.frombuffer(join_seals(parts), np.uint8)
    assert told.fits(1, level, sizes)
    assert not otherwise.fits(1, level, sizes)


# --- parties in one process, which have no seal: what still holds --------------------------------


def begun_alone(**forest: Any):
    """Return a party without labels that has begun a job, and the job."""
    how = settings(**({"n_estimators": 1, "bootstrap": False} | forest)).vertical.forest
    job = Job(public_settings(how), "shared", N, 2, 1.0, True)
    shop = vertical_forest.Party(holdings()["shop"], n_jobs=1)
    target = holdings()["bank"].target
    assert target is not None
    shop.answer(StartAsk(job, target.astype(np.uint8), (), (), ()))
    return shop, job, target.astype(np.uint8)


def halves(sizes):
    """Return a level that puts the first half of every node's rows to the left."""
    bits = [np.packbits(np.arange(size) < size // 2, bitorder="little") for size in sizes]
    n = len(sizes)
    return Partition(np.ones(n, np.bool_), np.ones(2 * n, np.bool_), np.concatenate(bits))


def offered(n):
    return Offered(np.full(n, 1, np.uint16), np.zeros(n, np.uint16), np.zeros(n, np.uint8))


def test_levels_keep_the_rules_of_the_job():
    """Rows stand in nodes as large as the accepted min_samples_leaf says; before: alone."""
    shop, job, target = begun_alone(min_samples_leaf=20, max_depth=None)
    levels, sizes = [], [N]
    for _ in range(2):
        levels.append(halves(sizes))
        sizes = [size // 2 for size in sizes for _ in (0, 1)]
    shop.answer(StartAsk(job, target, (), tuple(levels), (0, 0)))  # nodes of 64 rows
    words = said(shop, StartAsk(job, target, (), (*levels, halves(sizes)), (0, 0, 0)))
    assert "Level 3 of the trees breaks the job's rules" in words  # 32 rows: not to be cut again
    shop, job, target = begun_alone(max_depth=1)
    words = said(shop, StartAsk(job, target, (), (levels[0],), (0,)))
    assert "Level 1 of the trees breaks the job's rules" in words


def test_a_level_has_one_version():
    shop, job, target = begun_alone()
    level = halves([N])
    shop.answer(GainAsk(job.digest, 1, (level,), offered(2)))
    words = said(shop, StartAsk(job, target, (), (moved_row(level),), (0,)))
    assert "A level of the trees differs from what this party received before" in words


def test_the_columns_of_a_level_are_offered_once():
    """Other columns would show other gains, one by one."""
    shop, job, _ = begun_alone()
    ask = GainAsk(job.digest, 0, (), offered(1))
    assert not said(shop, ask)
    other = replace(ask.offered, column=np.ones(1, np.uint16))
    assert "already gave a different answer" in said(shop, replace(ask, offered=other))
    assert not said(shop, ask)


@pytest.mark.parametrize("name", ["n_slots", "column", "phase"])
def test_offered_columns_in_another_shape_are_refused(name):
    """The party remembers an offer by its numbers, which a shape does not change."""
    shop, job, _ = begun_alone()
    ask = GainAsk(job.digest, 0, (), offered(1))
    shaped = replace(ask.offered, **{name: getattr(ask.offered, name).reshape(1, 1)})
    assert "columns or nodes that do not exist" in said(shop, replace(ask, offered=shaped))
    assert not said(shop, ask)


def test_a_node_is_offered_no_more_columns_than_there_are():
    """Before: room for as many was made for every other open node, too."""
    shop, job, _ = begun_alone()
    ask = GainAsk(job.digest, 0, (), offered(1))
    again = np.zeros(1000, np.uint16)
    many = Offered(np.array([1000], np.uint16), again, again.astype(np.uint8))
    assert "columns or nodes that do not exist" in said(shop, replace(ask, offered=many))


@pytest.mark.parametrize("depth", [1, 5, -1])
def test_levels_are_not_asked_for_out_of_turn(depth):
    shop, job, _ = begun_alone()
    reply = shop.answer(GainAsk(job.digest, depth, (), offered(1)))
    assert reply.is_behind
    assert not reply.gain.size


@pytest.mark.parametrize(
    "change", [{"every_column": False}, {"n_parties": 9}, {"target_step": 0.5}, {"name": "other"}]
)
def test_a_run_has_one_job(change):
    """Before: another job of the same settings gave every answer once more."""
    shop, job, target = begun_alone()
    other = replace(job, **change)
    for ask in (
        StartAsk(other, target, (), (), ()),
        LabelsAsk(other),
        SealAsk(other, "auto", 2048),
    ):
        assert "a different job from the one that this party has begun" in said(shop, ask)


def test_a_run_has_one_job_after_a_restart_too(tmp_path):
    how = settings()
    sides = parties(how, tmp_path)
    grown(sides, how)
    restarted = parties(how, tmp_path)["shop"]
    assert sides["shop"].forest.growing is not None
    job = replace(sides["shop"].forest.growing.job, every_column=False)
    words = said(restarted, StartAsk(job, np.zeros(0, np.uint8), (), (), ()))
    assert "a different job from the one that this party has begun" in words


# --- shared labels that are nobody's -------------------------------------------------------------


def test_labels_are_those_of_the_label_party():
    """Before: gains and cuts for any labels that the coordinator thought of, again and again."""

    def otherwise(ask):
        return replace(ask, target=ask.target[::-1].copy())

    how = settings()
    sides: dict[str, Any] = parties(how)
    sides["shop"] = Cheated(sides["shop"], StartAsk, otherwise)
    grown(sides, how)
    assert "list of labels sent for party 'bank' is not signed" in sides["shop"].words[0]


def test_labels_are_given_once():
    shop, job, target = begun_alone()
    words = said(shop, StartAsk(job, target[::-1].copy(), (), (), ()))
    assert "already received different labels" in words
    assert not said(shop, StartAsk(job, target, (), (), ()))


def test_a_party_whose_cut_is_left_out_does_not_go_on():
    """With shared labels anybody's cut can be asked for; but not one that is not made.

    Before: the party went on, counted in cells that do not exist, and died.
    """
    words = r"leaves out cuts that this party made|already gave a different answer"
    sides: dict[str, Any] = parties(how := settings())
    asked: list[Any] = []

    class Twice:
        """A coordinator that asks the shop for every node, too, once."""

        def answer(self, ask):
            if isinstance(ask, SplitAsk) and not asked:
                asked.append(ask)
                good = sides["shop"].forest.growing._found.is_good
                every = SplitAsk(ask.job, ask.depth, np.flatnonzero(good))
                assert sides["shop"].answer(every).sides.size
            return sides["bank"].answer(ask)

    with pytest.raises(ProtocolError, match=words):
        grown(sides | {"bank": Twice()}, how)


# --- predictions ---------------------------------------------------------------------------------


def predicting(tmp_path, intersect_at):
    how = settings()
    grown(parties(how, tmp_path), how)
    seats = seats_in_one_process(("bank",), "bank")
    bank = PredictingWithPart(
        holdings()["bank"], tmp_path / "bank", tmp_path / "predicted", seat=seats["bank"],
        way="keyed_hash", intersect_at=intersect_at, limit=MatchingLimit(), n_jobs=1,
    )  # fmt: skip
    bank._matching._rows = np.arange(N)
    return bank


def values_of(leaves):
    return ValuesAsk(Named(leaves, (), None, 0))


def test_values_of_leaves_are_not_asked_for_one_by_one(tmp_path):
    """Before: the value of every leaf, by naming it."""
    bank = predicting(tmp_path, "coordinator")
    part = bank._part.part
    first = np.tile(part.tree_start[:-1, None], (1, N)).astype(np.uint32)
    words = said(bank, values_of(first[:, :1]))
    assert "leaves of other rows than were matched" in words
    ask = values_of(first)
    assert not said(bank, ask)
    words = said(bank, values_of((first + 1).astype(np.uint32)))
    assert "already gave a different answer" in words
    assert not said(bank, ask)


def test_leaves_are_found_where_the_job_says(tmp_path):
    bank = predicting(tmp_path, "label_party")
    words = said(bank, values_of(np.zeros((2, N), np.uint32)))
    assert "are not found where the job says" in words
    assert bank.answer(LeavesAsk(0)).sets is not None


def other_rows(named):
    """Give every row the leaves of another."""
    return replace(named, sets=tuple(reversed(named.sets)))


def other_owner(named):
    owner = named.ownership.owner
    swapped = np.where(owner == named.place, owner.max(), owner).astype(np.int16)
    return replace(named, ownership=replace(named.ownership, owner=swapped))


def direct(named):
    return replace(named, ownership=None, sets=(), leaves=np.zeros((2, N), np.uint32))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (other_rows, "reply with leaf sets sent for party"),
        (other_owner, "gives this party's cuts to another party"),
        (direct, "agreed to: different intersect_at"),
        (lambda named: replace(named, sets=(), signed=()), "not those of the other parties"),
    ],
)
def test_a_forest_is_scored_by_the_leaves_of_its_rows(change, words):
    """Before: by leaves that the coordinator thought of; the matrix counted labels for it."""
    how = settings()
    sides: dict[str, Any] = parties(how)
    sides["bank"] = Cheated(
        sides["bank"], JudgeAsk, lambda ask: replace(ask, named=change(ask.named))
    )
    grown(sides, how)
    assert words in sides["bank"].words[0]


def test_a_forest_is_finished_only_as_it_was_cut():
    how = settings()
    sides: dict[str, Any] = parties(how)
    sides["shop"] = Cheated(
        sides["shop"], FinishAsk,
        lambda ask: replace(ask, newest=tuple(map(moved_row, ask.newest)))
        if ask.newest and ask.newest[0].sides.size else None,
    )  # fmt: skip
    grown(sides, how)
    (words,) = sides["shop"].words
    assert INVENTED in words
