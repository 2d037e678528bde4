"""What hooks write, searched byte by byte: in the spool, the bindings, and all that lies there."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.core.redaction.secrets_of import planted
from tests.surfaces.hook.conftest import HookPlace

from upthread.core.decision.words import UNDECIDED

SECRETS_PLANTED = 200


def holding(place: HookPlace, words: list[str]) -> dict[str, list[str]]:
    """The words that some file holds, as they are or within JSON, by file."""
    found: dict[str, list[str]] = {}
    for path in filter(lambda each: each.is_file(), place.home.rglob("*")):
        content = path.read_bytes()
        forms = ((word, {word.encode(), json.dumps(word)[1:-1].encode()}) for word in words)
        held = [word for word, either in forms if any(form in content for form in either)]
        if held:
            found[str(path.relative_to(place.home))] = held
    return found


def record(place: HookPlace, mode: str) -> None:
    (place.home / "config.toml").write_text(f'record = "{mode}"\n')
    place.upthread("use", "spec-42")


def call_while_looking(place: HookPlace, words: list[str], **said: str) -> None:
    """One call; what lies on the disk is looked at after each of its events."""
    place.hook(place.request("before", said["call_id"], prompt=said["prompt"]))
    assert holding(place, words) == {}, "before it ran"
    place.hook(place.request("started", said["call_id"], child=said["child"]))
    file = {"path": "notes.txt", "how": "read"}
    end = {**said, "files": [file]}
    end.pop("call_id")
    place.hook(place.request("ended", said["call_id"], **end))
    assert holding(place, words) == {}, "while its words are under way"


@pytest.mark.extended
def test_planted_secrets_are_in_no_file_that_hooks_write(place, capsys):
    (place.project / "notes.txt").write_text("one")
    secrets = planted(SECRETS_PLANTED)
    words = [word for _, word, _ in secrets]
    texts = [text for _, _, text in secrets]
    third = len(texts) // 3
    said = {"outcome": "ok", "reply": "\n".join(texts[third : 2 * third]), "child": "ses_1"}
    call_while_looking(place, words, call_id="c1", prompt="\n".join(texts[:third]), **said)
    failed = {"outcome": "unknown", "reply": "\n".join(texts[2 * third :]), "child": "ses_1"}
    call_while_looking(place, words, call_id="c2", prompt="Go on.", **failed)
    spooled = "".join(path.read_text() for path in place.files("spool/*"))
    assert holding(place, words) == {}
    (binding,) = place.files("bindings/*")
    families = {family for family, _, _ in secrets}
    with capsys.disabled():
        print(  # noqa: T201  # the figure that is promised
            f"\n{len(secrets)} secrets of {len(families)} families through hooks: 0 found; "
            f"{spooled.count('[redacted:')} placeholders in the spool, "
            f"{binding.read_text().count('[redacted:')} in the binding"
        )
    assert spooled.count("[redacted:") >= SECRETS_PLANTED * 9 // 10
    assert "[redacted:" in binding.read_text(), "what a lost session would be told"


def test_no_word_is_kept_where_only_an_index_is(place):
    record(place, "index")
    (place.project / "notes.txt").write_text("one")
    words = ["Kestrel-11", "Merlin-22", "Osprey-33", "notes.txt"]
    said = {"outcome": "ok", "reply": f"It is {words[1]}.", "child": "ses_1"}
    call_while_looking(place, words, call_id="c1", prompt=f"Find {words[0]}.", **said)
    failed = {"outcome": "unknown", "reply": f"No {words[2]}.", "child": "ses_1"}
    call_while_looking(place, words, call_id="c2", prompt="Go on.", **failed)
    assert holding(place, words) == {}
    (conversation,) = place.upthread("audit", "spec-42")["conversations"]
    assert [turn["outcome"] for turn in conversation["turns"]] == ["ok", "unknown"]
    resumed = place.hook(place.request("before", "c3", prompt="And now?")).answer
    assert resumed["task_id"] == "ses_1", "an index is enough to go on"


@pytest.mark.extended
def test_a_record_that_was_kept_in_full_is_redacted_for_hooks_once_that_is_asked(place):
    ((_, word, text),) = planted(1)
    record(place, "full")
    place.call("c1", "ses_1", prompt=text, reply="Planned Merlin-22.")
    assert any(name.startswith("hooks/") for name in holding(place, [word]))
    record(place, "redacted")
    assert not any(name.startswith("hooks/") for name in holding(place, [word]))
    assert any(name.startswith("hooks/") for name in holding(place, ["Merlin-22"]))
    record(place, "index")
    assert not any(name.startswith("hooks/") for name in holding(place, ["Merlin-22"]))


def test_a_long_prompt_is_handed_over_whole_and_not_waited_for(place):
    reply = "word " * 400_000
    said = place.hook(place.request("before", "c1", prompt="Plan it."))
    assert said.answer["task_id"] == ""
    end = {"child": "ses_1", "outcome": "ok", "reply": reply, "prompt": "Plan it."}
    assert place.hook(place.request("ended", "c1", **end)).out == ""
    (said_path,) = place.files("spool/*-said.json")
    assert json.loads(said_path.read_text())["reply"] == {"text": reply}


@pytest.mark.extended
@pytest.mark.parametrize("program", ["import os; os.abort()", "import sys; sys.exit(1)"])
def test_words_that_nobody_could_keep_are_said_to_be_lost(place, program):
    place.start_drains_by(program)
    place.call("c1", "ses_1", prompt="Plan it.")
    (conversation,) = place.upthread("audit", "spec-42")["conversations"]
    assert [turn["outcome"] for turn in conversation["turns"]] == ["ok"]
    assert "was not kept" in json.dumps(conversation)


def test_a_drain_that_cannot_be_started_is_told_and_the_call_is_kept(place):
    installed = place.home / "hooks" / "installed.json"
    installed.write_text(json.dumps({"schema": 1, "drain": ["/nowhere/python"], "agents": {}}))
    place.hook(place.request("before", "c1", prompt="Plan it."))
    end = {"child": "ses_1", "outcome": "ok", "reply": "Planned.", "prompt": "Plan it."}
    told = place.hook(place.request("ended", "c1", **end)).answer["line"]
    assert told.startswith(f"upthread: {UNDECIDED}")


def test_an_error_never_quotes_what_was_said(place):
    ((_, word, text),) = planted(1)
    for request in (
        {"event": text, "cwd": str(place.project), "prompt": text},
        {"event": "before", "cwd": str(place.project), "role": text, "prompt": [text]},
        {"event": "ended", "cwd": str(place.project), "call_id": "c1", "files": text},
    ):
        said = place.hook(request)
        assert said.code == 0
        assert word not in said.err
    assert place.hook(text.encode()).code == 0
    assert holding(place, [word]) == {}


@pytest.mark.extended
def test_forgetting_empties_spool_and_bindings_of_what_is_forgotten(place):
    """Also of a workstream that is not published any more, and of what a crash left half written."""
    for workstream, word in (("spec-42", "Kestrel-11"), ("other-7", "Merlin-22")):
        place.upthread("use", workstream)
        child = f"ses_{workstream}"
        place.call(f"{workstream}-1", child, prompt=f"Find {word}.", reply=f"{word}!")
        place.call(f"{workstream}-2", child, prompt=f"Again {word}.")
    (binding, *_) = place.files("bindings/*.json")
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    half = binding.with_name(f"{binding.name}.{dead.pid}")
    half.write_text('{"replay": "Kestrel-11"')
    (binding.parent.parent / "spool" / f"{1:020d}-1-said.unreadable").write_text("Kestrel-11")
    place.upthread("forget", "spec-42", "--yes")
    assert holding(place, ["Kestrel-11"]) == {}
    kept = holding(place, ["Merlin-22"])
    assert "upthread.db" in kept
    assert any(name.startswith("hooks/") for name in kept), "another workstream's is as it was"
    place.upthread("use", "spec-42")
    again = place.hook(place.request("before", "c9", prompt="Go on.")).answer
    assert again["task_id"] == "ses_spec-42", "the outline is enough to go on"
