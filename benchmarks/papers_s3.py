"""S3's simulation, with what beats it at the same composed epsilon: one command, table and figures.

Gubler (2023), section 4: two classes, each a mixture of five Gaussians with means +-i/5 in every
column and covariance rho^|i-j|; five parties with n/5 rows each; ten bins, ten rows to a leaf, half
of the budget for leaves, a quarter of a node's for bounds. Ranges are public: -4 to 4. As in the
paper all parties' shares of noise count (t = K), n is the number of training rows, and a fresh test
set is drawn every time. Every job runs the protocols themselves, ledgers included, and each ledger
is checked to show epsilon exactly; only masks, which change no number, are left out.

What is done is kept in results/papers_s3.jsonl: run it again to go on. `--repetitions 24` is what
the acceptance asks for. Run: python benchmarks/papers_s3.py [--fast] [--repetitions N]
"""

import json
import logging
from fractions import Fraction
from importlib import import_module
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from sklearn.tree import DecisionTreeClassifier

from harness import RESULTS, arguments, save, table
from spinney.privacy.budget import Unit
from spinney.privacy.ledger import Ledger
from spinney.protocols import private_forest, private_tree
from spinney.protocols.paying import ClaimsAsk, ClaimsReply
from spinney.protocols.private_settings import PrivacySettings
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MatrixColumns, MemoryTable
from spinney.transport.channel import Channel

SIZES, COLUMNS, DEPTHS, RHOS = (250, 1000), (10, 25, 50), (5, 10), (0.3, 0.9)
EPSILONS = (0.5, 1.0, 2.0, 5.0, 10.0)
N_PARTIES, N_TEST, RANGE = 5, 2000, (-4.0, 4.0)
REPETITIONS = 24
KEPT = RESULTS / "papers_s3.jsonl"
PARTS = {
    "sums": ("forest", "histograms", "noisy_max"),
    "propose": ("propose",),
    "save_budget": ("save_budget",),
}
TREE = {"min_samples_leaf": 10, "n_bins": 10, "bounds_share": "1/4"}
LABELS = {
    "histograms": "S3 Algorithm 5",
    "save_budget": "S3 Algorithm 6, corrected",
    "propose": "propose",
    "noisy_max": "noisy max",
    "forest": "private forest",
    "central": "central tree, no privacy",
    "local": "local tree, no privacy",
}


def mixture(n: int, p: int, rho: float, random: np.random.Generator) -> tuple[Any, Any]:
    """Draw rows and classes as in section 4.1.1 of the paper."""
    classes = np.repeat([0, 1], [n // 2, n - n // 2])
    covariance = rho ** np.abs(np.subtract.outer(np.arange(p), np.arange(p)))
    mean = random.integers(1, 6, n) / 5 * np.where(classes == 0, 1, -1)
    rows = random.standard_normal((n, p)) @ np.linalg.cholesky(covariance).T + mean[:, None]
    order = random.permutation(n)
    return rows[order].astype(np.float32), classes[order]


class Unmasked(Channel):
    """Sums without masks, of whatever leaves the parties: for simulations that only count."""

    def __init__(self, parties: dict[str, Any]) -> None:
        self.parties = tuple(parties)
        self.rounds = []
        self._party = parties

    def ask(self, ask: Any, **_: Any) -> dict[str, Any]:
        if isinstance(ask, ClaimsAsk):  # the ledgers are looked at once, in `spent`
            return {name: ClaimsReply(()) for name in self.parties}
        return {name: self._party[name].answer(ask) for name in self.parties}

    def sum(self, ask: Any, **_: Any) -> Any:
        replies = (ask.to_ring(party.answer(ask)) for party in self._party.values())
        return ask.from_ring(tuple(map(sum, zip(*replies, strict=True))))


class Federation:
    """Five parties with a share of the rows each, and ledgers; they take part in job after job."""

    def __init__(
        self, X: Any, y: Any, schema: Schema, n_parties: int = N_PARTIES, honest: int | None = 0
    ) -> None:
        self._honest = n_parties if honest == 0 else honest  # 0: all, as the paper assumes
        self.n_rows, self.schema, self._n_jobs = len(y), schema, 0
        self._ledger = {f"party {k}": Ledger.in_memory(f"party {k}") for k in range(n_parties)}
        self._party: dict[str, dict[str, Any]] = {"tree": {}, "forest": {}}
        for k, name in enumerate(self._ledger):
            rows = slice(k, None, n_parties)
            held = MemoryTable(schema, MatrixColumns(X[rows]), y[rows].astype(np.int32))
            for kind, protocol in (("tree", private_tree), ("forest", private_forest)):
                self._party[kind][name] = protocol.Party(held, n_jobs=1, ledger=self._ledger[name])

    def privacy(self, epsilon: float) -> PrivacySettings:
        self._n_jobs += 1
        return PrivacySettings(
            job=f"job {self._n_jobs}",
            epsilon=str(_fraction(epsilon)),
            tree_rows="all",
            leaf_share="1/2",
            in_shares=True,
            honest=self._honest,
        )

    def tree(self, method: str, epsilon: float, max_depth: int, **more: Any) -> Any:
        """Return a tree's model; but for Algorithm 5, no deeper than n is good for."""
        settings = {"n_rows": self.n_rows, "max_depth": max_depth} | TREE | more
        made = private_tree.Settings(privacy=self.privacy(epsilon), method=method, **settings)
        return self._trained(private_tree.train, "tree", made, epsilon)

    def forest(self, epsilon: float, seed: int, **more: Any) -> Any:
        """Return a forest's model."""
        made = private_forest.Settings(privacy=self.privacy(epsilon), seed=seed, **more)
        return self._trained(private_forest.train, "forest", made, epsilon)

    def _trained(self, train: Any, kind: str, settings: Any, epsilon: float) -> Any:
        training = train(Unmasked(self._party[kind]), settings)
        for ledger in self._ledger.values():
            spent = ledger.spent(settings.privacy.job, Unit.RECORD_ADD_REMOVE)
            assert spent == _fraction(epsilon), f"{settings} cost {spent}"
        return training.model


def _fraction(epsilon: float) -> Fraction:
    return Fraction(str(epsilon))


# --- the grid ------------------------------------------------------------------------------------


def one_draw(part: str, n: int, p: int, rho: float, repetition: int) -> dict[str, Any]:
    """Return the accuracy of a part of the methods, by depth and epsilon, on one draw of data."""
    random = np.random.default_rng([n, p, int(10 * rho), repetition])
    X, y = mixture(n, p, rho, random)
    test, truth = mixture(N_TEST, p, rho, random)
    columns = tuple(Column(f"x{j}", "number", RANGE) for j in range(p))
    # Shares of noise that all K parties must give add up to that of one party, exactly, and counts
    # do anyway: what only sees sums is run as one party, which is five times as fast.
    n_parties = N_PARTIES if part in ("propose", "save_budget") else 1
    parties = Federation(X, y, Schema(columns, Label("class", "class", (0, 1))), n_parties)
    held_out = MatrixColumns(test)

    def accuracy(model: Any) -> float:
        return float(np.mean(model.predict(held_out).argmax(axis=1) == truth))

    found = {}
    for method, epsilon in product(PARTS[part], EPSILONS):
        if method == "forest":
            found[f"forest {epsilon}"] = accuracy(parties.forest(epsilon, repetition))
            continue
        for depth in DEPTHS:
            found[f"{method} {depth} {epsilon}"] = accuracy(parties.tree(method, epsilon, depth))
    if part == "sums":
        for depth, (name, step) in product(DEPTHS, (("central", 1), ("local", N_PARTIES))):
            exact = DecisionTreeClassifier(max_depth=depth, min_samples_leaf=10, random_state=0)
            exact.fit(X[::step], y[::step])
            found[f"{name} {depth}"] = float(exact.score(test, truth))
    facts = {"part": part, "n": n, "p": p, "rho": rho, "repetition": repetition}
    return facts | {"accuracy": found}


def swept(repetitions: int) -> list[dict[str, Any]]:
    """Return all draws, those made before included; each is kept as soon as it is made."""
    RESULTS.mkdir(exist_ok=True)
    lines = KEPT.read_text(encoding="utf-8").splitlines() if KEPT.exists() else []
    made = {_key(draw): draw for draw in map(json.loads, lines)}
    wanted = list(product(PARTS, SIZES, COLUMNS, RHOS, range(repetitions)))
    wanted.sort(key=lambda key: (list(PARTS).index(key[0]), key[-1]))
    for done, key in enumerate(wanted):
        if key in made:
            continue
        made[key] = one_draw(*key)
        with KEPT.open("a", encoding="utf-8") as file:
            file.write(json.dumps(made[key]) + "\n")
        print(f"{done + 1} of {len(wanted)}: {key}", flush=True)
    return [made[key] for key in wanted]


def _key(draw: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(draw[name] for name in ("part", "n", "p", "rho", "repetition"))


def as_frame(draws: list[dict[str, Any]]) -> pd.DataFrame:
    """Return one line for every draw, method, depth and epsilon, in points."""
    lines = []
    for draw in draws:
        facts = {name: draw[name] for name in ("n", "p", "rho", "repetition")}
        for name, accuracy in draw["accuracy"].items():
            method, *rest = name.split()
            depths = DEPTHS if method == "forest" else (int(rest[0]),)
            epsilons = EPSILONS if method in ("central", "local") else (float(rest[-1]),)
            lines += [
                {**facts, "method": method, "depth": depth, "epsilon": epsilon, "score": score}
                for depth, epsilon, score in product(depths, epsilons, [100 * accuracy])
            ]
    return pd.DataFrame(lines)


# --- tables and figures --------------------------------------------------------------------------


def overall(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return every method's mean accuracy by rho and epsilon, over sizes, columns and depths."""
    means = frame.groupby(["method", "rho", "epsilon"])["score"].mean()
    return [
        {"method": LABELS[method]}
        | {f"rho={rho} e={e:g}": round(means[method, rho, e], 1) for rho in RHOS for e in EPSILONS}
        for method in LABELS
    ]


def against_algorithm_5(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return how far each method is above Algorithm 5: in the mean, and in its worst groups."""
    cell = ["n", "p", "rho", "depth", "epsilon"]
    means = frame.pivot_table("score", cell, "method")
    errors = frame.pivot_table("score", cell, "method", aggfunc="sem")
    found = []
    for method in ("forest", "noisy_max", "propose", "save_budget"):
        ahead = means[method] - means["histograms"]
        deviation = np.hypot(errors[method], errors["histograms"])
        line = {
            "method": LABELS[method],
            "mean": round(float(ahead.mean()), 2),
            "cells better by 2 s.e.": int((ahead > 2 * deviation).sum()),
            "worse": int((ahead < -2 * deviation).sum()),
            "of": len(ahead),
        }
        for name in cell:
            groups = ahead.groupby(name).mean()
            line[f"least by {name}"] = round(float(groups.min()), 2)
        pairs = ahead.groupby(["n", "p", "rho", "depth"]).mean()
        found.append(line | {"least by curve": round(float(pairs.min()), 2)})
    return found


def above_local(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return in how many of the cells of an epsilon a method beats a party's own tree."""
    cell = ["n", "p", "rho", "depth", "epsilon"]
    means = frame.pivot_table("score", cell, "method")
    return [
        {"method": LABELS[method]}
        | {
            f"e={e:g}": f"{int((part[method] > part['local']).sum())} of {len(part)}"
            for e, part in means.groupby("epsilon")
        }
        for method in ("forest", "noisy_max", "propose", "histograms", "save_budget")
    ]


def draw_figure(frame: pd.DataFrame, n: int) -> None:
    """Draw accuracy by epsilon as in figures 3 and 4: columns and depths across, rho down."""
    pyplot = import_module("matplotlib.pyplot")
    figure, axes = pyplot.subplots(
        2, 6, figsize=(24, 8), layout="constrained", sharex=True, sharey="row"
    )
    part = frame[frame["n"] == n]
    for (row, rho), (column, (depth, p)) in product(
        enumerate(reversed(RHOS)), enumerate(product(DEPTHS, COLUMNS))
    ):
        axis = axes[row, column]
        here = part[(part["rho"] == rho) & (part["depth"] == depth) & (part["p"] == p)]
        for method, label in LABELS.items():
            means = here[here["method"] == method].groupby("epsilon")["score"].mean()
            style = ":" if method in ("central", "local") else "o-"
            axis.semilogx(means.index, means, style, label=label)
        axis.set(title=f"p={p}, depth {depth}, rho={rho}", xlabel="epsilon" if row else "")
    axes[0, 0].legend(fontsize=8)
    figure.supylabel("test accuracy, %")
    figure.savefig(RESULTS / f"papers_s3_n{n}.png", dpi=110)
    pyplot.close(figure)


def main() -> None:
    logging.disable(logging.WARNING)  # values outside the public range are part of the paper's data
    asked = arguments(__doc__, repetitions=REPETITIONS)
    repetitions = 1 if asked.fast else asked.repetitions
    frame = as_frame(swept(repetitions))
    tables = {
        "accuracy, %, mean over n, p and depth": overall(frame),
        "points above Algorithm 5, at the same composed epsilon": against_algorithm_5(frame),
        "beats a party's own tree without privacy": above_local(frame),
    }
    for title, rows in tables.items():
        table(title, rows)
    save("papers_s3", f"mean of {repetitions} repetitions", tables)
    for n in SIZES:
        draw_figure(frame, n)


if __name__ == "__main__":
    main()
