"""What a question may ask for: valid scopes, budgets, spends and disclosures."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.errors import InternalError, SettingError
from spinney.privacy.budget import Measure, Unit, epsilon_of
from spinney.privacy.mechanisms import DiscreteLaplace
from spinney.privacy.scopes import (
    ALL_ROWS,
    EVERYONE,
    PARTY_TOTALS,
    Budget,
    Disclosure,
    Draw,
    Protection,
    Question,
    Scope,
    Spend,
    Step,
    View,
)

NOISE = DiscreteLaplace(Fraction(1, 4))
names = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1)
rates = st.fractions(min_value=Fraction(1, 1000), max_value=1)
steps = st.one_of(
    st.builds(Step, names, names | st.just("")),
    st.builds(Step, names, draw=st.just(Draw.OWN_COIN), rate=rates),
    st.builds(Step, names, draw=st.just(Draw.REPEATED), rate=st.integers(1, 9).map(Fraction)),
)


@given(st.lists(steps).map(tuple))
def test_a_scope_is_read_back_as_it_was_written(path):
    scope = Scope(path)

    assert Scope.of_words(scope.words) == scope


def test_a_scope_reads_as_words():
    assert str(ALL_ROWS) == "all rows"
    assert str(ALL_ROWS.again("tree 3").part("age<=30", "left")) == "tree 3; age<=30: left"
    assert str(ALL_ROWS.sampled("tree 3", Fraction(1, 2))) == "tree 3 (sampled 1/2)"
    assert str(ALL_ROWS.repeated("tree 3", 4)) == "tree 3 (repeated 4)"


def test_a_scope_knows_whether_it_divides_or_samples_the_rows():
    assert not ALL_ROWS.again("tree 0").is_divided
    assert ALL_ROWS.again("tree 0").part("a<1", "left").is_divided
    assert ALL_ROWS.sampled("tree 0", Fraction(1, 2)).is_sampled
    assert not ALL_ROWS.repeated("tree 0", 2).is_sampled


def test_undivided_rows_are_no_part_of_a_partition_of_the_same_name():
    assert Step("a").group != Step("a", "left").group
    assert Step("a", "left").group == Step("a", "right").group


@pytest.mark.parametrize("name", ["", "two\nlines", "\x00", 3, None])
def test_a_step_needs_printable_names(name):
    with pytest.raises(SettingError, match="needs printable names for its partition and part"):
        Step(name)


def test_a_part_needs_a_name():
    with pytest.raises(SettingError, match=r"A part of the partition 'a<1' must have a name"):
        ALL_ROWS.part("a<1", "")


@pytest.mark.parametrize("rate", [Fraction(0), Fraction(-1, 2), Fraction(3, 2)])
def test_a_sampling_rate_is_a_chance(rate):
    with pytest.raises(SettingError, match="A sampling rate must be above 0, at most 1; got"):
        ALL_ROWS.sampled("tree 0", rate)


@pytest.mark.parametrize("times", [Fraction(0), Fraction(3, 2), -1])
def test_rows_repeat_a_whole_number_of_times(times):
    with pytest.raises(SettingError, match="Rows repeat a whole number of times; got"):
        ALL_ROWS.repeated("tree 0", times)


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf"), "1", None, True])
def test_a_budget_is_a_positive_finite_number(epsilon):
    with pytest.raises(SettingError, match="epsilon must be a positive finite number; got"):
        Budget.pure(epsilon)
    with pytest.raises(SettingError, match="epsilon must be a positive finite number; got"):
        Budget.zcdp(epsilon, 1e-6)


@pytest.mark.parametrize("delta", [0, 1, -0.5, float("nan"), "small"])
def test_a_delta_is_a_probability(delta):
    with pytest.raises(SettingError, match="delta must be a number between 0 and 1"):
        Budget.zcdp(1, delta)


def test_a_budget_cannot_be_made_wrong_by_hand():
    with pytest.raises(SettingError, match="A budget's amount must be a positive finite number"):
        Budget(Unit.LABEL, Measure.PURE, Fraction(-1))
    with pytest.raises(
        SettingError, match=r"names the delta, between 0 and 1.*Got zcdp and delta=0"
    ):
        Budget(Unit.LABEL, Measure.ZCDP, Fraction(1))
    with pytest.raises(SettingError, match=r"a pure one does not. Got pure and delta=1/2"):
        Budget(Unit.LABEL, Measure.PURE, Fraction(1), Fraction(1, 2))
    with pytest.raises(SettingError, match="Got zcdp and delta=2"):
        Budget(Unit.LABEL, Measure.ZCDP, Fraction(1), Fraction(2))


def test_a_decimal_epsilon_means_what_is_written():
    assert Budget.pure(0.1).amount == Fraction(1, 10)
    assert str(Budget.pure(0.1)) == "epsilon=0.1 per record, add or remove"


@given(st.fractions(min_value=Fraction(1, 100), max_value=20), st.integers(2, 12))
def test_a_zcdp_budget_is_the_largest_that_reads_as_its_epsilon(epsilon, digits):
    budget = Budget.zcdp(epsilon, Fraction(1, 10**digits))

    assert epsilon_of(budget.amount, budget.delta) <= epsilon
    assert epsilon_of(budget.amount + Fraction(1, 2**60), budget.delta) > epsilon


def test_a_zcdp_budget_reads_as_words():
    assert str(Budget.zcdp(1, 1e-6, Unit.LABEL)).startswith("rho=0.01")
    assert str(Budget.zcdp(1, 1e-6, Unit.LABEL)).endswith("(delta=1e-06) per label")


def test_a_question_is_its_job_round_and_bytes():
    question = Question.of("q3", 4, b"level")

    assert question == Question.of("q3", 4, b"level")
    others = [("q", 34, b"level"), ("q3", 4, b"leve"), ("q3", 5, b"level"), ("q34", 4, b"level")]
    assert len({question.digest, *(Question.of(*other).digest for other in others)}) == 5


def test_everyone_sees_what_readers_see_and_a_coalition_sees_everything():
    assert all(view.sees((View.READER,)) for view in View)
    assert [v for v in View if v.sees((View.LABEL_HOLDER,))] == [View.COALITION, View.LABEL_HOLDER]


@pytest.mark.parametrize("wrong", [{"what": ""}, {"scopes": ()}, {"views": ()}, {"n_releases": 0}])
def test_a_spend_is_complete(wrong):
    with pytest.raises(InternalError, match="A spend names what it releases"):
        Spend(**({"what": "counts", "mechanism": NOISE} | wrong))


@pytest.mark.parametrize("wrong", [{"what": ""}, {"why": ""}, {"units": ()}, {"views": ()}])
def test_a_disclosure_is_complete(wrong):
    facts: dict[str, Any] = {
        "what": "bin means",
        "protection": Protection.UNPROTECTED,
        "why": "exact",
        "units": (Unit.LABEL, PARTY_TOTALS),
    }
    assert Disclosure(**facts).views == EVERYONE
    with pytest.raises(InternalError, match="A disclosure names what, why, whose"):
        Disclosure(**(facts | wrong))
    with pytest.raises(InternalError, match="A disclosure has an unknown unit: person"):
        Disclosure(**(facts | {"units": ("person",)}))
