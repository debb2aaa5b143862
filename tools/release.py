"""Make a release into `dist/`: packages, their checks, changelog, parts list, documentation, sums.

Run by `make release`, on a clean clone. Nothing is uploaded: `.github/workflows/release.yml` does
that, from the files that this script makes.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
NAME = "spinney_trees"
WANTED = ("spinney/py.typed", "spinney/cli/main.py", "spinney/report/page/")  # in a wheel
UNWANTED = ("tests/", "docs/", "benchmarks/", "examples/", "tools/")


def main() -> None:
    """Make everything; stop at the first thing that is wrong."""
    version = _version()
    _require_clean()
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    _say("changelog")
    (DIST / "CHANGELOG.md").write_text(_changelog(version), encoding="utf-8")
    _say("packages")
    os.environ["SOURCE_DATE_EPOCH"] = _run("git", "log", "-1", "--format=%ct").strip()
    _run(sys.executable, "-m", "build", "--outdir", str(DIST))
    wheel = DIST / f"{NAME}-{version}-py3-none-any.whl"
    source = DIST / f"{NAME}-{version}.tar.gz"
    _say("their contents")
    _run(sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(source))
    _check_contents(wheel, source)
    _say("the wheel in an empty environment, and its parts list")
    _try_wheel(wheel, version)
    _say("documentation")
    _build_site(version)
    sums = "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(DIST.iterdir())
        if path.is_file()
    )
    (DIST / "SHA256SUMS").write_text(sums, encoding="utf-8")
    _say("done: dist/")


def _say(what: str) -> None:
    print(f"release: {what}", flush=True)


def _run(*command: str, folder: Path = ROOT, **environment: str) -> str:
    done = subprocess.run(  # noqa: S603  commands of this file
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"release: `{' '.join(command)}` failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def _version() -> str:
    text = (ROOT / "src/spinney/version.py").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith("__version__"))
    return line.split('"')[1]


def _require_clean() -> None:
    changed = _run("git", "status", "--porcelain")
    if changed:
        sys.exit(
            "release: files differ from the last commit. A release is made of a commit: commit "
            f"them, or clone anew.\n{changed}"
        )


def _changelog(version: str) -> str:
    """Return the changelog with the fragments of this version on top; fragments stay."""
    news = _run(sys.executable, "-m", "towncrier", "build", "--draft", "--version", version)
    told = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    head, found, older = told.partition(f"## Unreleased ({version})")
    if not found:
        return told  # the fragments of this version are in it already
    rest = older.partition("\n## ")
    return head + news.strip() + "\n" + "".join(rest[1:])


def _check_contents(wheel: Path, source: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in WANTED:
        if not any(name.startswith(wanted) for name in names):
            sys.exit(f"release: the wheel has no {wanted}.")
    if found := [name for name in names if name.startswith(UNWANTED)]:
        sys.exit(f"release: the wheel has {found[0]}, which is not part of the library.")
    with tarfile.open(source) as archive:
        inside = [name.partition("/")[2] for name in archive.getnames()]
    for wanted in ("pyproject.toml", "LICENSE", "README.md", "src/spinney/py.typed"):
        if wanted not in inside:
            sys.exit(f"release: the source archive has no {wanted}.")


def _try_wheel(wheel: Path, version: str) -> None:
    """Install the wheel where nothing else is, run the demo there, and list what was installed."""
    with TemporaryDirectory() as place:
        folder = Path(place)
        venv.create(folder / "venv", with_pip=True)
        python = folder / "venv" / "bin" / "python"
        install = (str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check")
        _run(*install, str(wheel), folder=folder)
        listed = _run(
            *(sys.executable, "-m", "cyclonedx_py", "environment", "--of", "JSON", str(python)),
            folder=folder,
        )
        parts = json.loads(listed)
        if not any(part["name"] == "spinney-trees" for part in parts["components"]):
            sys.exit("release: the parts list does not have the package itself.")
        (DIST / f"spinney-trees-{version}.cdx.json").write_text(listed, encoding="utf-8")
        _run(*install, f"{wheel}[demo]", folder=folder)
        spinney = str(folder / "venv" / "bin" / "spinney")
        told = _run(spinney, "--version", folder=folder, PYTHONPATH="")
        if told.split()[-1] != version:
            sys.exit(f"release: the wheel's command says {told.strip()!r}, not {version}.")
        told = _run(spinney, "demo", folder=folder, PYTHONPATH="")
        if "bit for bit" not in told or not (folder / "spinney-demo/report.html").is_file():
            sys.exit(f"release: the wheel's demo did not end well:\n{told}")


def _build_site(version: str) -> None:
    """Build the documentation of this version, and the list of versions that its menu reads."""
    site = DIST / "site"
    _run(sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site / version))
    entry = {"version": version, "title": version, "aliases": ["latest"]}
    (site / "versions.json").write_text(json.dumps([entry]), encoding="utf-8")
    (site / "index.html").write_text(
        f'<!doctype html><meta http-equiv="refresh" content="0; url={version}/">\n',
        encoding="utf-8",
    )
    shutil.make_archive(str(DIST / f"spinney-trees-{version}-docs"), "zip", site)


if __name__ == "__main__":
    main()
