"""What hooks write, searched byte by byte."""

import json

import pytest
from tests.core.redaction.secrets_of import planted
from tests.surfaces.hook.conftest import HookPlace

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
    assert holding(place, words) == {}
    kept = place.run("audit", "spec-42").out
    families = {family for family, _, _ in secrets}
    with capsys.disabled():
        print(  # noqa: T201  # the figure that is promised
            f"\n{len(secrets)} secrets of {len(families)} families through hooks: 0 found; "
            f"{kept.count('[redacted:')} placeholders on record"
        )
    assert kept.count("[redacted:") >= SECRETS_PLANTED * 3 // 4


def test_no_word_is_kept_where_only_an_index_is(place):
    record(place, "index")
    place.commits_max = 2
    (place.project / "notes.txt").write_text("one")
    words = ["Kestrel-11", "Merlin-22", "Osprey-33", "notes.txt"]
    said = {"outcome": "ok", "reply": f"It is {words[1]}.", "child": "ses_1"}
    call_while_looking(place, words, call_id="c1", prompt=f"Find {words[0]}.", **said)
    failed = {"outcome": "unknown", "reply": f"No {words[2]}.", "child": "ses_1"}
    call_while_looking(place, words, call_id="c2", prompt="Go on.", **failed)
    assert holding(place, words) == {}
    (conversation,) = place.upthread("audit", "spec-42")["conversations"]
    assert [turn["outcome"] for turn in conversation["turns"]] == ["ok", None]
    resumed = place.hook(place.request("before", "c3", prompt="And now?")).answer
    assert resumed["task_id"] == "ses_1", "an index is enough to go on"


def test_an_error_never_quotes_what_was_said(place):
    ((_, word, text),) = planted(1)
    place.commits_max = 2
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


def test_a_hook_writes_no_file_of_ours_but_the_database(place):
    known = {path for path in place.home.rglob("*") if path.is_file()}
    place.call("c1", "ses_1", prompt="Plan it.")
    left = {path.name for path in place.home.rglob("*") if path.is_file()} - {
        path.name for path in known
    }
    assert left <= {f"upthread.db{end}" for end in ("", "-wal", "-shm", "-queue")}
    for path in place.home.glob("upthread.db*"):
        assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.extended
def test_what_is_forgotten_is_in_no_file_and_the_outline_is_enough_to_go_on(place):
    for workstream, word in (("spec-42", "Kestrel-11"), ("other-7", "Merlin-22")):
        place.upthread("use", workstream)
        child = f"ses_{workstream}"
        place.call(f"{workstream}-1", child, prompt=f"Find {word}.", reply=f"{word}!")
        place.call(f"{workstream}-2", child, prompt=f"Again {word}.")
    place.upthread("forget", "spec-42", "--yes")
    assert holding(place, ["Kestrel-11"]) == {}
    assert "upthread.db" in holding(place, ["Merlin-22"]), "another workstream's is as it was"
    place.upthread("use", "spec-42")
    again = place.hook(place.request("before", "c9", prompt="Go on.")).answer
    assert again["task_id"] == "ses_spec-42"
