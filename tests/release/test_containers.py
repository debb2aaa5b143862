"""The container image and the compose file: built and run with podman, where there is one."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "container/compose.yml").read_text(encoding="utf-8"))
SERVICES = COMPOSE["services"]
LASTING = ("coordinator", "north", "lakeside", "st-mary")
BASE = Path.home() / ".cache/fresh-machine/trixie"  # a debootstrap tree: no registry can be reached
IMAGE = "localhost/spinney:test"
PORTS = dict(zip(LASTING, range(19464, 19468), strict=True))  # they share the host's network here
TEXT = (ROOT / "container/Dockerfile").read_text(encoding="utf-8")
HEALTH = json.loads(TEXT.partition("HEALTHCHECK")[2].partition("CMD ")[2].splitlines()[0])
STORE = ("--storage-driver", "vfs")
RUNTIME = (*STORE, "--runtime", "runc", "--cgroup-manager", "cgroupfs")


@pytest.mark.parametrize("name", SERVICES)
def test_no_container_has_more_rights_than_it_needs(name):
    service = SERVICES[name]
    assert service["user"] == "10001:10001"
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service
    if name in LASTING:
        assert service["volumes"] == [f"{name}:/data"]


def test_the_image_runs_as_nobody_special_and_says_how_it_is():
    assert "USER 10001:10001" in TEXT
    assert "/health" in HEALTH[-1]
    assert TEXT.count("VOLUME") == 1


def ran(*command, **how):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **how)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    if shutil.which("podman") is None or not (BASE / ".ready").exists() or os.getuid():
        pytest.skip("needs podman, root, and ../shared/tools/fresh-machine's tree of trixie")
    folder = tmp_path_factory.mktemp("context")
    (folder / "container").mkdir()
    shutil.copy(ROOT / "container/Dockerfile", folder / "container")
    ran(sys.executable, "-m", "build", "-q", "--wheel", "--outdir", str(folder / "dist"), str(ROOT))
    (wheel,) = (folder / "dist").glob("*.whl")
    packed = folder / "base.tar"
    ran("tar", "-C", str(BASE), "--exclude=./proc/*", "-cf", str(packed), ".")
    ran("podman", *STORE, "import", str(packed), "localhost/spinney-base:test")
    packed.unlink()
    mounts = ("/opt", "/etc/ssl/certs", "/etc/pip.conf")
    ran(
        "podman", *STORE, "build", "--isolation", "chroot", "--network", "host", "-q",
        "--format", "docker",
        *(part for path in mounts if Path(path).exists() for part in ("-v", f"{path}:{path}:ro")),
        "--build-arg", "BASE=localhost/spinney-base:test",
        "--build-arg", f"WHEEL=dist/{wheel.name}",
        "-t", IMAGE, "-f", "container/Dockerfile", ".",
        cwd=folder,
    )  # fmt: skip
    return IMAGE


def started(name, folder, *, waits):
    """Run a service as the compose file says it, on the host's network."""
    service = SERVICES[name]
    mounts = []
    for volume in service["volumes"]:
        source, place, *rest = volume.split(":")
        is_file = source.startswith(".")
        path = (ROOT / "container" / source).resolve() if is_file else folder / source
        mounts += ["-v", ":".join([str(path), place, *rest])]
    environment = ["-e", f"METRICS_PORTS={' '.join(map(str, PORTS.values()))}"]
    if name in PORTS:
        environment += ["-e", f"SPINNEY_HEALTH_PORT={PORTS[name]}"]
    entry = service.get("entrypoint")
    command = [
        "podman", *RUNTIME, "run",
        *([] if waits else ["-d"]), "--name", f"spinney-test-{name}",
        "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", "--no-healthcheck",
        "--network", "host", "--add-host", "coordinator:127.0.0.1",
        "--user", service["user"], "--read-only", "--cap-drop", "ALL",
        "--security-opt", "no-new-privileges", "--tmpfs", "/tmp", *mounts, *environment,
        *(["--entrypoint", entry[0]] if entry else []), IMAGE,
        *(entry[1:] if entry else service["command"]),
    ]  # fmt: skip
    return ran(*command)


def healthy(name):
    """Return whether the image's health check passes; podman's own timer needs systemd."""
    done = subprocess.run(
        ["podman", *RUNTIME, "exec", f"spinney-test-{name}", *HEALTH],
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


def until_healthy(name):
    for _ in range(120):
        if healthy(name):
            return
        time.sleep(1)
    told = ran("podman", *STORE, "logs", f"spinney-test-{name}")
    pytest.fail(f"{name} is not healthy: {told[-2000:]}")


@pytest.mark.slow  # builds an image and runs a federation: minutes, podman and root
def test_the_compose_scenario_ends_with_a_model(image, tmp_path):
    for volume in COMPOSE["volumes"]:
        (tmp_path / volume).mkdir()
        os.chown(tmp_path / volume, 10001, 10001)
    tmp_path.chmod(0o755)
    try:
        started("setup", tmp_path, waits=True)
        for name in LASTING:
            started(name, tmp_path, waits=False)
            until_healthy(name)
        started("lead", tmp_path, waits=True)
        assert (tmp_path / "lead/runs/readmission-deployed/model.spinney").is_file()
        kept = "{{.HostConfig.ReadonlyRootfs}} {{.Config.User}}"
        told = ran("podman", *STORE, "inspect", "-f", kept, "spinney-test-north")
        assert told.split() == ["true", "10001:10001"]
    finally:
        for name in SERVICES:
            subprocess.run(
                ["podman", *RUNTIME, "rm", "-f", "-t", "3", f"spinney-test-{name}"],
                capture_output=True,
                check=False,
            )
