"""What the benchmarks share: interleaved timing, a reading of foreign CPU, tables and JSON.

Times on a shared machine mean little alone. Here every sample carries the share of the cores that
others used meanwhile (busy time of the system less our own); what is compared runs in turns in
one process; medians and ratios are reported, never the best.
"""

import argparse
import gc
import json
import os
import platform
import resource
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
CORES = len(os.sched_getaffinity(0))
QUIET = 0.08  # a share of the cores used by others up to which a sample is not disturbed
_PACKAGES = {"spinney": "spinney-trees"} | {
    name: name for name in ("numpy", "numba", "scikit-learn", "lightgbm", "xgboost")
}
_PATIENCE = 20.0  # seconds that a disturbed sample waits for quiet cores
_GLANCE = 0.25  # seconds of looking whether they are
_TICK = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Sample:
    """One timed call: wall time, own CPU time, and the share of all cores that others used."""

    seconds: float
    cpu: float
    foreign: float


def arguments(description: str, **options: Any) -> argparse.Namespace:
    """Parse `--fast` and further options, given as keyword = default."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--fast", action="store_true", help="small sizes, to see that it runs")
    for name, default in options.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    return parser.parse_args()


def timed(work: Callable[[], Any]) -> tuple[Sample, Any]:
    """Run `work` once and return its sample and its value."""
    gc.collect()
    busy, cpu, begin = _busy_seconds(), _own_seconds(), time.perf_counter()
    value = work()
    seconds = time.perf_counter() - begin
    cpu = _own_seconds() - cpu
    busy = _busy_seconds() - busy
    return Sample(seconds, cpu, max(0.0, busy - cpu) / (seconds * CORES)), value


def timed_by_cpu(work: Callable[[], Any]) -> tuple[Sample, Any]:
    """Run `work` once; its time is CPU time, which others hardly disturb. For one thread."""
    gc.collect()
    begin = _own_seconds()
    value = work()
    cpu = _own_seconds() - begin
    return Sample(cpu, cpu, 0.0), value


def interleaved(
    cases: Mapping[str, Callable[[], Any]],
    repeats: int,
    *,
    retries: int = 2,
    clock: Callable[[Callable[[], Any]], tuple[Sample, Any]] = timed,
) -> tuple[dict[str, list[Sample]], dict[str, Any]]:
    """Run the cases in turns; return their samples and last values.

    A sample above `QUIET` is taken again, up to `retries` times; the quietest is kept.
    """
    samples: dict[str, list[Sample]] = {name: [] for name in cases}
    values: dict[str, Any] = {}
    names = list(cases)
    for repeat in range(repeats):
        turn = repeat % len(names)
        for name in names[turn:] + names[:turn]:  # nobody always comes first
            best, values[name] = clock(cases[name])
            for _ in range(retries):
                if best.foreign <= QUIET:
                    break
                _await_quiet()  # not before: after a sleep a virtual machine starts slowly
                again, values[name] = clock(cases[name])
                best = min(best, again, key=lambda sample: sample.foreign)
            samples[name].append(best)
    return samples, values


def median(samples: Sequence[Sample]) -> float:
    """Return the median of wall times, over quiet samples where there are any."""
    quiet = [sample for sample in samples if sample.foreign <= QUIET] or samples
    return statistics.median(sample.seconds for sample in quiet)


def ratio(slower: Sequence[Sample], faster: Sequence[Sample]) -> float:
    """Return the median over turns of how many times longer the first took than the second.

    Turns in which either was disturbed do not count, unless all were.
    """
    pairs = list(zip(slower, faster, strict=True))
    quiet = [pair for pair in pairs if max(sample.foreign for sample in pair) <= QUIET]
    return statistics.median(a.seconds / b.seconds for a, b in quiet or pairs)


def foreign(samples: Sequence[Sample]) -> float:
    """Return the largest share of the cores that others used in any of the samples."""
    return max(sample.foreign for sample in samples)


def table(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows under their keys."""
    print(f"\n{title}")
    if not rows:
        return
    heads = list(dict.fromkeys(key for row in rows for key in row))
    cells = [[as_text(row.get(head, "")) for head in heads] for row in rows]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    for line in (heads, *cells):
        pairs = zip(line, widths, strict=True)
        print("  " + "  ".join(cell.rjust(width) for cell, width in pairs), flush=True)


def save(name: str, statistic: str, tables: Mapping[str, Any], **facts: Any) -> None:
    """Write a benchmark's tables as JSON, with the machine and the versions behind them."""
    RESULTS.mkdir(exist_ok=True)
    found = {
        "benchmark": name,
        "statistic": statistic,
        "when": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "machine": machine(),
        "versions": versions(),
        **facts,
        "tables": tables,
    }
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(found, indent=1, default=_plain), encoding="utf-8")
    print(f"\n{path}")


def machine() -> dict[str, Any]:
    """Return what the numbers were measured on."""
    info = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.split(":")[1].strip() for line in info if line[:10] == "model name"), "")
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {"cpu": model, "cores": CORES, "memory_gb": round(pages / 1e9, 1)}


def versions() -> dict[str, str]:
    """Return the versions of everything measured."""
    found = {"python": platform.python_version()}
    for package, distribution in _PACKAGES.items():
        try:
            found[package] = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return found


def _await_quiet() -> None:
    """Wait until nobody else uses the cores, but not for ever."""
    give_up = time.perf_counter() + _PATIENCE
    while time.perf_counter() < give_up:
        busy = _busy_seconds()
        time.sleep(_GLANCE)
        if (_busy_seconds() - busy) / (_GLANCE * CORES) <= QUIET:
            return


def _busy_seconds() -> float:
    """Return how long all cores have been busy, for anyone: all but idle and waiting for disks."""
    line = Path("/proc/stat").read_text(encoding="utf-8").split("\n", 1)[0]
    user, nice, system, _idle, _wait, irq, soft, steal = map(int, line.split()[1:9])
    return (user + nice + system + irq + soft + steal) * _TICK


def _own_seconds() -> float:
    """Return the CPU time of this process and of its children that have ended."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def as_text(value: Any) -> str:
    """Return a value as tables show it."""
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _plain(value: Any) -> Any:
    """Return what JSON can hold of a sample or a numpy number."""
    return asdict(value) if isinstance(value, Sample) else value.item()
