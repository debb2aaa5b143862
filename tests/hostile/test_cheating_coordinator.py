"""A coordinator that does not follow the protocol is refused, and learns nothing more."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hostile.cheats import (  # type: ignore[import-not-found]
    NAMES,
    Run,
    tables_for,
    with_opened,
    with_sum,
)
from spinney import ExtraTreesClassifier, HorizontalForestClassifier
from spinney.errors import ProtocolError
from spinney.protocols import extra_trees, horizontal_forest
from spinney.protocols.horizontal_forest.messages import LevelAsk
from spinney.protocols.rows.setup import FactsAsk
from spinney.protocols.verified.derivation import OwnDerivation
from spinney.protocols.verified.messages import StepAsk
from spinney.protocols.verified.party import VerifyingParty
from spinney.protocols.verified.tags import SumKeys

NOT_THE_SUM = "is not what the parties replied"
OWN = bytes(range(32))


@pytest.fixture(scope="module")
def rows():
    random = np.random.default_rng(5)
    X = random.normal(size=(240, 5))
    X[random.random(X.shape) < 0.03] = np.nan
    y = (np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1]) * random.normal(size=240) > 0).astype(int)
    return X, y


@pytest.fixture(scope="module")
def tables(rows):
    return tables_for(HorizontalForestClassifier(), *rows)


def settings(**changes):
    facts = {"n_estimators": 4, "max_depth": 4, "min_samples_leaf": 5, "seed": 1}
    return horizontal_forest.Settings(task="classification", criterion="gini", **(facts | changes))


def forest(tables, **how):
    return Run("horizontal_forest", tables, settings(), **how)


class Counted:
    """A side that counts what it was asked."""

    def __init__(self, side):
        self.side, self.asked = side, []

    def answer(self, ask):
        self.asked.append(type(ask).__name__)
        return self.side.answer(ask)


def counted_sides(tables):
    return {name: Counted(horizontal_forest.Party(table)) for name, table in tables.items()}


@pytest.mark.parametrize("is_masked", [False, True])
def test_an_honest_run_gives_the_pooled_model(rows, tables, is_masked):
    pooled = tables_for(HorizontalForestClassifier(), *rows, n_parties=1)
    alone = Run("horizontal_forest", pooled, settings()).trained().model.to_bytes()
    assert forest(tables, is_masked=is_masked).trained().model.to_bytes() == alone


def test_every_party_derives_the_coordinators_model(tables):
    run = forest(tables)
    model = run._train(run.channel).model.to_bytes()
    assert set(run.models().values()) == {model}
    run.close()


def test_invented_trees_are_not_counted(tables):
    """The attack that read every row: trees and bins that nobody grew, asked level by level."""
    sides = counted_sides(tables)
    asks = []

    class Listening(Counted):
        def answer(self, ask):
            asks.append(ask)
            return super().answer(ask)

    run = forest(tables, sides={name: Listening(side.side) for name, side in sides.items()})
    run.trained()
    level = next(ask for ask in reversed(asks) if isinstance(ask, LevelAsk))
    first = level.levels[0]
    invented = first.replaced(cut=(first.cut + 1).astype(first.cut.dtype))
    run = forest(tables, sides=sides)
    for ask in (level, replace(level, levels=(invented,)), FactsAsk(level.job.schema_digest, True)):
        with pytest.raises(ProtocolError, match=r"does not answer \w+: it derives its questions"):
            run.parties["a"].answer(ask)
    assert sides["a"].asked == []
    run.close()


CHANGES = {
    "one count more": lambda sums: np.add.at(sums, (0,), 1),
    "every count doubled": lambda sums: np.multiply(sums, 2, out=sums),
    "a count moved": lambda sums: np.add.at(sums, ([0, int(sums[1:].argmax()) + 1],), [[1], [-1]]),
    "nothing there": lambda sums: sums.fill(0),
}


@pytest.mark.parametrize("is_masked", [False, True])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("step", [3, 5, 7])
def test_a_sum_that_is_not_the_sum_ends_the_run(tables, step, change, is_masked):
    sides = counted_sides(tables)

    def cheat(_, ask):
        return with_sum(ask, CHANGES[change]) if ask.number == step else ask

    run = forest(tables, change=cheat, is_masked=is_masked, sides=sides)
    with pytest.raises(ProtocolError, match=f"of step {step - 1} {NOT_THE_SUM}"):
        run.trained()
    assert {len(side.asked) for side in sides.values()} <= {step - 1, step - 2}


@pytest.mark.parametrize("is_masked", [False, True])
def test_wrong_bins_to_one_party_end_the_run(tables, is_masked):
    """One party alone is told other counts between cut points, from which it would lay its bins."""
    told = []

    def cheat(name, ask):
        if isinstance(ask.about, LevelAsk) and name == "b":
            told.append(ask.number)
            return with_sum(ask, CHANGES["a count moved"])
        return ask

    sides = counted_sides(tables)
    run = forest(tables, change=cheat, is_masked=is_masked, sides=sides)
    with pytest.raises(ProtocolError, match=NOT_THE_SUM):
        run.trained()
    assert len(told) == 1
    assert "LevelAsk" not in sides["b"].asked


class Remembered(list[Any]):
    """What a party was told, as its disk would keep it."""

    keep, end = list.append, print

    def kept(self):
        return tuple(self)

    def own(self):
        return OWN


def test_after_a_restart_stale_steps_are_neither_answered_nor_believed(tables):
    """What is told again of a finished step changes nothing; a finished step is not asked again."""
    keys, asked, found = SumKeys.fresh(), {}, {}

    def listening(name, ask):
        asked[ask.number] = ask
        return ask

    run = forest(tables, change=listening, keys=keys)
    memory = run.parties["a"]._steps = Remembered()
    run.parties["a"]._own = memory.own()
    answer = run.wire._answer

    def hearing(name, ask, sizes):
        reply = answer(name, ask, sizes)
        if name == "a":
            found[ask.number] = reply
        return reply

    run.wire._answer = hearing
    run.trained()
    number, steps = 6, Remembered(memory[:5])
    own = OwnDerivation(run._train, tuple(tables), is_masked=False)
    side = horizontal_forest.Party(tables["a"])
    again = VerifyingParty(side, "a", keys, own, is_masked=False, steps=steps)
    for stale in (3, 5):
        with pytest.raises(ProtocolError, match="does not follow"):
            again.answer(asked[stale])
    renumbered = replace(memory[3], number=number)
    with pytest.raises(ProtocolError, match="Step 7 does not follow"):
        again.answer(replace(asked[7], before=()))
    forged = with_sum(asked[number], CHANGES["nothing there"])
    assert np.array_equal(again.answer(forged).tag, found[number].tag)  # as if it were true
    with pytest.raises(ProtocolError, match=NOT_THE_SUM):
        again.answer(replace(asked[7], before=(renumbered,)))
    own.close()


def test_after_a_wrong_sum_a_party_answers_no_more_of_the_run(tables):
    wrong: list[Any] = []

    def cheat(_, ask):
        if ask.number == 5 and not wrong:
            wrong.append(ask)
            return with_sum(ask, CHANGES["one count more"])
        return ask

    run = forest(tables, change=cheat)
    with pytest.raises(ProtocolError, match=NOT_THE_SUM):
        run._train(run.channel)
    with pytest.raises(ProtocolError, match="answers no further question of the run"):
        run.parties["a"].answer(wrong[0])  # the true sum, too late
    run.close()


def test_parties_that_are_told_different_sums_find_out(tables):
    """Each told sum is true of some parties, and its tag fits it: only the next one fails."""
    replies: dict[str, Any] = {}

    def cheat(name, ask):
        if ask.number == 3 and name == "a":
            return with_opened(ask, lambda opened: _without_c(opened, replies))
        return ask

    sides = {name: Keeping(horizontal_forest.Party(t), name, replies) for name, t in tables.items()}
    run = forest(tables, change=cheat, sides=sides)
    tags = {}
    answer = run.wire._answer

    def listening(name, ask, sizes):
        reply = answer(name, ask, sizes)
        if ask.number == 2:
            tags[name] = reply.tag
            replies["tags"] = tags
        return reply

    run.wire._answer = listening
    with pytest.raises(ProtocolError, match=f"{NOT_THE_SUM}|differ in shape; nothing was used"):
        run.trained()


class Keeping(Counted):
    """A side whose reply to the facts its coordinator sees: its sums are not masked."""

    def __init__(self, side, name, replies):
        super().__init__(side)
        self.name, self.replies = name, replies

    def answer(self, ask):
        reply = super().answer(ask)
        if isinstance(ask, FactsAsk):
            self.replies[self.name] = reply
        return reply


def _without_c(opened, replies):
    """Return the true sum over two of the three parties, as party a would accept it."""
    from spinney.transport.carried import Carried  # noqa: PLC0415
    from spinney.transport.channel import sum_replies  # noqa: PLC0415

    total = sum_replies(replies["a"], iter([replies["b"]]))
    tag = replies["tags"]["a"] + replies["tags"]["b"]
    return replace(opened, answered=("a", "b"), results=(Carried(total),), tags=tag)


LIES = {
    "an old step": (lambda ask: replace(ask, number=ask.number - 2, before=()), "does not follow"),
    "a step left out": (lambda ask: replace(ask, number=ask.number + 1), "does not follow"),
    "a reply of its own for a sum": (lambda ask: replace(ask, verb="ask"), "is not the job's next"),
    "nothing told": (lambda ask: replace(ask, before=()), "does not follow"),
    "a later sum told": (
        lambda ask: with_opened(ask, lambda o: replace(o, number=o.number + 1)),
        "was not told what step",
    ),
    "this party left out": (
        lambda ask: with_opened(ask, lambda o: replace(o, answered=("b", "c"))),
        "leaves out too many parties, or this one",
    ),
    "another party left out": (
        lambda ask: with_opened(ask, lambda o: replace(o, answered=("a", "b"))),
        NOT_THE_SUM,
    ),
    "a party twice": (
        lambda ask: with_opened(ask, lambda o: replace(o, answered=("a", "a", "b", "c"))),
        NOT_THE_SUM,
    ),
    "no tag": (
        lambda ask: with_opened(ask, lambda o: replace(o, tags=np.zeros(0, np.uint64))),
        "leaves out too many parties, or this one",
    ),
    "a tag of zeros": (
        lambda ask: with_opened(ask, lambda o: replace(o, tags=np.zeros(3, np.uint64))),
        NOT_THE_SUM,
    ),
    "a long tag": (
        lambda ask: with_opened(ask, lambda o: replace(o, tags=np.zeros(30, np.uint64))),
        NOT_THE_SUM,
    ),
    "two sums": (
        lambda ask: with_opened(ask, lambda o: replace(o, results=o.results * 2)),
        NOT_THE_SUM,
    ),
    "no sum": (lambda ask: with_opened(ask, lambda o: replace(o, results=())), NOT_THE_SUM),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_step_that_does_not_follow_is_refused(tables, lie):
    change, words = LIES[lie]
    sides = counted_sides(tables)
    run = forest(
        tables,
        change=lambda name, ask: change(ask) if ask.number == 6 and name == "a" else ask,
        sides=sides,
    )
    with pytest.raises(ProtocolError, match=words):
        run.trained()
    assert len(sides["a"].asked) == 5


def test_a_sum_of_another_run_is_refused(tables):
    """The same job with the same rows, so that even its sums are the same; only the keys differ."""
    kept = []

    def listening(_, ask):
        kept.append(ask)
        return ask

    forest(tables, change=listening).trained()
    other = next(ask.before[0] for ask in kept if ask.number == 5)

    def replayed(_, ask):
        return with_opened(ask, lambda _: other) if ask.number == 5 else ask

    with pytest.raises(ProtocolError, match=NOT_THE_SUM):
        forest(tables, change=replayed).trained()


def test_a_job_has_no_step_after_its_last(tables):
    run = forest(tables)
    run._train(run.channel)
    number = run.channel._number
    ask = StepAsk(number + 1, "sum", run.channel.opened)
    with pytest.raises(ProtocolError, match="The job has no further step"):
        run.parties["a"].answer(ask)
    run.close()


def test_questions_that_all_parties_see_are_checked_too(rows):
    """Exchanged ranges: single replies decide about the cuts, so all parties see all of them."""
    tables = tables_for(ExtraTreesClassifier(), *rows)
    facts: dict[str, Any] = {"n_estimators": 2, "max_depth": 3, "bootstrap": False}
    job = extra_trees.Settings(
        task="classification",
        criterion="gini",
        binning="magnitudes",
        thresholds="exchanged",
        **facts,
    )
    assert Run("extra_trees", tables, job).trained().model is not None

    def cheat(_, ask):
        if ask.before and len(ask.before[-1].results) == len(NAMES):
            return with_opened(ask, lambda o: replace(o, results=o.results[::-1]))
        return ask

    with pytest.raises(ProtocolError, match=NOT_THE_SUM):
        Run("extra_trees", tables, job, change=cheat).trained()


def test_the_tags_of_many_parties_add_up_in_64_bits():
    """Each adds a secret multiple of the primes; of 400 parties the sum was beyond the word."""
    keys, one = SumKeys.fresh(), np.arange(5, dtype=np.int32)
    names = [str(number) for number in range(400)]
    how: dict[str, Any] = {"n_parties": len(names), "n_threads": 1}
    tags: Any = sum(keys.tag(1, b"", n, [one], own=n.encode() + OWN[4:], **how) for n in names)
    assert keys.is_sum(1, b"", names, [400 * one], tags, n_threads=1)


def test_a_forged_tag_passes_once_in_the_size_of_the_field():
    """A coordinator that guesses tags of a changed sum passes as often as chance has it: never."""
    keys, sums = SumKeys.fresh(), np.arange(3000, dtype=np.int32)
    how: dict[str, Any] = {"own": OWN, "n_parties": len(NAMES), "n_threads": 1}
    tags: Any = sum(keys.tag(1, b"", name, [sums], **how) for name in NAMES)
    total = 3 * sums
    assert keys.is_sum(1, b"", NAMES, [total], tags, n_threads=1)
    changed = total.copy()
    changed[7] += 1
    random = np.random.default_rng(0)
    for _ in range(300):
        guess = tags + random.integers(0, 2**32, 4, np.uint64)
        assert not keys.is_sum(1, b"", NAMES, [changed], guess, n_threads=1)
    # Parties that were told different things before do not accept each other's tags.
    assert not keys.is_sum(1, b"another story", NAMES, [total], tags, n_threads=1)
    # A multiple of a sum has a multiple of its hash; the pads are not multiplied with it.
    assert not keys.is_sum(1, b"", NAMES, [2 * total], 2 * tags, n_threads=1)
    # A value that is equal modulo one prime, or two, is not equal modulo the others.
    wide = total.astype(np.int64)
    tags = sum(keys.tag(2, b"", name, [wide // 3], **how) for name in NAMES)
    assert keys.is_sum(2, b"", NAMES, [wide], tags, n_threads=1)
    primes = (2**32 - 5, 2**32 - 17, 2**32 - 65, 2**32 - 99)
    for step in (*primes, *(a * b - 2**64 for a in primes for b in primes if a < b)):
        moved = wide.copy()
        moved[0] += step
        assert not keys.is_sum(2, b"", NAMES, [moved], tags, n_threads=1)
