"""Secure sums: how much longer a whole forest takes with them, and the speed of their parts.

The forest: 200,000 x 30 drawn rows at five parties, with and without masks, in turns; the ratio is
to be at most 1.5. The parts, on one core: counters masked per second and party pair, set-up,
rounds. Run: python benchmarks/bench_masking.py [--fast] [--parts-only 1]
"""

import warnings
from functools import partial
from time import perf_counter

import numpy as np

from data import drawn
from harness import CORES, arguments, foreign, interleaved, median, ratio, save, table
from spinney import HorizontalForestClassifier, deal_rows
from spinney.errors import PrivacyLeakWarning
from spinney.privacy.keys import KeyPair, Roster, SumSettings
from spinney.privacy.masking import SecureSumCoordinator, SecureSumParty
from spinney.privacy.streams import add_stream


def best_of(repeats, work):
    times = []
    for _ in range(repeats):
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    return min(times)


def federation(n_parties):
    pairs = {f"p{i:02}": KeyPair.fresh() for i in range(n_parties)}
    roster = Roster.of({name: pair.public for name, pair in pairs.items()})
    settings = SumSettings.of("bench", roster)
    parties = {name: SecureSumParty(settings, name, pair) for name, pair in pairs.items()}
    return parties, SecureSumCoordinator(settings)


def set_up(parties, coordinator):
    ask = coordinator.begin_epoch()
    for party in parties.values():
        coordinator.add_keys(party.make_keys(ask))
    for name, shares in coordinator.end_keys().items():
        parties[name].take_shares(shares)


def one_round(parties, coordinator, vector, dropped=()):
    ask = coordinator.begin_round()
    for name, party in parties.items():
        if name not in dropped:
            coordinator.add_vector(party.mask(ask, [vector], [64]))
    unmask = coordinator.end_vectors()
    for name in unmask.survivors:
        coordinator.add_shares(parties[name].unmask(unmask))
    return coordinator.sums()


def grown(split, party, size, *, secure_sum):
    n_trees, depth = size
    forest = HorizontalForestClassifier(
        n_trees, max_depth=depth, random_state=0, secure_sum=secure_sum
    )
    return forest.fit(split.X, split.y, party=party)


def forests(n_rows, size, repeats):
    """Return a row for the forest with masks and one for that without, grown in turns."""
    split = drawn(n_rows)
    party = deal_rows(split.y, 5, random_state=0)
    cases = {
        name: partial(grown, split, party, size, secure_sum=name == "masked")
        for name in ("open", "masked")
    }
    for case in cases.values():
        case()  # compiles, and fills the caches
    samples, models = interleaved(cases, repeats)
    assert models["open"].model_.to_bytes() == models["masked"].model_.to_bytes()
    return [
        {
            "sums": name,
            "fit s": median(found),
            "x open": ratio(found, samples["open"]),
            "foreign": foreign(found),
        }
        for name, found in samples.items()
    ]


def main():
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    asked = arguments(__doc__, repeats=5, depth=10, parts_only=0)
    if not asked.parts_only:
        n_rows, n_trees = (20_000, 20) if asked.fast else (200_000, 100)
        found = forests(n_rows, (n_trees, asked.depth), 2 if asked.fast else asked.repeats)
        title = (
            f"{n_rows:,} x 30 rows, 5 parties, {n_trees} trees, depth {asked.depth}, {CORES} cores"
        )
        table(title, found)
        print(f"  ratio, masked to open: {found[1]['x open']:.2f} (at most 1.5)")
        save("masking", "median over turns; ratio: median of the turns' ratios", {title: found})
    parts()


def parts():
    print("one stream added onto counters in place")
    for bits in (32, 64):
        words = np.zeros((1 << 26) * 8 // bits, dtype=f"u{bits // 8}")
        seconds = best_of(5, lambda words=words: add_stream([words], bytes(32)))
        print(f"  {bits} bits: {words.nbytes / seconds / 1e9:.2f} GB/s")

    print("SecureSumParty.mask, 64 MB of int64: copy, fingerprint, self mask and all pair masks")
    vector = np.zeros(1 << 23, dtype=np.int64)
    for n_parties in (2, 3, 5, 10):
        parties, coordinator = federation(n_parties)
        set_up(parties, coordinator)
        ask = coordinator.begin_round()
        party = next(iter(parties.values()))
        seconds = best_of(3, lambda party=party, ask=ask: party.mask(ask, [vector], [64]))
        rate = vector.nbytes * (n_parties - 1) / seconds / 1e9
        print(f"  K={n_parties}: {seconds * 1e3:.0f} ms, {rate:.2f} GB/s per party pair")

    print("an epoch of 32 rounds, and one round of 163,840 int64, all parties in one thread")
    vector = np.zeros(163_840, dtype=np.int64)
    for n_parties in (3, 5, 10, 30):
        parties, coordinator = federation(n_parties)
        epoch = best_of(3, lambda p=parties, c=coordinator: set_up(p, c))
        whole = best_of(3, lambda p=parties, c=coordinator: one_round(p, c, vector))
        lost = best_of(3, lambda p=parties, c=coordinator: one_round(p, c, vector, ("p01",)))
        print(
            f"  K={n_parties}: epoch {epoch * 1e3:.0f} ms, round {whole * 1e3:.0f} ms, "
            f"with one dropout {lost * 1e3:.0f} ms"
        )


if __name__ == "__main__":
    main()
