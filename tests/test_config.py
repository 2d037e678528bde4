"""The thresholds of freshness and price come from configuration, layer over layer."""

from pathlib import Path

import pytest

from upthread.config import Settings, load_settings, read_config
from upthread.core.decision.model import Limits
from upthread.errors import ConfigError


def settings(tmp_path: Path, *, user: str = "", project: str = "") -> Settings:
    home, directory = tmp_path / "home", tmp_path / "project"
    for folder, name, text in ((home, "config.toml", user), (directory, "upthread.toml", project)):
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return load_settings(directory, environment={"UPTHREAD_HOME": str(home)})


def test_without_a_word_the_usual_limits_hold_and_the_price_decides_nothing(tmp_path: Path) -> None:
    found = settings(tmp_path)
    assert (found.limits, found.critical, found.window_tokens) == (Limits(), (), None)


def test_each_limit_is_taken_from_the_last_layer_that_says_it(tmp_path: Path) -> None:
    found = settings(
        tmp_path,
        user="[freshness]\nfiles_changed_max = 9\nresume_tokens_max = 100\nwindow_tokens = 8000\n",
        project='[freshness]\nfiles_changed_max = 0\ncritical = ["spec.md"]\nrelays_max = 0\n'
        "brief_if_times_cheaper = 10\nwindow_share_max = 0.5\n",
    )
    assert found.limits == Limits(
        files_changed_max=0,
        window_share_max=0.5,
        relays_max=0,
        resume_tokens_max=100,
        brief_if_times_cheaper=10.0,
    )
    assert (found.critical, found.window_tokens) == (("spec.md",), 8000)


def test_a_home_in_an_agents_environment_is_the_persons(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    said = '[agents.codex]\nenvironment = { CODEX_HOME = "~/work", MODE = "a~/b" }\n'
    found = settings(tmp_path, user=said).agents["codex"].environment
    assert found == {"CODEX_HOME": "/home/ada/work", "MODE": "a~/b"}


@pytest.mark.parametrize(
    "line",
    [
        "files_changed_max = -1",
        "window_share_max = 0",
        "window_share_max = 70",
        "window_tokens = 0",
        "relays_max = -3",
        "resume_tokens_max = 0",
        "brief_if_times_cheaper = 0.5",
        "critical = [1]",
        "criticall = []",
    ],
)
def test_a_limit_that_makes_no_sense_is_an_error_with_its_place(line: str) -> None:
    with pytest.raises(ConfigError, match=r"\$\.freshness") as caught:
        read_config(f"[freshness]\n{line}\n".encode(), source="upthread.toml")
    assert "upthread.toml" in str(caught.value)
