"""Noise and ledger on one core: shares drawn per second by decay and t, charges per second.

At least 2 million shares per second are asked for, also of noise so wide that no table holds it.
Times are CPU times. Run: python benchmarks/bench_noise.py [--fast]
"""

from contextlib import closing
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

from harness import arguments, save, table, timed_by_cpu
from spinney.privacy import samplers
from spinney.privacy.accounting import JobTerms
from spinney.privacy.ledger import Ledger
from spinney.privacy.mechanisms import DiscreteLaplace
from spinney.privacy.scopes import ALL_ROWS, Budget, Question, Spend

DECAYS = ("1", "1/10", "1/100", "1/4096", "1/4097", "1/100000", "1/1000000000")
HONEST = (1, 2, 3, 5, 10)


def rate(decay: Fraction, honest: int, count: int) -> float:
    """Return the best of three rates, in millions of shares per second."""
    samplers.shares(decay, honest, 1)  # makes the tables
    seconds = [
        timed_by_cpu(lambda: samplers.shares(decay, honest, count))[0].seconds for _ in range(3)
    ]
    return count / min(seconds) / 1e6


def charges(folder: str, count: int) -> dict[str, float]:
    """Return how many charges per second a ledger takes, in memory and on disk."""
    noise = DiscreteLaplace(Fraction(1, 1000 * count))
    places = {"in memory": Ledger.in_memory(), "on disk": Ledger.open(Path(folder) / "l.db", "a")}
    found = {}
    for name, opened in places.items():
        with closing(opened) as ledger:
            ledger.allow_for_life("data", [Budget.pure(1)])
            ledger.open_job(JobTerms.agreed("q", "data", 5, [Budget.pure(1)]))

            def reserve(ledger: Ledger = ledger) -> None:
                for n in range(count):
                    scope = ALL_ROWS.part("a<1", str(n % 7)).part("b<1", str(n % 5))
                    question = Question.of("q", n, b"")
                    ledger.reserve(question, [Spend("counts", noise, (scope,))])

            found[name] = count / timed_by_cpu(reserve)[0].seconds
    return found


def main() -> None:
    asked = arguments(__doc__)
    count = 100_000 if asked.fast else 2_000_000
    shares = [
        {"decay": decay, **{f"t={t}": rate(Fraction(decay), t, count) for t in HONEST}}
        for decay in DECAYS
    ]
    with TemporaryDirectory() as folder:
        ledgers = [charges(folder, 100 if asked.fast else 1000)]
    tables = {"million shares per second of CPU time": shares, "charges per second": ledgers}
    for title, rows in tables.items():
        table(title, rows)
    least = min(value for row in shares for key, value in row.items() if key != "decay")
    print(f"  least: {least:.2f} million shares per second (at least 2)")
    save("noise", "best of three; CPU time", tables)


if __name__ == "__main__":
    main()
