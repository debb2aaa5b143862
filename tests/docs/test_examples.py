"""The numbered examples run as they are, and each leaves a picture."""

import runpy
from pathlib import Path

import pytest
from matplotlib import pyplot as plt

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


def test_there_is_one_for_each_paper():
    assert [path.name[:2] for path in EXAMPLES] == ["01", "02", "03", "04", "05"]


@pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_tells_its_story_with_a_picture(example, tmp_path, monkeypatch, capsys):
    plt.switch_backend("agg")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(example), run_name="__main__")
    plt.close("all")
    assert (tmp_path / f"{example.stem}.png").stat().st_size > 5000
    assert len(capsys.readouterr().out.splitlines()) >= 2
