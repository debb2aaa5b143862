"""The bar: up before the work, silent where nobody watches, in a real terminal."""

import os
import pty
import re
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress, TextColumn

from spinney.simulation import progress
from spinney.simulation.progress import (
    COMPILING,
    Stages,
    bar_on,
    show_progress,
)
from spinney.simulation.watching import watch_parties
from spinney.typing import ENDLESS

SPINNEY = str(Path(sys.executable).with_name("spinney"))


@pytest.fixture
def bar():
    console = Console(file=StringIO(), force_terminal=True)
    return Progress(TextColumn("{task.description}", markup=False), console=console)


def state(bar):
    (task,) = bar.tasks
    return task.description, task.completed, task.total


def test_a_bar_goes_on_by_stage_phase_and_level(bar):
    stages = progress._BarStages(bar)
    assert state(bar) == ("starting", 0, None)
    stages.begin("reading")
    stages.expect(2)
    step = stages.begin("joint forest", 50)
    step("binning", 0, 0)
    assert state(bar) == ("joint forest: binning", 0.0, 2)
    done = []
    for level in range(4):
        step("growing", level, 4)
        done.append(state(bar)[1])
    assert state(bar)[0] == "joint forest: 50 trees, level 4 of 4"
    stages.heard(2, 5)
    assert state(bar)[0] == "joint forest: 50 trees, level 4 of 4, 2/5 answered"
    step("judging", 0, 0)
    done.append(state(bar)[1])
    assert done == sorted(set(done))
    assert done[-1] < 1
    step = stages.begin("forest of 'north' alone")
    assert state(bar) == ("forest of 'north' alone", 1, 2)
    step("growing", 40, ENDLESS)  # no limit to the depth
    assert state(bar)[0] == "forest of 'north' alone: level 41"
    assert 1 < state(bar)[1] < 2


def test_a_bar_counts_the_steps_of_any_phase_in_the_unit_of_the_protocol(bar):
    stages = progress._BarStages(bar)
    stages.expect(1)
    step = stages.begin("own trees", unit="generation")
    shown = []
    for done in (1, 2, 3):
        step(f"evolving, best f1 0.{done}", done, 3)
        shown.append(state(bar)[0])
    step("choosing", 0, 0)
    assert shown == [
        "own trees: generation 2 of 3, best f1 0.1",
        "own trees: generation 3 of 3, best f1 0.2",
        "own trees: generation 3 of 3, best f1 0.3",
    ]
    assert state(bar) == ("own trees: choosing", 0.9, 1)


def test_a_narrow_terminal_still_shows_who_answered_and_the_time_left():
    bar = bar_on(Console(file=StringIO(), force_terminal=True))
    stages = progress._BarStages(bar)
    stages.expect(4)
    step = stages.begin("joint forest", 100)
    step("growing", 9, 10)
    stages.heard(4, 5)
    out = StringIO()
    Console(file=out, width=80, color_system=None).print(bar.get_renderable())
    (line,) = out.getvalue().splitlines()
    assert "joint forest: 100 trees, level 10 of 10, 4/5" in line
    assert re.search(r"0:00:00 left: (--:--|\d\d:\d\d)$", line)


def test_answers_are_counted_question_by_question():
    class Party:
        def answer(self, ask):
            return ask

    told = []
    sides = watch_parties({"a": Party(), "b": Party()}, lambda *counts: told.append(counts))
    asks: list[Any] = [1, 2]
    for ask in asks:
        assert [side.answer(ask) for side in sides.values()] == [ask, ask]
    assert told == [(1, 2), (2, 2), (1, 2), (2, 2)]


def test_compiling_is_remarked_only_where_it_takes_long(bar, monkeypatch, capsys):
    stages = progress._BarStages(bar)
    with stages.compiling():
        pass
    assert state(bar)[0] == "starting"
    monkeypatch.setattr(progress, "_COMPILING_AFTER", 0.01)
    for seen in (stages, Stages()):
        with seen.compiling():
            time.sleep(0.3)
    assert state(bar)[0] == COMPILING
    assert capsys.readouterr().err == f"spinney: {COMPILING}\n"


def test_nothing_is_shown_where_nobody_watches(capsys):
    with show_progress() as stages:
        stages.expect(3)
        stages.begin("joint forest")("growing", 1, 2)
    assert capsys.readouterr().err == ""


def test_a_terminal_shows_levels_and_is_left_clean(place):
    place.job(n_estimators="800")
    try:
        outer, inner = pty.openpty()
    except OSError:  # as in a chroot without /dev/pts
        pytest.skip("there are no pseudo-terminals here")
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen(
        [SPINNEY, "simulate", "job.toml"],
        cwd=place.folder,
        stdout=subprocess.PIPE,
        stderr=inner,
        env=environment,
    ) as process:
        os.close(inner)
        seen = _all_of(outer)
        assert process.stdout
        out = process.stdout.read().decode()
    os.close(outer)
    assert process.returncode == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen)
    frames = [frame.strip() for frame in text.splitlines() if frame.strip()]
    assert "starting" in frames[0]
    assert re.search(r"forest.*: (800 trees, level \d of 3|binning|judging)", text)
    assert "left:" in text
    assert seen.endswith("\x1b[2K")  # the bar's line is wiped
    assert "\x1b" not in out  # the table goes to a file as plain text
    assert "joining helped" in out.lower()


def _all_of(terminal):
    parts = []
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the other end has gone
            break
        if not part:
            break
        parts.append(part.decode(errors="replace"))
    return "".join(parts)
