"""Run every benchmark, one after another. Run: python benchmarks/run_all.py [--fast]"""

import subprocess
import sys
from pathlib import Path

_SCRIPTS = (
    "kernels",
    "forest",
    "traffic",
    "growth",
    "memory",
    "quality",
    "at_home",
    "wide",
    "start",
    "masking",
    "noise",
    "deployed",
    "extra_trees",
    "cluster",
)


def main() -> int:
    folder = Path(__file__).parent
    scripts = [f"bench_{name}.py" for name in _SCRIPTS]
    failed = []
    for script in scripts:
        print(f"\n=== {script}", flush=True)
        command = [sys.executable, str(folder / script), *sys.argv[1:]]
        if subprocess.run(command, check=False).returncode:
            failed.append(script)
    if failed:
        print(f"\nFailed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
