"""The worst path equals the exact cost of a brute-force record; budgets are checked against it."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.errors import BudgetError, InternalError, SettingError
from spinney.privacy.accounting import Account, JobTerms, Line, Shortfall, WorstPath, implied_factor
from spinney.privacy.budget import Cost, Measure, Unit, subsampled_cost
from spinney.privacy.scopes import ALL_ROWS, Budget, Scope

RECORD = Unit.RECORD_ADD_REMOVE
TREE = ALL_ROWS.again("tree 0")
LEFT, RIGHT = TREE.part("a<1", "left"), TREE.part("a<1", "right")


def pure(amount, unit=RECORD):
    return Cost(Measure.PURE, Fraction(amount), unit)


def zcdp(amount, unit=RECORD):
    return Cost(Measure.ZCDP, Fraction(amount), unit)


def path():
    return WorstPath(Measure.PURE, RECORD)


def worst_record(charges):
    """Try every record: at each scope it is in one part of every partition."""

    def best(prefix):
        own = sum((amount for scope, amount in charges if scope.path == prefix), Fraction(0))
        depth = len(prefix)
        below = {
            scope.path[depth]
            for scope, _ in charges
            if len(scope.path) > depth and scope.path[:depth] == prefix
        }
        groups: dict[object, list[Fraction]] = {}
        for step in below:
            groups.setdefault(step.group, []).append(best((*prefix, step)))
        return own + sum((max(costs) for costs in groups.values()), Fraction(0))

    return best(())


scopes = st.recursive(
    st.just(ALL_ROWS),
    lambda above: st.one_of(
        st.builds(Scope.again, above, st.sampled_from(["tree 0", "tree 1", "a<1"])),
        st.builds(Scope.part, above, st.sampled_from(["a<1", "b<2"]), st.sampled_from("LR")),
    ),
    max_leaves=4,
)
amounts = st.fractions(min_value=0, max_value=2, max_denominator=97)
programs = st.lists(st.tuples(scopes, amounts), max_size=25)


@given(programs)
def test_the_total_is_what_the_worst_record_pays(charges):
    spent = path()
    for done in range(len(charges)):
        assert spent.total_with(charges[done:]) == worst_record(charges)
        spent.add(charges[done : done + 1])
        assert spent.total == worst_record(charges[: done + 1])


@given(programs, scopes, amounts)
def test_a_charge_at_a_scope_raises_the_worst_path_through_it(charges, scope, amount):
    spent = path()
    spent.add(charges)

    through = spent.through(scope)

    assert through <= spent.total
    assert spent.total_with([(scope, amount)]) == max(spent.total, through + amount)


@given(programs)
def test_trying_a_charge_changes_nothing(charges):
    spent = path()
    spent.add(charges[::2])
    before = spent.total

    spent.total_with(charges)

    assert spent.total == before


def test_trees_on_the_same_rows_add_up_and_disjoint_blocks_do_not():
    same, blocks = path(), path()
    same.add((ALL_ROWS.again(f"tree {t}"), Fraction(1, 10)) for t in range(10))
    blocks.add((ALL_ROWS.part("row % 10", str(t)), Fraction(1, 10)) for t in range(10))

    assert same.total == 1
    assert blocks.total == Fraction(1, 10)


def test_a_node_that_is_split_twice_is_paid_for_twice():
    spent = path()
    spent.add([(TREE.part("a<1", "left"), Fraction(1)), (TREE.part("a<2", "right"), Fraction(1))])

    assert spent.total == 2


def test_a_secret_sample_is_priced_for_the_tree_as_a_whole():
    spent, half = path(), Fraction(1, 2)
    tree = ALL_ROWS.sampled("tree 0", half)
    spent.add([(tree, half), (tree.part("a<1", "left"), half), (tree.part("a<1", "right"), half)])

    assert spent.total == subsampled_cost(pure(1), half).amount < 1
    assert spent.through(tree.part("a<1", "left")) == spent.total
    assert spent.through(ALL_ROWS) == spent.total


def test_known_repeats_multiply_epsilon_and_square_into_rho():
    spent, concentrated = path(), WorstPath(Measure.ZCDP, RECORD)
    for account in (spent, concentrated):
        account.add([(ALL_ROWS.repeated("tree 0", 3), Fraction(1, 10))])

    assert spent.total == Fraction(3, 10)
    assert concentrated.total == Fraction(9, 10)


def test_a_refused_trial_leaves_the_path_as_it_was():
    spent = WorstPath(Measure.ZCDP, RECORD)
    with pytest.raises(InternalError, match="pure costs"):
        spent.total_with([(ALL_ROWS.sampled("tree 0", Fraction(1, 2)), Fraction(1))])

    assert spent.total == 0


def test_a_thousand_thirds_are_exact():
    spent = path()
    spent.add((ALL_ROWS, Fraction(1, 3000)) for _ in range(3000))

    assert spent.total == 1


@pytest.mark.parametrize(
    ("source", "target", "factors"),
    [
        (Unit.RECORD_ADD_REMOVE, Unit.RECORD_ADD_REMOVE, (1, 1)),
        (Unit.RECORD_ADD_REMOVE, Unit.RECORD_REPLACE, (2, 4)),
        (Unit.RECORD_ADD_REMOVE, Unit.LABEL, (2, 4)),
        (Unit.RECORD_REPLACE, Unit.LABEL, (1, 1)),
        (Unit.RECORD_REPLACE, Unit.RECORD_ADD_REMOVE, (None, None)),
        (Unit.LABEL, Unit.RECORD_ADD_REMOVE, (None, None)),
        (Unit.LABEL, Unit.RECORD_REPLACE, (None, None)),
    ],
)
def test_a_record_bounds_its_replacement_and_its_label_but_not_the_other_way(
    source, target, factors
):
    assert implied_factor(source, target, Measure.PURE) == factors[0]
    assert implied_factor(source, target, Measure.ZCDP) == factors[1]


def test_a_label_budget_is_debited_by_record_charges_twice():
    account = Account(Measure.PURE, [Budget.pure(1, Unit.LABEL)])
    account.add([Line(ALL_ROWS, pure(Fraction(1, 4))), Line(ALL_ROWS, pure("1/4", Unit.LABEL))])

    assert account.spent(Unit.LABEL) == Fraction(3, 4)
    assert account.left(Unit.LABEL, ALL_ROWS) == Fraction(1, 4)
    assert account.left(RECORD, ALL_ROWS) is None
    assert account.shortfall([Line(ALL_ROWS, pure("1/8"))]) is None
    short = account.shortfall([Line(ALL_ROWS, pure("1/7"))])
    assert short is not None
    assert short.asked == Fraction(2, 7)


def test_a_label_charge_never_counts_against_a_record_budget():
    account = Account(Measure.PURE, [Budget.pure(1)])

    assert account.shortfall([Line(ALL_ROWS, pure(9, Unit.LABEL))]) is None


def test_both_children_may_spend_what_their_parent_saved():
    account = Account(Measure.PURE, [Budget.pure(1)])
    account.add([Line(TREE, pure("1/4")), Line(LEFT, pure("3/4"))])

    assert account.left(RECORD, LEFT) == 0
    assert account.left(RECORD, RIGHT) == Fraction(3, 4)
    assert account.shortfall([Line(RIGHT, pure("3/4"))]) is None
    short = account.shortfall([Line(LEFT, pure("1/8")), Line(RIGHT, pure("1/8"))])
    assert short is not None
    assert (short.asked, short.left) == (Fraction(1, 8), Fraction(0))


def test_a_batch_is_refused_if_only_its_sum_is_too_much():
    account = Account(Measure.PURE, [Budget.pure(1)])
    trees = [Line(ALL_ROWS.again(f"tree {t}"), pure("2/5")) for t in range(3)]

    assert account.shortfall(trees[:2]) is None
    short = account.shortfall(trees)
    assert short is not None
    assert short.asked == Fraction(6, 5)


def test_pure_charges_enter_zcdp_one_by_one():
    account = Account(Measure.ZCDP, [Budget.zcdp(3, 1e-6)])
    account.add([Line(ALL_ROWS, pure("1/10"), times=20), Line(ALL_ROWS, zcdp("1/100"))])

    assert account.spent(RECORD) == 20 * Fraction(1, 200) + Fraction(1, 100)


def test_zcdp_has_no_price_in_pure_epsilon():
    with pytest.raises(SettingError, match="A zCDP or Gaussian charge has no pure epsilon"):
        Account(Measure.PURE).shortfall([Line(ALL_ROWS, zcdp(1))])


def test_a_replaced_record_cannot_be_charged_in_one_part():
    line = Line(LEFT, pure(1, Unit.RECORD_REPLACE))

    with pytest.raises(SettingError, match=r"cannot be limited to tree 0; a<1: left. Charge all"):
        Account(Measure.PURE).add([line])


def test_a_secret_sample_needs_pure_epsilon_per_record():
    scope = ALL_ROWS.sampled("tree 0", Fraction(1, 2))

    with pytest.raises(
        SettingError, match=r"A secret sample is accounted only in pure epsilon.*zcdp"
    ):
        Account(Measure.ZCDP).shortfall([Line(scope, pure(1))])
    with pytest.raises(SettingError, match=r"A secret sample is accounted.*got pure per label"):
        Account(Measure.PURE).shortfall([Line(scope, pure(1, Unit.LABEL))])


def test_sampler_errors_add_up_over_all_that_bears_on_a_unit():
    account = Account(Measure.PURE)
    missed = Cost(Measure.PURE, Fraction(1), RECORD, delta=Fraction(1, 10**12))
    account.add([Line(LEFT, missed, times=3), Line(RIGHT, missed)])

    assert account.sampler_delta(RECORD) == Fraction(4, 10**12)
    assert account.sampler_delta(Unit.LABEL) == Fraction(4, 10**12)


def test_budgets_of_one_account_fit_each_other():
    with pytest.raises(SettingError, match="Each unit can have only one budget; got label, label"):
        Account(Measure.PURE, [Budget.pure(1, Unit.LABEL), Budget.pure(2, Unit.LABEL)])
    with pytest.raises(SettingError, match=r"must be counted in pure; got rho=.*One job counts in"):
        Account(Measure.PURE, [Budget.zcdp(1, 1e-6)])


def test_a_refusal_says_what_was_asked_and_what_is_left():
    short = Shortfall(Budget.pure(1), Fraction(1, 4), Fraction(1, 10))
    refusal = short.refusal("level 4")

    assert isinstance(refusal, BudgetError)
    assert str(refusal) == (
        "Charge refused for level 4: asked epsilon=0.25 for a record added or removed, left "
        "epsilon=0.1. Nothing was released."
    )
    assert (refusal.asked, refusal.left) == (Fraction(1, 4), Fraction(1, 10))


def test_a_refusal_shows_a_difference_however_small_and_never_a_debt():
    close = Shortfall(Budget.pure(1), Fraction(1, 10) + Fraction(1, 10**10), Fraction(1, 10))
    same = Shortfall(Budget.pure(1), Fraction(1, 3) + Fraction(1, 10**40), Fraction(1, 3))
    debt = Shortfall(Budget.zcdp(1, 1e-6), Fraction(1), Fraction(-3))

    assert "asked epsilon=0.1000000001 for a record added or removed, left epsilon=0.1." in str(
        close.refusal("level 4")
    )
    assert "asked epsilon=0.333333333" in str(same.refusal("level 4"))
    assert "asked rho=1 for a record added or removed, left rho=0." in str(debt.refusal("level 4"))


def test_a_refusal_in_another_unit_says_why_it_costs_more():
    account = Account(Measure.PURE, [Budget.pure(3, unit) for unit in Unit])
    account.add([Line(ALL_ROWS, Cost(Measure.PURE, Fraction(1), RECORD))])
    short = account.shortfall([Line(ALL_ROWS, Cost(Measure.PURE, Fraction(1), RECORD))])

    assert short is not None
    assert str(short.refusal("q4")).startswith(
        "Charge refused for q4: asked epsilon=2 for a record replaced by another (twice what a "
        "record added or removed costs), left epsilon=1."
    )


def test_what_other_jobs_spent_stays_at_home():
    short = Shortfall(Budget.pure(1), Fraction(1, 4), Fraction(1, 10), is_for_life=True)
    refusal = short.refusal("level 4")

    assert refusal.public == (
        "Charge refused for level 4: asked epsilon=0.25 for a record added or removed, more than "
        "is left for the life of the data set. Nothing was released. Lower the job's epsilon, or "
        "raise the data set's lifetime budget."
    )
    assert refusal.local == "Left epsilon=0.1."
    assert (refusal.asked, refusal.left) == (Fraction(1, 4), None)


@pytest.mark.parametrize(("n_parties", "t_honest"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3)])
def test_half_of_the_parties_are_promised_honest(n_parties, t_honest):
    assert JobTerms.agreed("q3", "data", n_parties).t_honest == t_honest


def test_a_job_counts_as_its_budgets_do():
    assert JobTerms.agreed("q3", "data", 3, [Budget.zcdp(1, 1e-6)]).measure is Measure.ZCDP
    assert JobTerms.agreed("q3", "data", 3).measure is Measure.PURE


@pytest.mark.parametrize("t_honest", [0, 4, -1])
def test_the_honest_are_some_of_the_parties(t_honest):
    with pytest.raises(SettingError, match="t_honest must be between 1 and the 3 parties; got"):
        JobTerms("q3", "data", 3, t_honest)


def test_two_parties_cannot_promise_that_both_are_honest():
    with pytest.raises(SettingError, match="With two parties, t_honest must be 1"):
        JobTerms("q3", "data", 2, 2)


@pytest.mark.parametrize("wrong", [{"name": ""}, {"data": ""}, {"name": "q\n3"}])
def test_a_job_has_printable_names(wrong):
    with pytest.raises(SettingError, match="needs printable names"):
        JobTerms(**({"name": "q3", "data": "data", "n_parties": 3, "t_honest": 2} | wrong))


def test_noise_in_shares_keeps_the_promise_of_the_job():
    job = JobTerms("q3", "data", 5, 3)

    assert job.honest_for("level 4", {}) == 1
    assert job.honest_for("level 4", {"honest": "2", "parties": "5"}) == 2
    for honest, parties in (("4", "5"), ("2", "6")):
        with pytest.raises(SettingError, match=rf"shared by {parties} parties, of which {honest}"):
            job.honest_for("level 4", {"honest": honest, "parties": parties})
