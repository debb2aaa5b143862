"""Reserve, draw, commit: nothing is drawn unpaid, and nothing is answered twice."""

import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from fractions import Fraction

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from spinney.errors import BudgetError, InternalError, LedgerError, SettingError
from spinney.privacy import entropy
from spinney.privacy.accounting import Job
from spinney.privacy.budget import Measure, Unit
from spinney.privacy.ledger import Ledger
from spinney.privacy.ledger_store import Charged, Disclosed
from spinney.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace
from spinney.privacy.release import Exact, Shares
from spinney.privacy.scopes import (
    ALL_ROWS,
    Budget,
    Disclosure,
    Protection,
    Question,
    Spend,
    View,
)

RECORD = Unit.RECORD_ADD_REMOVE
NOISE = DiscreteLaplace(Fraction(1, 4))
COUNTS = Exact(np.arange(8))


def ask(round_, ask_=b"level"):
    return Question.of("q3", round_, ask_)


def level(n, noise=NOISE, **more):
    return Spend(f"level {n}", noise, **more)


def noised(charges):
    return NOISE.release(COUNTS, charges[0]).values.tobytes()


@pytest.fixture
def ledger():
    with closing(Ledger.in_memory()) as made:
        made.open_job(Job.agreed("q3", "data", 5, [Budget.pure(1)]))
        yield made


@pytest.fixture
def draws(monkeypatch):
    """Count every call for secret randomness."""
    calls: list[int] = []

    def spied(drawn):
        def spy(count):
            calls.append(count)
            return drawn(count)

        return spy

    for name in ("words", "secret_bytes"):
        monkeypatch.setattr(entropy, name, spied(getattr(entropy, name)))
    return calls


# ---------------------------------------------------------------------- reserve, draw, commit


def test_one_noisy_round(ledger):
    reply = ledger.answer(ask(0), [level(0)], noised)

    assert len(reply) == 64
    assert ledger.spent("q3", RECORD) == Fraction(1, 4)
    assert ledger.left("q3", RECORD) == Fraction(3, 4)


def test_a_question_asked_again_gets_the_same_bytes_and_costs_nothing(ledger, draws):
    first = ledger.answer(ask(0), [level(0)], noised)
    drawn = len(draws)
    assert drawn > 0

    assert ledger.answer(ask(0), [level(0)], noised) == first
    assert len(draws) == drawn
    assert ledger.spent("q3", RECORD) == Fraction(1, 4)


def test_a_refused_charge_draws_nothing_and_writes_nothing(ledger, draws):
    for n in range(4):
        ledger.answer(ask(n), [level(n)], noised)
    drawn, entries = len(draws), len(ledger.entries())

    with pytest.raises(BudgetError, match=r"^Charge refused for level 4: asked epsilon=0.25, left"):
        ledger.answer(ask(4), [level(4)], noised)

    assert len(draws) == drawn
    assert len(ledger.entries()) == entries


def test_a_budget_smaller_than_one_release_refuses_the_first(draws):
    with closing(Ledger.in_memory()) as ledger:
        ledger.open_job(Job.agreed("q3", "data", 5, [Budget.pure(0.1)]))
        message = (
            "Charge refused for level 4: asked epsilon=0.25, left epsilon=0.1. "
            "Nothing was released."
        )
        with pytest.raises(BudgetError) as caught:
            ledger.answer(ask(0), [level(4)], noised)
    assert str(caught.value) == message
    assert draws == []


def test_a_reserved_question_stays_charged_and_is_not_charged_again(ledger):
    ledger.reserve(ask(0), [level(0)])
    assert ledger.spent("q3", RECORD) == Fraction(1, 4)

    (charge,) = ledger.reserve(ask(0), [level(0)])

    assert ledger.spent("q3", RECORD) == Fraction(1, 4)
    assert ledger.commit(ask(0), noised((charge,))) == ledger.stored_reply(ask(0))


def test_a_reserved_question_that_is_answered_otherwise_is_charged_again(ledger):
    ledger.reserve(ask(0), [level(0)])
    ledger.reserve(ask(0), [level(0, DiscreteLaplace(Fraction(1, 2)))])

    assert ledger.spent("q3", RECORD) == Fraction(3, 4)


def test_the_first_reply_to_be_stored_is_the_only_one(ledger):
    first, second = ledger.reserve(ask(0), [level(0)]), ledger.reserve(ask(0), [level(0)])

    assert ledger.commit(ask(0), noised(first)) == ledger.commit(ask(0), noised(second))


def test_an_answered_question_cannot_be_reserved(ledger):
    ledger.answer(ask(0), [level(0)], noised)

    with pytest.raises(LedgerError, match="The question of round 0 has been answered; send the"):
        ledger.reserve(ask(0), [level(0)])


def test_an_unpaid_reply_cannot_be_stored(ledger):
    with pytest.raises(LedgerError, match="round 0 was not reserved, so its reply cannot be"):
        ledger.commit(ask(0), b"exact counts")


def test_a_charge_pays_for_one_release(ledger):
    charges = ledger.reserve(ask(0), [level(0)])
    noised(charges)

    with pytest.raises(InternalError, match="has paid for a release already"):
        noised(charges)


def test_every_release_has_a_charge_in_the_order_of_the_spends(ledger):
    spends = [level(0, n_releases=2), level(1, DiscreteLaplace(Fraction(1, 8)))]

    charges = ledger.reserve(ask(0), spends)

    assert [charge.reason for charge in charges] == ["level 0", "level 0", "level 1"]
    assert [charge.cost.amount for charge in charges] == [Fraction(1, 4)] * 2 + [Fraction(1, 8)]
    assert [charge.entry for charge in charges] == ["3", "3", "4"]
    assert ledger.spent("q3", RECORD) == Fraction(5, 8)


def test_a_batch_is_paid_for_together_or_not_at_all(ledger):
    with pytest.raises(BudgetError, match=r"refused for level 0 and level 1: asked epsilon=1.25"):
        ledger.reserve(ask(0), [level(0, n_releases=4), level(1)])

    assert ledger.spent("q3", RECORD) == 0


def test_the_cost_is_computed_from_the_parameters(ledger):
    """In shares a Gaussian costs more per number; the entry holds what the mechanism says."""
    ledger.open_job(Job.agreed("z", "data", 5, [Budget.zcdp(4, 1e-6)]))
    gaussian = DiscreteGaussian(Fraction(1, 8), shares=Shares(5))
    question = Question.of("z", 0, b"")

    (charge,) = ledger.reserve(question, [Spend("counts", gaussian, n_values=8)])

    assert charge.cost == gaussian.cost(8) != gaussian.cost(1)
    assert gaussian.release(COUNTS, charge).shape == (8,)
    entry = next(e.body for e in ledger.entries() if isinstance(e.body, Charged))
    assert entry.parameters == gaussian.parameters()
    assert (entry.t_honest, entry.n_parties, entry.data) == (3, 5, "data")
    assert entry.cost == charge.cost


def test_pure_noise_in_a_zcdp_job_costs_half_its_square(ledger):
    ledger.open_job(Job.agreed("z", "data", 5, [Budget.zcdp(4, 1e-6)]))
    (charge,) = ledger.reserve(Question.of("z", 0, b""), [level(0)])

    assert ledger.spent("z", RECORD) == Fraction(1, 32)
    assert NOISE.release(COUNTS, charge).shape == (8,)


def test_checking_first_charges_nothing(ledger):
    ledger.check("q3", [level(0, n_releases=4)])
    with pytest.raises(BudgetError, match=r"asked epsilon=1.25, left epsilon=1"):
        ledger.check("q3", [level(0, n_releases=5)])

    assert ledger.spent("q3", RECORD) == 0


def test_an_exact_release_is_on_the_record_before_it_leaves(ledger):
    exact = Disclosure("bin means", Protection.UNPROTECTED, "exact", (RECORD,), (View.PARTY,))

    assert ledger.answer(ask(0), [], lambda charges: repr(charges).encode(), [exact]) == b"()"
    assert ledger.answer(ask(0), [], lambda _: b"fresh", [exact]) == b"()"
    (entry,) = (e.body for e in ledger.entries() if isinstance(e.body, Disclosed))
    assert entry == Disclosed(ask(0), "data", exact, 3, 5)


def test_seeded_noise_is_on_the_record(ledger):
    with entropy.seeded_for_tests(0):
        ledger.answer(ask(0), [level(0)], noised)
    ledger.answer(ask(1), [level(1)], noised)

    seeded = [e.body.is_seeded for e in ledger.entries() if isinstance(e.body, Charged)]
    assert seeded == [True, False]


def test_noise_that_needs_more_honest_parties_than_promised_is_refused(ledger):
    shares = DiscreteLaplace(Fraction(1, 4), shares=Shares(5, 4))

    with pytest.raises(
        SettingError, match="of which 4 must be honest; job 'q3' has 5 and promises"
    ):
        ledger.reserve(ask(0), [level(0, shares)])


# ------------------------------------------------------------------------- jobs and budgets


def test_an_unknown_job_is_refused(ledger):
    with pytest.raises(LedgerError, match=r"The ledger knows no job 'q4'. Open the job first"):
        ledger.reserve(Question.of("q4", 0, b""), [level(0)])
    with pytest.raises(LedgerError, match="The ledger knows no job 'q4'"):
        ledger.job("q4")


def test_a_job_is_resumed_on_its_terms_only(ledger):
    terms = ledger.job("q3")
    entries = len(ledger.entries())
    ledger.open_job(terms)
    assert len(ledger.entries()) == entries

    with pytest.raises(
        LedgerError, match="Job 'q3' was opened on other terms, which cannot change"
    ):
        ledger.open_job(Job.agreed("q3", "data", 5, [Budget.pure(2)]))


def test_all_jobs_debit_the_life_of_the_data_set(ledger):
    ledger.allow_for_life("data", [Budget.pure(Fraction(3, 2))])
    ledger.reserve(ask(0), [level(0, n_releases=4)])
    ledger.open_job(Job.agreed("q4", "data", 5, [Budget.pure(1)]))
    ledger.reserve(Question.of("q4", 0, b""), [level(0, n_releases=2)])

    assert ledger.left_for_life("data", RECORD) == 0
    with pytest.raises(
        BudgetError, match="more than is left for the life of the data set"
    ) as caught:
        ledger.reserve(Question.of("q4", 1, b""), [level(1)])
    assert caught.value.local == "Left epsilon=0."
    assert ledger.left("q4", RECORD) == Fraction(1, 2)


def test_another_data_set_has_a_life_of_its_own(ledger):
    ledger.allow_for_life("data", [Budget.pure(Fraction(1, 4))])
    ledger.open_job(Job.agreed("q4", "other data", 5, [Budget.pure(1)]))
    ledger.reserve(Question.of("q4", 0, b""), [level(0, n_releases=4)])

    assert ledger.left_for_life("data", RECORD) == Fraction(1, 4)
    assert ledger.left_for_life("other data", RECORD) is None


def test_a_new_budget_for_life_counts_what_was_spent_before(ledger):
    ledger.reserve(ask(0), [level(0, n_releases=2)])
    ledger.allow_for_life("data", [Budget.pure(1)])
    assert ledger.left_for_life("data", RECORD) == Fraction(1, 2)
    entries = len(ledger.entries())
    ledger.allow_for_life("data", [Budget.pure(1)])
    assert len(ledger.entries()) == entries

    ledger.allow_for_life("data", [Budget.pure(Fraction(1, 4))])
    with pytest.raises(BudgetError, match="life of the data set") as caught:
        ledger.reserve(ask(1), [level(1)])
    assert caught.value.local == "Left epsilon=0."


def test_a_life_in_zcdp_holds_pure_and_zcdp_jobs(ledger):
    ledger.allow_for_life("data", [Budget.zcdp(4, 1e-6)])
    ledger.reserve(ask(0), [level(0)])
    ledger.open_job(Job.agreed("z", "data", 5, [Budget.zcdp(2, 1e-6)]))
    gaussian = DiscreteGaussian(Fraction(1, 100))
    ledger.reserve(Question.of("z", 0, b""), [Spend("counts", gaussian)])

    spent = Budget.zcdp(4, 1e-6).amount - ledger.left_for_life("data", RECORD)
    assert spent == Fraction(1, 32) + Fraction(1, 100)
    with pytest.raises(SettingError, match="A zCDP charge has no pure epsilon"):
        ledger.allow_for_life("data", [Budget.pure(9)])


def test_a_zcdp_job_does_not_fit_a_pure_life(ledger):
    ledger.allow_for_life("data", [Budget.pure(9)])

    with pytest.raises(
        SettingError, match="Job 'z' counts zCDP, which has no price in pure epsilon"
    ):
        ledger.open_job(Job.agreed("z", "data", 5, [Budget.zcdp(2, 1e-6)]))


def test_a_life_needs_a_budget(ledger):
    with pytest.raises(SettingError, match="The life of a data set needs at least one budget"):
        ledger.allow_for_life("data", [])


def test_a_job_without_a_budget_is_counted_and_never_refused(ledger):
    ledger.open_job(Job.agreed("faithful", "data", 5))
    ledger.reserve(Question.of("faithful", 0, b""), [level(0, n_releases=900)])

    assert ledger.spent("faithful", RECORD) == 225
    assert ledger.left("faithful", RECORD) is None


def test_a_label_budget_stands_beside_a_record_budget(ledger):
    budgets = [Budget.pure(1), Budget.pure(3, Unit.LABEL)]
    ledger.open_job(Job.agreed("both", "data", 5, budgets))
    ledger.reserve(Question.of("both", 0, b""), [level(0, n_releases=4)])

    assert ledger.left("both", RECORD) == 0
    assert ledger.left("both", Unit.LABEL) == 1


# ---------------------------------------------------------------------- published Algorithm 6


def published_algorithm_6(ledger, job, p, *, corrected):
    """Charge S3's Algorithm 6 at a claimed epsilon of 1: 4 levels, leaf .5, bounds .25."""
    n_levels, per_level = 4, Fraction(1, 2) / 4
    bounds = DiscreteLaplace(per_level / 4 / (p if corrected else 1))
    histograms = DiscreteLaplace(per_level * 3 / 4 / p)
    nodes = [ALL_ROWS.again("tree 0")]
    for depth in range(n_levels):
        spends = [
            Spend(f"bounds of level {depth}", bounds, tuple(nodes), p),
            Spend(f"histograms of level {depth}", histograms, tuple(nodes), p),
        ]
        ledger.reserve(Question.of(job, depth, b""), spends)
        nodes = [node.part(f"x{depth}<1", side) for node in nodes for side in ("left", "right")]
    leaves = Spend("leaves", DiscreteLaplace(Fraction(1, 2)), tuple(nodes))
    ledger.reserve(Question.of(job, n_levels, b""), [leaves])


@pytest.mark.parametrize(("p", "true_epsilon"), [(10, "2.125"), (25, "4"), (50, "7.125")])
def test_published_algorithm_6_costs_more_than_it_claims_and_is_refused(ledger, p, true_epsilon):
    ledger.open_job(Job.agreed("counted", "data", 5))
    published_algorithm_6(ledger, "counted", p, corrected=False)
    assert ledger.spent("counted", RECORD) == Fraction(true_epsilon)

    with pytest.raises(BudgetError, match=r"Charge refused for .* Nothing was released"):
        published_algorithm_6(ledger, "q3", p, corrected=False)
    assert ledger.spent("q3", RECORD) <= 1


@pytest.mark.parametrize("p", [10, 25, 50])
def test_corrected_algorithm_6_costs_one_exactly(ledger, p):
    published_algorithm_6(ledger, "q3", p, corrected=True)

    assert ledger.spent("q3", RECORD) == 1
    assert ledger.left("q3", RECORD) == 0


# ----------------------------------------------------------------------------- on the disk


def test_an_account_outlives_the_process(tmp_path):
    path = tmp_path / "ledger.db"
    with closing(Ledger.open(path, "north")) as ledger:
        ledger.allow_for_life("data", [Budget.pure(2)])
        ledger.open_job(Job.agreed("q3", "data", 5, [Budget.pure(1)]))
        reply = ledger.answer(ask(0), [level(0)], noised)
    with closing(Ledger.open(path, "north")) as ledger:
        assert ledger.party == "north"
        assert ledger.answer(ask(0), [level(0)], noised) == reply
        assert ledger.left("q3", RECORD) == Fraction(3, 4)
        assert ledger.left_for_life("data", RECORD) == Fraction(7, 4)
        assert ledger.job("q3").measure is Measure.PURE


def test_a_ledger_belongs_to_one_party_and_one_key(tmp_path):
    path, key = tmp_path / "ledger.db", Ed25519PrivateKey.generate()
    Ledger.open(path, "north", key=key).close()
    Ledger.open(path, "north", key=key).close()

    with pytest.raises(LedgerError, match="This is the ledger of party 'north', not of 'south'"):
        Ledger.open(path, "south", key=key)
    for other in (None, Ed25519PrivateKey.generate()):
        with pytest.raises(LedgerError, match="begun with another signing key, or with none"):
            Ledger.open(path, "north", key=other)


def test_a_ledger_opened_to_be_read_exists_and_is_not_written(tmp_path):
    path = tmp_path / "ledger.db"
    with pytest.raises(LedgerError, match="There is no ledger in this place"):
        Ledger.open(path)
    assert not path.exists()
    Ledger.open(path, "north").close()
    with closing(Ledger.open(path)) as ledger:
        assert ledger.verify().seq == 1
        with pytest.raises(LedgerError, match=r"opened to be read only. Name its party to write"):
            ledger.open_job(Job.agreed("q3", "data", 5))


def test_a_ledger_without_a_first_entry_is_nobodys(tmp_path):
    path = tmp_path / "ledger.db"
    path.touch()
    with closing(Ledger.open(path)) as ledger, pytest.raises(LedgerError, match="ledger is empty"):
        ledger.verify()


def test_an_overspent_ledger_does_not_pass_verification(tmp_path):
    """Only a program that skips the check could write it; the chain itself is sound."""
    path = tmp_path / "ledger.db"
    with closing(Ledger.open(path, "north")) as ledger:
        ledger.open_job(Job.agreed("q3", "data", 5, [Budget.pure(1)]))
        ledger.reserve(ask(0), [level(0, n_releases=4)])
        body = ledger.entries()[-1].body
        with ledger._turn("forge"):
            ledger._write([body])
        with pytest.raises(LedgerError, match="Entry 4 of the ledger spends more than was left"):
            ledger.verify()


def test_entries_out_of_place_are_found(ledger):
    first = ledger.entries()[0].body
    with (
        pytest.raises(LedgerError, match="Entry 3 of the ledger is out of place"),
        ledger._turn("forge"),
    ):
        ledger._write([first])


def test_threads_of_one_party_share_a_ledger(ledger):
    def spend(n):
        try:
            return ledger.answer(ask(n), [level(n)], noised)
        except BudgetError:
            return None

    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(spend, range(12)))

    assert sum(reply is not None for reply in replies) == 4
    assert ledger.spent("q3", RECORD) == 1
    ledger.verify()


def run(script, *arguments):
    """Start another process on the ledger."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def outputs_of_both(script, path):
    """Run the script as two processes that start their work at the same moment."""
    processes = [run(script, path, name) for name in ("first", "second")]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    return [process.communicate(timeout=120)[0].split() for process in processes]


PRELUDE = """
    import os, signal, sys, time
    from fractions import Fraction
    from spinney.errors import BudgetError
    from spinney.privacy.accounting import Job
    from spinney.privacy.ledger import Ledger
    from spinney.privacy.mechanisms import DiscreteLaplace
    from spinney.privacy.scopes import Budget, Question, Spend
    NOISE = DiscreteLaplace(Fraction(1, 40))
"""


def test_two_coordinators_at_once_cannot_overspend_one_account(tmp_path):
    path = tmp_path / "ledger.db"
    script = (
        PRELUDE
        + """
    path, me = sys.argv[1:]
    print("ready", flush=True)
    sys.stdin.readline()
    ledger = Ledger.open(path, "north")
    ledger.allow_for_life("data", [Budget.pure(1)])
    ledger.open_job(Job.agreed(me, "data", 5, [Budget.pure(1)]))
    paid = 0
    for n in range(60):
        try:
            ledger.answer(Question.of(me, n, b""), [Spend("counts", NOISE)], lambda _: b"reply")
            paid += 1
        except BudgetError:
            pass
        time.sleep(0.001)  # lets the other one in
    print(paid)
    """
    )
    paid = [int(output) for (output,) in outputs_of_both(script, path)]

    assert sum(paid) == 40
    with closing(Ledger.open(path)) as ledger:
        assert ledger.left_for_life("data", RECORD) == 0
        ledger.verify()


def test_two_processes_with_one_question_send_the_same_bytes(tmp_path):
    path = tmp_path / "ledger.db"
    script = (
        PRELUDE
        + """
    path, me = sys.argv[1:]
    print("ready", flush=True)
    sys.stdin.readline()
    ledger = Ledger.open(path, "north")
    ledger.open_job(Job.agreed("q", "data", 5, [Budget.pure(1)]))
    for n in range(30):
        question = Question.of("q", n, b"")
        print(ledger.answer(question, [Spend("counts", NOISE)], lambda _: os.urandom(8)).hex())
    """
    )
    first, second = outputs_of_both(script, path)

    assert len(first) == 30
    assert first == second
    with closing(Ledger.open(path)) as ledger:
        assert ledger.spent("q", RECORD) == Fraction(30, 40)


def test_a_question_that_another_process_has_just_answered_gets_that_reply(tmp_path):
    path = tmp_path / "ledger.db"
    with closing(Ledger.open(path, "north")) as other:
        other.open_job(Job.agreed("q3", "data", 5, [Budget.pure(1)]))

        def overtake(step):
            if step == "reserve: asked":
                other.answer(ask(0), [level(0)], lambda _: b"theirs")

        with closing(Ledger.open(path, "north", watch=overtake)) as ledger:
            assert ledger.answer(ask(0), [level(0)], lambda _: b"ours") == b"theirs"
            assert ledger.spent("q3", RECORD) == Fraction(1, 4)


def test_nobody_else_charges_between_the_check_and_the_entry(tmp_path):
    path = tmp_path / "ledger.db"
    locked = []
    with closing(Ledger.open(path, "north", busy_seconds=0.01)) as other:
        other.open_job(Job.agreed("q3", "data", 5, [Budget.pure(Fraction(1, 4))]))

        def intrude(step):
            if step == "reserve: locked":
                with pytest.raises(LedgerError, match="locked by another process"):
                    other.reserve(ask(1), [level(1)])
                locked.append(step)

        with closing(Ledger.open(path, "north", watch=intrude)) as ledger:
            ledger.reserve(ask(0), [level(0)])
        assert locked
        with pytest.raises(BudgetError, match="left epsilon=0"):
            other.reserve(ask(1), [level(1)])


def test_a_charge_is_on_disk_before_it_is_handed_out(tmp_path):
    path = tmp_path / "ledger.db"
    seen: dict[str, object] = {}
    with closing(Ledger.open(path, "north")) as other:
        other.open_job(Job.agreed("q3", "data", 5, [Budget.pure(1)]))

        def look(step):
            if step == "reserve: on disk":
                seen["spent"] = other.spent("q3", RECORD)
            if step == "commit: on disk":
                seen["reply"] = other.stored_reply(ask(0))

        with closing(Ledger.open(path, "north", watch=look)) as ledger:
            reply = ledger.answer(ask(0), [level(0)], noised)
    assert seen == {"spent": Fraction(1, 4), "reply": reply}


def test_a_ledger_that_another_process_has_just_begun_is_shared(tmp_path):
    path = tmp_path / "ledger.db"
    others = []

    def overtake(step):
        if step == "begin: asked":
            others.append(Ledger.open(path, "north"))

    with closing(Ledger.open(path, "north", watch=overtake)) as ledger, closing(others[0]):
        assert ledger.verify().seq == 1


STEPS = [
    f"{verb}: {step}"
    for verb in ("reserve", "commit")
    for step in ("asked", "locked", "written", "on disk")
]


@pytest.mark.parametrize("step", [*STEPS, "draw", "drawn", "send"])
def test_a_process_killed_at_any_step_has_paid_for_what_it_drew(tmp_path, step):
    path = tmp_path / "ledger.db"
    script = (
        PRELUDE
        + """
    path, deadly = sys.argv[1:]
    def log(text):
        print(text, flush=True)
    def watch(step):
        if step == deadly and armed:
            os.kill(os.getpid(), signal.SIGKILL)
    def draw(charges):
        watch("draw")
        log("drawn")
        watch("drawn")
        return os.urandom(8)
    armed = False
    ledger = Ledger.open(path, "north", watch=watch)
    ledger.open_job(Job.agreed("q", "data", 5, [Budget.pure(Fraction(3, 40))]))
    for n in range(3):
        armed = n == 1
        reply = ledger.answer(Question.of("q", n, b""), [Spend("counts", NOISE)], draw)
        watch("send")
        log(f"sent {n} {reply.hex()}")
    """
    )
    process = run(script, path, step)
    lines = process.communicate(timeout=120)[0].splitlines()
    assert process.returncode == -9
    sent = dict(line.split()[1:] for line in lines if line.startswith("sent"))

    with closing(Ledger.open(path, "north")) as ledger:
        ledger.verify()
        assert ledger.spent("q", RECORD) >= Fraction(lines.count("drawn"), 40)
        assert ledger.stored_reply(Question.of("q", 0, b"")) == bytes.fromhex(sent["0"])
        noise = DiscreteLaplace(Fraction(1, 40))
        for n in range(3):  # the job can still be finished within its budget
            ledger.answer(Question.of("q", n, b""), [Spend("counts", noise)], lambda _: b"later")
        assert ledger.spent("q", RECORD) == Fraction(3, 40)
