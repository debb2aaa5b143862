"""Speed of secure sums on one core: counters masked per second and party pair, set-up, rounds.

Run: python benchmarks/bench_masking.py
"""

from time import perf_counter

import numpy as np

from spinney.privacy.keys import KeyPair, Roster, SumSettings, add_stream
from spinney.privacy.masking import SecureSumCoordinator, SecureSumParty


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


def main():
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
