"""The words that tell of an action."""

from __future__ import annotations

import pytest

from upthread.core.outward.action_words import mentioned
from upthread.core.outward.actions import Action

PUSH = Action(family="push", target=("origin", "main", None))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("git push", "push"),
        ("do_push()", "push"),
        ("gitPush()", "Push"),
        ("PUSH=1", "PUSH"),
        ("send-pack", "send-pack"),
        ("pushMain()", "push"),
        ("simple-git; x.push(1)", "push"),
        ("x.push(1)", ""),
        ("github; x.push(1)", ""),
        ("git; heappush(1)", ""),
        ("pushd a", ""),
        ("pushed", ""),
        ("", ""),
    ],
)
def test_a_push_is_told_by_whole_words(text, word):
    assert mentioned(PUSH, text) == word


@pytest.mark.parametrize(
    ("action", "word"),
    [
        (Action(family="HTTP POST", target=("http://h/a",)), "h"),
        (Action(family="HTTP POST", target=("http://h",)), "h"),
        (Action(family="HTTP POST", target=("http://localhost:8080",)), "127.0.0.1:8080"),
        (Action(family="HTTP POST", target=("/repos/x",)), "/repos/x"),
        (Action(family="HTTP POST", target=(None,)), "curl"),
        (Action(family="configured", target=("./ship it",)), "ship"),
        (Action(family="configured", target=()), "configured"),
        (Action(family="mcp__a__create_issue", target=(None,)), "create_issue"),
        (Action(family="kubectl apply", target=()), "kubectl"),
        (Action(family="deploy: fly deploy", target=()), "fly"),
        (Action(family="script release", target=()), "release"),
        (Action(family="unpublish a package", target=()), "unpublish"),
        (Action(family="push an image", target=()), "push"),
        (Action(family="copy", target=("host:/a",)), "host"),
        (Action(family="mail", target=(None,)), "smtplib"),
    ],
)
def test_each_family_is_told_by_its_own_words(action, word):
    assert mentioned(action, f"x {word} y") == word
    assert mentioned(action, "x y") == ""
