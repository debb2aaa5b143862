"""Run, resume and show a paper's experiments, or make the page of results."""

import argparse
import sys
from pathlib import Path

from harness import CORES, RESULTS
from papers import page
from papers.experiment import NAMES, paper
from papers.running import run
from papers.showing import PUBLISHED, keep, show
from papers.store import Store


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m papers", description=__doc__)
    parser.add_argument("what", choices=[*NAMES, "all", "page"])
    parser.add_argument("--fast", action="store_true", help="minutes in place of hours")
    parser.add_argument("--show", action="store_true", help="show what is stored; run nothing")
    parser.add_argument("--publish", action="store_true", help="into docs/results/ too")
    parser.add_argument("--into", type=Path, default=RESULTS / "papers", help="folder of results")
    parser.add_argument("--take", type=Path, help="a store of another machine to take over")
    parser.add_argument("--workers", type=int, default=CORES)
    parser.add_argument("--minutes", type=float, default=0.0, help="begin no cell after these")
    asked = parser.parse_args(given)
    if asked.what == "page":
        page.write()
        return 0
    return max(_one(name, asked) for name in (NAMES if asked.what == "all" else [asked.what]))


def _one(name: str, asked: argparse.Namespace) -> int:
    """Run and show one paper; return 1 if cells failed, 2 if there is nothing to show."""
    store = Store(asked.into, paper(name))
    if asked.take:
        _take(store, asked.take)
    told = (
        []
        if asked.show
        else run(store, fast=asked.fast, workers=asked.workers, minutes=asked.minutes)
    )
    for line in told:
        print(line)
    if told and not store.found(store.paper.wanted(fast=asked.fast)):
        return 2
    found, made = show(store, fast=asked.fast)
    for folder in (asked.into, PUBLISHED) if asked.publish else (asked.into,):
        keep(found, made, folder)
    if asked.publish:
        store.publish(PUBLISHED / f"{name}_cells.jsonl.gz")
    store.export(asked.into / f"{found['name']}.parquet")
    print(f"\n{asked.into / found['name']}.json, .parquet, _*.png")
    return 1 if any(" failed: " in line for line in told) else 0


def _take(store: Store, path: Path) -> None:
    """Take over another store's cells, and keep them in this one."""
    if not path.exists():
        raise SystemExit(f"{path} does not exist, so nothing can be taken over from it.")
    print(f"{store.take(path)} cells taken over from {path}")
    store.open()
    store.close()


if __name__ == "__main__":
    sys.exit(main())
