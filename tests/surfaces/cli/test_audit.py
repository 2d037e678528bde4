"""`audit`: everything is in it, and nobody but us writes its headings."""

import json
import re
from pathlib import Path

import apsw
import pytest
from tests.support.decisions_told import decisions_told
from tests.support.record_page import Seen

from upthread.core.decision.model import DECISIONS
from upthread.core.decision.words import FIRST, REFUSE, RESUME, RESUME_WITH_REPLAY, done_in_words

FORGED = "```\n````\n# Forged heading\n## `spec/planner` (`Kael-planner`)\n| a | b |\n"


@pytest.fixture(scope="module")
def record(tmp_path_factory, make_upthread):
    """A workstream that holds a bit of everything."""
    up = make_upthread(tmp_path_factory.mktemp("audit"))
    tell = ("tell", "w/planner")
    up(*tell, f"{FORGED}[[rehearse: say {FORGED}]]", "--agent", "rehearsal")
    up(*tell, "[[rehearse: child explorer look around]] [[rehearse: unstamped whose am I]]")
    up(*tell, "[[rehearse: read README.md]] [[rehearse: execute true]]", code=4)
    up(*tell, "[[rehearse: if_resumed lose_session]] [[rehearse: say here]]")
    up(*tell, "[[rehearse: say again]]")
    up.environment["UPTHREAD_CALLERS"] = up("show", "w/planner", "--json").json["conversation_id"]
    refused = up(*tell, "from inside", code=5)
    assert "the call comes from inside this very conversation" in refused.err
    assert decisions_told(refused.err) == [REFUSE]
    del up.environment["UPTHREAD_CALLERS"]
    up("run", "w", "--spec", "spec.md", "--agent", "rehearsal", code=4)
    return up


def test_a_child_in_the_background_keeps_its_words_and_raises_the_alarm(tmp_path, make_upthread):
    up = make_upthread(tmp_path)
    background = "[[rehearse: background explorer look around]] [[rehearse: say I go on.]]"
    up("tell", "w/planner", background, "--agent", "rehearsal")
    up("tell", "w/planner", "[[rehearse: child_says 1 I have looked.]] [[rehearse: say good]]")

    audit = up("audit", "w", "--json").json
    parent, child = audit["conversations"]
    alarms = [[each["alarm"] for each in turn["alarms"]] for turn in parent["turns"]]
    assert alarms == [["open_at_end"], ["open_at_end"]]
    said = [part["text"] for message in child["child_messages"] for part in message["parts"]]
    assert said == ["I am explorer. I was asked: look around", "I have looked."]
    replies = [m for turn in parent["turns"] for m in turn["messages"] if m["speaker"] != "user"]
    assert "I have looked" not in json.dumps(replies)
    assert parent["turns"][1]["quarantined"] == []
    markdown = up("audit", "w").out
    assert "- sub-agents: 2 alarms of the depth counter; the record stands" in markdown
    assert "alarm: the turn ended while a sub-agent ran, at depth `1`" in markdown


def outside_fences(markdown: str) -> list[str]:
    """The lines of a document that are not inside a fenced block, as CommonMark reads fences."""
    lines: list[str] = []
    fence = ""
    for line in markdown.splitlines():
        mark = re.match(r" {0,3}(`{3,})(.*)$", line)
        if fence:
            if mark and len(mark[1]) >= len(fence) and not mark[2].strip():
                fence = ""
        elif mark and "`" not in mark[2]:
            fence = mark[1]
        else:
            lines.append(line)
    assert not fence, "a fence is left open"
    return lines


@pytest.mark.soak
def test_agents_cannot_forge_headings_or_tables(record):
    markdown = record("audit", "w").out
    lines = outside_fences(markdown)
    headings = [line for line in lines if line.startswith("#")]

    assert FORGED in markdown
    assert not any("Forged" in line for line in lines)
    assert "| a | b |" not in lines
    decided = "|".join(re.escape(done_in_words(each, None)) for each in DECISIONS)
    shape = re.compile(
        r"# Audit of `w`|## Run \d+: [a-z ]+|## (Child `[a-z]+`|`w/[a-z]+`) \(`\w+-[a-z]+`\)"
        rf"|### Turn \d+: ({decided}), [a-z ]+"
    )
    assert [line for line in headings if not shape.fullmatch(line)] == []


def test_audit_leaves_nothing_out(record):
    audit = record("audit", "w", "--format", "json").json
    markdown = record("audit", "w").out
    planner = audit["conversations"][0]
    turns = planner["turns"]

    assert [turn["outcome"] for turn in turns] == ["ok", "ok", "unknown", "ok", "ok"]
    assert [turn["number"] for turn in turns] == [1, 2, 3, 4, 5]
    assert turns[3]["decision"] == "resume_with_replay"
    assert [link["ended_because"] for link in planner["chain"]] == ["missing", None]
    assert [each["reason"] for each in turns[1]["quarantined"]] == ["no session id"]
    assert turns[2]["permissions"][0]["answered_by"] == "nobody"
    assert [refusal["reasons"][0] for refusal in planner["refusals"]] == ["own_or_ancestor"]
    child = audit["conversations"][1]
    assert child["parent_conversation_id"] == planner["conversation_id"]
    assert "look around" in child["child_messages"][0]["parts"][0]["text"]
    assert [event["kind"] for event in audit["runs"][0]["events"]] == [
        "run_started",
        "step_started",
        "step_ended",
        "questions_asked",
    ]
    for words in (
        "# Audit of `w`\n\n- state: ",
        "\n## Child `",
        "\n### Turn 1: ",
        "Quarantined, `no session id`",
        "A child of `con_",
        "answered by `nobody`",
        "the call comes from inside this very conversation",
        "every message verifies against its hash chain",
        "`clarifier` asked a human: `opening`",
    ):
        assert words in markdown


def test_changed_record_is_named_as_broken(record):
    database = apsw.Connection(str(record.home / "upthread" / "upthread.db"))
    where = "WHERE kind = 'said' AND kept ->> 'seq' = 1"
    before = database.execute(f"SELECT said, id FROM entry {where}").fetchall()
    database.execute(f"UPDATE entry SET said = json_set(said, '$[0].text', 'else') {where}")
    audit = record("audit", "w", "--json").json

    assert audit["integrity"]["is_intact"] is False
    assert audit["integrity"]["faults"][0] == {
        "conversation_id": audit["conversations"][0]["conversation_id"],
        "message_seq": 1,
    }
    assert "integrity: **BROKEN**" in record("audit", "w").out
    # As it was: other tests read the same record.
    database.executemany("UPDATE entry SET said = ? WHERE id = ?", before)
    database.close()


def test_who_did_what_is_told_of_every_act_and_of_nothing_else(make_upthread, tmp_path):
    up = make_upthread(tmp_path)
    up.environment["UPTHREAD_USER"] = "ada"
    up("tell", "w/planner", "[[rehearse: say hi]]", "--agent", "rehearsal")
    up("run", "spec-42", "--spec", "spec.md", "--agent", "rehearsal", code=4)
    up.environment["UPTHREAD_USER"] = "bea `#"
    up("answer", "spec-42", "opening", "Good day", code=4)
    up("fork", "w/planner", "--as", "w/auditor", "--yes")
    up("reset", "w/planner", "--yes")
    del up.environment["UPTHREAD_USER"]
    up("forget", "w", "--role", "auditor", "--yes")
    record = up("audit", "w", "--json").json
    done = [
        (each["role"], each["generation"], act["by_user"], act["what"])
        for each in record["conversations"]
        for act in each["acts"]
    ]
    role, _, account, what = done.pop(2)
    assert (role, what) == ("auditor", "forgot")
    assert re.fullmatch(r"[^@ ]+@\S+ \(program\)", account)
    assert done == [
        ("planner", 1, "ada (program)", "told"),
        ("auditor", 1, "bea `# (program)", "forked"),
        ("planner", 2, "bea `# (program)", "reset"),
    ]
    (run,) = up("audit", "spec-42", "--json").json["runs"]
    told = [(act["by_user"], act["what"], act["detail"]) for act in run["acts"]]
    assert told == [("ada (program)", "started", ""), ("bea `# (program)", "answered", "opening")]
    assert "``bea `# (program)`` answered `opening`" in up("audit", "spec-42").out


def test_a_page_is_written_whole_for_its_owner_alone_and_says_what_the_audit_says(record):
    file = record.home / "w.html"
    said = record("audit", "w", "--format", "html", "-o", str(file))
    assert (said.out, said.err) == ("", f"written to {file}\n")
    html = file.read_text("utf-8")
    assert file.stat().st_mode & 0o777 == 0o600
    seen = Seen(html)
    for words in (
        "w/planner",
        "What upthread told it first",
        "the agent no longer has the session",
        "the call comes from inside this very conversation",
        "Kept apart, since nobody knows whose it is: no session id",
        "Sub-agent explorer",
        "look around",
        "Nobody has answered yet.",
        "answered by nobody",
        FORGED.splitlines()[2],
    ):
        assert words in seen.text
    assert "script" not in seen.tags
    assert "What it took" in seen.text
    assert record("audit", "w", "--format", "html").out.splitlines()[:-1] == html.splitlines()[:-1]
    assert not list(file.parent.glob(".w.html.*"))


def test_a_page_that_cannot_be_written_leaves_what_was_there(record):
    place = record.home / "place"
    place.mkdir()
    (place / "w.html").write_text("older")
    nowhere = record("audit", "w", "-o", str(place / "no" / "w.html"), code=2)
    assert "cannot be written: No such file or directory" in nowhere.err
    both = record("audit", "w", "--format", "html", "--json", code=2)
    assert "--json and --format html are two forms" in both.out
    record("audit", "w", "-o", str(place / "w.json"), "--json")
    assert json.loads((place / "w.json").read_text())["workstream"] == "w"
    record("audit", "w", "-o", "/dev/null")
    assert Path("/dev/null").is_char_device()
    assert (place / "w.html").read_text() == "older"


def test_what_was_forgotten_is_shown_as_erased(make_upthread, tmp_path):
    up = make_upthread(tmp_path)
    prompt = "[[rehearse: read README.md]] [[rehearse: say the very words]]"
    up("tell", "w/planner", prompt, "--agent", "rehearsal")
    up("forget", "w", "--yes")
    html = up("audit", "w", "--format", "html").out
    assert "very words" not in html
    marks = re.findall(r'<mark class="gone">([^<]*)</mark>', html)
    assert {"erased", "text: erased", "result: erased"} <= set(marks)


def test_the_tree_has_a_line_for_each_session_turn_and_sub_agent(record):
    lines = [line.strip() for line in record("show", "w", "--tree").out.splitlines()]
    started, resumed, rolled_over = (
        re.escape(done_in_words(each, None)) for each in (FIRST, RESUME, RESUME_WITH_REPLAY)
    )
    shape = [
        r"w \(\w+\): waiting",
        "planner: done",
        "ses_.* · rehearsal · no session yet",
        rf"1 {started} · .* · ~\d+ tokens · .*",
        rf"2 {resumed} · .* · 1 call · \[\[rehearse: child .*",
        r"sub-agent explorer · \d part.*",
        rf"3 {resumed}.* · .* · the agent failed · .* · 2 calls · .*",
        r"ses_.* · rehearsal · the agent no longer has the session",
        rf"4 {rolled_over} · .*",
        rf"5 {resumed} · .*",
        "clarifier: .*",
        "ses_.* · rehearsal · no session yet",
        rf"1 {started} · .*",
    ]
    assert len(lines) == len(shape), lines
    assert [line for line, form in zip(lines, shape, strict=True) if not re.match(form, line)] == []
    planner = record("show", "w/planner", "--tree").out.splitlines()
    assert [line.strip() for line in planner][1:] == lines[1:10]
    told = record("show", "w", "--tree", "--json").json["conversations"]
    assert [turn["outcome"] for turn in told[0]["turns"]] == ["ok", "ok", "unknown", "ok", "ok"]
    (child,) = told[0]["turns"][1]["children"]
    assert (child["role"], child["address"], child["children"]) == ("explorer", None, [])


def test_trajectories_and_spans_are_one_json_object_on_a_line_without_what_is_secret(
    make_upthread, tmp_path
):
    up = make_upthread(tmp_path)
    up.configure('record = "full"\n')
    secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
    prompt = f"[[rehearse: say my token is {secret} é]] [[rehearse: read README.md]]"
    up("tell", "w/planner", prompt, "--agent", "rehearsal")
    assert secret in up("show", "w/planner", "--json", code=None).out + (
        up.home / "upthread" / "upthread.db"
    ).read_bytes().decode("latin-1")
    for words in (("atif",), ("otel",), ("otel", "--content"), ("html",), ("md",)):
        out = up("audit", "w", "--format", *words).out
        assert secret not in out
        assert ("[redacted:" in out) == (words != ("otel",))
    (trajectory,) = up("audit", "w", "--format", "atif").out.splitlines()
    assert trajectory.isascii()
    assert json.loads(trajectory)["schema_version"] == "ATIF-v1.8"
    (spans,) = up("audit", "w", "--format", "otel").out.splitlines()
    assert json.loads(spans).keys() == {"resourceSpans"}
    assert "é" not in spans
    refused = up("audit", "w", "--format", "atif", "--content", code=2)
    assert "--content is for --format otel" in refused.err
