"""A ledger on disk: it outlives its process, and several processes share it."""

import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from fractions import Fraction
from threading import Event

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from spinney.errors import BudgetError, LedgerError
from spinney.privacy.accounting import JobTerms
from spinney.privacy.budget import Measure
from spinney.privacy.ledger import Ledger
from spinney.privacy.mechanisms import DiscreteLaplace
from spinney.privacy.scopes import (
    Budget,
    Question,
    Spend,
)
from spinney.privacy.signatures import LocalKey
from unit.privacy.ledger_jobs import (  # type: ignore[import-not-found]
    RECORD,
    ask,
    level,
    noised,
)


def test_an_account_outlives_the_process(tmp_path):
    path = tmp_path / "ledger.db"
    with closing(Ledger.open(path, "north")) as ledger:
        ledger.allow_for_life("data", [Budget.pure(2)])
        ledger.open_job(JobTerms.agreed("q3", "data", 5, [Budget.pure(1)]))
        reply = ledger.answer(ask(0), [level(0)], noised)
    with closing(Ledger.open(path, "north")) as ledger:
        assert ledger.party == "north"
        assert ledger.answer(ask(0), [level(0)], noised) == reply
        assert ledger.left("q3", RECORD) == Fraction(3, 4)
        assert ledger.left_for_life("data", RECORD) == Fraction(7, 4)
        assert ledger.job("q3").measure is Measure.PURE


def test_a_ledger_belongs_to_one_party_and_is_signed_to_its_end(tmp_path):
    path, key = tmp_path / "ledger.db", LocalKey(Ed25519PrivateKey.generate())
    Ledger.open(path, "north", key=key).close()
    Ledger.open(path, "north", key=key).close()

    with pytest.raises(LedgerError, match="This is the ledger of party 'north', not of 'south'"):
        Ledger.open(path, "south", key=key)
    with pytest.raises(LedgerError, match=r"entries are signed\. Open it with the party's key"):
        Ledger.open(path, "north")
    renewed = LocalKey(Ed25519PrivateKey.generate())
    with closing(Ledger.open(path, "north", key=renewed)) as ledger:
        assert ledger.verify().seq == 2  # the new key signs that it takes over
        assert ledger.books.keys == [key.public_key, renewed.public_key]


def test_a_ledger_opened_to_be_read_exists_and_is_not_written(tmp_path):
    path = tmp_path / "ledger.db"
    with pytest.raises(LedgerError, match="The ledger file does not exist"):
        Ledger.open(path)
    assert not path.exists()
    Ledger.open(path, "north").close()
    with closing(Ledger.open(path)) as ledger:
        assert ledger.verify().seq == 1
        with pytest.raises(LedgerError, match=r"opened read-only. Name its party to write"):
            ledger.open_job(JobTerms.agreed("q3", "data", 5))


def test_a_ledger_without_a_first_entry_is_nobodys(tmp_path):
    path = tmp_path / "ledger.db"
    path.touch()
    with closing(Ledger.open(path)) as ledger, pytest.raises(LedgerError, match="ledger is empty"):
        ledger.verify()


def test_an_overspent_ledger_does_not_pass_verification(tmp_path):
    """Only a program that skips the check could write it; the chain itself is sound."""
    path = tmp_path / "ledger.db"
    with closing(Ledger.open(path, "north")) as ledger:
        ledger.open_job(JobTerms.agreed("q3", "data", 5, [Budget.pure(1)]))
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
    from spinney.privacy.accounting import JobTerms
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
    ledger.open_job(JobTerms.agreed(me, "data", 5, [Budget.pure(1)]))
    paid = 0
    for n in range(60):
        try:
            ledger.answer(Question.of(me, n, b""), [Spend("counts", NOISE)], lambda _: b"reply")
            paid += 1
        except BudgetError:
            pass
        time.sleep(0.001)  # gives the other process a turn
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
    ledger.open_job(JobTerms.agreed("q", "data", 5, [Budget.pure(1)]))
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
        other.open_job(JobTerms.agreed("q3", "data", 5, [Budget.pure(1)]))

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
        other.open_job(JobTerms.agreed("q3", "data", 5, [Budget.pure(Fraction(1, 4))]))

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
        other.open_job(JobTerms.agreed("q3", "data", 5, [Budget.pure(1)]))

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
    ledger.open_job(JobTerms.agreed("q", "data", 5, [Budget.pure(Fraction(3, 40))]))
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


def test_a_ledger_is_closed_only_after_others_are_done_with_it(tmp_path):
    """SQLite crashes the process if one thread closes what another one reads."""
    begun, free = Event(), Event()

    def hold(step):
        if step == "allow: locked":
            begun.set()
            assert free.wait(300)

    ledger = Ledger.open(tmp_path / "ledger.db", "north", watch=hold)
    with ThreadPoolExecutor(2) as pool:
        writing = pool.submit(ledger.allow_for_life, "data", [Budget.pure(1)])
        assert begun.wait(300)
        closing_it = pool.submit(ledger.close)
        assert not wait([closing_it], 0.2).done
        free.set()
        writing.result()
        closing_it.result()
    with pytest.raises(LedgerError, match=r"cannot be read or written\. Nothing was released"):
        ledger.anchor()
