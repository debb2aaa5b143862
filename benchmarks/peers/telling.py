"""What the turns come to: tables, and sentences that claim no more than they allow."""

from math import sqrt
from statistics import mean, median

from scipy.stats import t

from harness import QUIET
from papers.experiment import Shown, Table
from peers.peers import (
    DEPTH,
    EPSILONS,
    LEVELS,
    N_PARTIES,
    N_TREES,
    N_TUNED,
    PRIVATREE,
    PUBLIC_TRIES,
    TRIES,
)
from peers.running import Case, Row, spread

_WORDS = {"n_estimators": "{} trees", "max_depth": "depth {}", "n_bins": "{} bins"}
_BUDGET = (
    f"Each private learner was tuned by the same budget: at each epsilon {TRIES} settings, its own "
    f"defaults among them, tried on {N_TUNED} drawn tables that no other figure here comes from."
)
_TUNED = (
    f"Our masked boosting and flwr-trees XGBoost were tuned alike: of {PUBLIC_TRIES} settings "
    "each, drawn before any was tried, those are shown that took the fewest CPU seconds "
    f"of one thread on {N_TUNED} drawn tables of their own to reach an accuracy of "
    f"{' or '.join(f'{level:g}' for level in LEVELS)}; else the most accurate one. All tries are "
    "in [peers_tried.json](results/peers_tried.json). Nobody else was tuned."
)
_RIVALS = (  # of the same kind of promise
    ("Spinney, private boosting", "diffprivlib"),
    ("Spinney, private boosting", "Spinney, private forest"),
    ("Spinney, private boosting, delta", "DP-EBM"),
    ("Spinney, private boosting, delta", "Spinney, private forest, delta"),
    ("Spinney, private forest, delta", "DP-EBM"),
    ("Spinney, private tree", "Spinney, private tree by noisy_max"),
)
_NOT_HERE = "measured for our notes with the authors' code, not by this harness; one site, 3 runs"
_INSTALL = "`make peers INSTALL=1` installs them"


def workload(cases: list[Case], _tried: list[Case]) -> Shown:
    """Return the peers' workload: everybody's row, and who is faster and more accurate."""
    ours = _ran(cases, "Spinney")
    rows = [_timed(case, ours) for case in cases]
    note = f"{N_PARTIES} parties, {N_TREES} trees, depth {DEPTH}; {len(cases[0].turns)} turns"
    title = "The peers' workload: 40,000 rows for training, 20 columns"
    as_set = list({case.peer.name: case for case in reversed(cases)}.values())[::-1]
    said = (
        *_accuracy(cases), *_speed(as_set), *_boosting(cases), *_disturbed(cases),
        *_missing(cases),
    )  # fmt: skip
    facts = {"found": " ".join(said)}
    return Shown([Table(title, rows, note, timed=True)], facts)


def private(cases: list[Case], tried: list[Case]) -> Shown:
    """Return private learners as they come and tuned, who is ahead, and all settings tried."""
    rows, found = [], []
    for epsilon in EPSILONS:
        at = [case for case in cases if case.setting["epsilon"] == epsilon]
        for name in dict.fromkeys(case.peer.name for case in at):
            own, *best = [case for case in at if case.peer.name == name]
            rows += [_private_row(own, "as it comes"), *(_private_row(b, "tuned") for b in best)]
        rows += [_privatree(epsilon)]
        found += _ahead(at, epsilon)
    title = "Private learners at the same epsilon: 16,000 rows for training, 20 columns"
    note = f"{N_PARTIES} parties where there are parties; {len(cases[0].turns)} turns"
    facts = {"found": " ".join((_BUDGET, *found, *_missing(cases)))}
    chose = f"{N_TUNED} turns that only choose settings; none of the turns above has their rows"
    every = Table("All settings of private learners that were tried: accuracy", _grid(tried), chose)
    return Shown([Table(title, rows, note, timed=True), every], facts)


def against(case: Case, other: Case) -> str:
    """Say how two cases compare, turn by turn, and whether so many turns can tell."""
    pairs = zip(case.each("accuracy"), other.each("accuracy"), strict=True)
    gaps = [a - b for a, b in pairs]
    middle, error = mean(gaps), spread(gaps) / sqrt(len(gaps))
    ahead = sum(gap > 0 for gap in gaps)
    if len(gaps) < 2 or abs(middle) <= t.ppf(0.975, len(gaps) - 1) * error:
        verdict = "which is within the scatter"
    else:
        verdict = f"so {case.peer.name} is {'ahead' if middle > 0 else 'behind'}"
    return (
        f"turn by turn {middle:+.4f} with a standard deviation of {spread(gaps):.4f}, above in "
        f"{ahead} of {len(gaps)}, {verdict}"
    )


def _accuracy(cases: list[Case]) -> list[str]:
    ours, pooled = _ran(cases, "Spinney"), _ran(cases, "scikit-learn")
    said = [
        f"{who} reaches {_spread(case)}." if case else f"{who} did not run."
        for who, case in (("Our forest", ours), ("scikit-learn on pooled rows", pooled))
    ]
    if ours and pooled:
        said += [f"Ours less scikit-learn's: {against(ours, pooled)}."]
    return said


def _speed(cases: list[Case]) -> list[str]:
    theirs = [case for case in cases if case.peer.kind == "federated" and case.ran]
    if not theirs:
        return [f"No federated peer ran: {_INSTALL}."]
    rows = [case.row() for case in theirs]
    fastest = min(rows, key=lambda row: row["seconds"])
    said = [
        f"The fastest of the {len(rows)} federated peers that ran is {fastest['learner']}:",
        f"{fastest['seconds']:.3f} s, accuracy {fastest['accuracy']:.4f}.",
    ]
    for who, name in (("Our forest", "Spinney"), ("With masks it", "Spinney, masked")):
        ours = _ran(cases, name)
        if ours is None:
            said += [f"{name} did not run."]
            continue
        seconds = ours.row()["seconds"]
        faster = [row["learner"] for row in rows if row["seconds"] <= seconds]
        always = sum(_wins(ours, case) == len(case.turns) for case in theirs)
        order = f"slower than {' and '.join(faster)}" if faster else "faster than all of them"
        said += [
            f"{who} takes {seconds:.3f} s: by medians {order},",
            f"and in every single turn faster than {always} of the {len(rows)}.",
        ]
    return said


def _boosting(cases: list[Case]) -> list[str]:
    """Say which settings of federated peers our masked boosting leaves behind in both at once."""
    theirs = [case for case in cases if case.peer.kind == "federated" and case.ran]
    ours = [case for case in cases if case.peer.name == "Spinney boosting, masked" and case.ran]
    if not theirs or not ours:
        return []
    rows = [case.row() for case in ours]
    said = [f"{row['seconds']:.3f} s for {row['accuracy']:.4f}" for row in rows]
    behind = [case for case in theirs if any(_is_behind(case.row(), row) for row in rows)]
    left = [f"{case.peer.name} ({_public(case)})" for case in theirs if case not in behind]
    return [
        _TUNED,
        f"Our masked boosting takes {', '.join(said)}.",
        f"By medians and means one of these is ahead, in time and accuracy at once, of "
        f"{len(behind)} of the {len(theirs)} settings of federated peers"
        + (f"; of these it is not: {', '.join(left)}." if left else "."),
    ]


def _public(case: Case) -> str:
    return _setting(case) if case.setting else "as set"


def _is_behind(row: Row, ours: Row) -> bool:
    return bool(row["seconds"] > ours["seconds"] and row["accuracy"] < ours["accuracy"])


def tries(tried: list[Case]) -> Shown:
    """Return all settings that were tried, and what they cost and reach."""
    rows = [
        {
            "learner": case.peer.name,
            "setting": _public(case),
            "CPU seconds": round(mean(case.each("cpu")), 3),
            "accuracy": round(mean(case.each("accuracy")), 4),
        }
        for case in tried
        if case.ran
    ]
    note = f"{N_TUNED} turns that only choose settings; no other table has their rows"
    return Shown([Table("All settings of federated learners that were tried", rows, note)], {})


def _ahead(cases: list[Case], epsilon: float) -> list[str]:
    """Say who is ahead at an epsilon, as they come and tuned."""
    by: dict[str, list[Case]] = {}
    for case in cases:
        if case.ran and case.peer.kind in ("ours", "pooled"):
            by.setdefault(case.peer.name, []).append(case)
    said = [f"{_reached(grid)}." for grid in by.values()]
    for name, rival in _RIVALS:
        if name in by and rival in by:
            said += [f"{name} less {rival}, tuned: {against(by[name][-1], by[rival][-1])}."]
    return [f"At epsilon {epsilon:g} {said[0]}", *said[1:]] if said else []


def _reached(grid: list[Case]) -> str:
    first, best = grid[0], grid[-1]
    where = ", all rows on one site" if first.peer.kind == "pooled" else ""
    tuned = f", {_spread(best)} tuned ({_setting(best)})" if best is not first else ""
    return f"{first.peer.name} reaches {_spread(first)} as it comes{tuned}{where}"


def _disturbed(cases: list[Case]) -> list[str]:
    """Say so where others used the cores: learners with two threads suffer more than we do."""
    shares = [share for case in cases if case.ran for share in case.each("foreign")]
    if not shares or median(shares) <= QUIET:
        return []
    return [
        f"The machine was not quiet (others used {100 * median(shares):.0f} % of the cores), which",
        "slows learners of two threads most: the order in time is not settled by this run.",
    ]


def _missing(cases: list[Case]) -> list[str]:
    names = dict.fromkeys(case.peer.name for case in cases if not case.ran)
    return [f"Not run: {', '.join(names)}."] if names else []


def _timed(case: Case, ours: Case | None) -> Row:
    row = case.row()
    note = row.pop("note")
    faster = _wins(ours, case) if ours and case.ran and case.peer.kind != "ours" else None
    busy = f"{100 * median(case.each('foreign')):.0f} %" if case.ran else None
    setting = {"learner": row.pop("learner"), "setting": _public(case)}
    return setting | row | {"turns we are faster": faster, "others' cores": busy, "note": note}


def _private_row(case: Case, which: str) -> Row:
    row = case.row()
    note = row.pop("note")
    for clock in ("seconds", "middle half"):  # other work on the machine decides these
        row.pop(clock, None)
    seed_0 = case.turns[0].get("accuracy")
    setting = {"learner": row.pop("learner"), "setting": f"{which}: {_setting(case)}"}
    return {"epsilon": case.setting["epsilon"], **setting, **row, "seed 0": seed_0, "note": note}


def _privatree(epsilon: float) -> Row:
    return {
        "epsilon": epsilon, "learner": "PrivaTree", "setting": "depth 4", "kind": "pooled",
        "seed 0": PRIVATREE[epsilon], "note": _NOT_HERE,
    }  # fmt: skip


def _grid(cases: list[Case]) -> list[Row]:
    lines: dict[tuple[str, str], Row] = {}
    for case in cases:
        if case.ran:
            name = (case.peer.name, _setting(case))
            line = lines.setdefault(name, dict(zip(("learner", "setting"), name, strict=True)))
            found, at = case.row(), f"epsilon {case.setting['epsilon']:g}"
            line |= {at: found["accuracy"], f"{at}, sd": found["sd"]}
    return list(lines.values())


def _ran(cases: list[Case], name: str) -> Case | None:
    return next((case for case in cases if case.peer.name == name and case.ran), None)


def _wins(ours: Case, other: Case) -> int:
    pairs = zip(ours.each("seconds"), other.each("seconds"), strict=True)
    return sum(a < b for a, b in pairs)


def _spread(case: Case) -> str:
    found = case.row()
    return f"{found['accuracy']:.4f} ± {found['sd']:.4f}"


def _setting(case: Case) -> str:
    told = {name: value for name, value in case.setting.items() if name != "epsilon"}
    words = [_WORDS.get(name, name + " {}").format(value) for name, value in told.items()]
    return ", ".join(words) or "defaults"
