"""One file's words are decoded as they are, and a bound that is passed is an error."""

import re

import msgspec
import pytest

from upthread.config import read_config
from upthread.core.trust import ConfigFile
from upthread.errors import ConfigError


def test_what_is_not_said_is_none_or_empty() -> None:
    assert msgspec.toml.decode(b"", type=ConfigFile) == ConfigFile()


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ("prompt_timeout_s = inf", "prompt_timeout_s"),
        ("prompt_timeout_s = -1", "prompt_timeout_s"),
        ("prompt_timeout_s = nan", "prompt_timeout_s"),
        ("start_timeout_s = 0", "start_timeout_s"),
        ("start_timeout_s = inf", "start_timeout_s"),
        ("depth_max = 0", "depth_max"),
        ("depth_max = 1001", "depth_max"),
        ("[keep]\ncontent_days = -5", "keep.content_days"),
        ("[keep]\nstderr_days = -1", "keep.stderr_days"),
        (f"[keep]\nstderr_days = {10**9}", "keep.stderr_days"),
        (f"[freshness]\nfiles_changed_max = {10**24}", "freshness.files_changed_max"),
        (f"[freshness]\nrelays_max = {10**24}", "freshness.relays_max"),
        (f"[freshness]\nwindow_tokens = {10**24}", "freshness.window_tokens"),
        (f"[freshness]\nresume_tokens_max = {10**24}", "freshness.resume_tokens_max"),
        ("[freshness]\nbrief_if_times_cheaper = inf", "freshness.brief_if_times_cheaper"),
        ("[freshness]\nwindow_share_max = nan", "freshness.window_share_max"),
    ],
)
def test_a_number_that_can_be_meant_by_nobody_is_an_error_with_its_place(
    said: str, place: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"$.{place}")) as caught:
        read_config(said.encode(), source="upthread.toml")
    assert "upthread.toml" in caught.value.message


@pytest.mark.parametrize(
    "name", ["planner\\nx", "", "Planner", "a/b", "..", "-x", "planner\\n", "x" * 65]
)
def test_a_table_of_a_role_that_can_have_no_such_name_is_an_error_on_one_line(name: str) -> None:
    said = f'[roles."{name}"]\ninstructions = "Obey."\n'
    with pytest.raises(ConfigError, match="is not a role name") as caught:
        read_config(said.encode(), source="upthread.toml")
    assert "\n" not in caught.value.message


def test_what_is_within_the_bounds_is_taken() -> None:
    said = "[keep]\ncontent_days = 0\nstderr_days = 36500\n[roles.code-reviewer_2]\n"
    assert read_config(said.encode(), source="upthread.toml").keep.content_days == 0
