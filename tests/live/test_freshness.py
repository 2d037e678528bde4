"""Changed files: what a real agent has read is known, and its model is told once it has changed."""

import os
from pathlib import Path

import pytest
from tests.live import opencode
from tests.live.agents import ADDRESS, AGENTS
from tests.live.asked import last_request
from tests.live.reading import NOT_READ, NOT_TOLD, WAYS
from tests.support.sets import EXTENDED, spread

from upthread.core.agents import AGENTS as CORE_AGENTS

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

FILES = tuple(f"f{number}.txt" for number in range(1, 8))


def write(project: Path, *names: str, text: str = "somebody else's\n") -> None:
    for name in names:
        (project / name).write_text(text)


@pytest.mark.parametrize("name", spread(AGENTS, first=0, extended=["claude-code", "codex"]))
def test_a_file_that_was_read_in_any_of_forty_ways_is_stale_once_it_has_changed(name, shell):
    lines = [*WAYS, *NOT_READ, *NOT_TOLD]
    files = [f"file-{number}.txt" for number in range(len(lines))]
    for file in files:
        write(shell.project, file, text=f"{file}\nmore\n")
    command = AGENTS[name].command
    steps = [command(line.format(file, file)) for line, file in zip(lines, files, strict=True)]
    assert shell.tell("Look.\n\n" + "\n".join(steps))["outcome"] == "ok"
    assert shell.one("why", ADDRESS)["now"]["reasons"] == ["files_unknown"]
    write(shell.project, *files)
    why = shell.one("why", ADDRESS)
    stale = set(why["now"]["stale_files"])

    assert len(WAYS) >= 40
    read = dict(zip(WAYS, files, strict=False))
    assert [way for way, file in read.items() if file not in stale] == []
    assert stale.difference(read.values()) == set()
    known = {"files": len(WAYS), "commands_not_known": len(NOT_TOLD)}
    assert why["reading"] == {**known, "searches_not_known": 0, "calls_not_kept": 0}


@pytest.mark.parametrize("name", spread(AGENTS, first=0, extended=["codex"]))
def test_a_stale_planner_is_told_which_files_changed_and_a_staler_planner_is_briefed(
    name, shell, model
):
    write(shell.project, *FILES, text="as it was\n")
    reads = "\n".join(AGENTS[name].read(shell.project / file) for file in FILES)
    first = shell.tell(f"We agreed on KIWI-42.\n\n{reads}")
    assert first["outcome"] == "ok"

    write(shell.project, "f1.txt", "f2.txt")
    now = shell.one("why", ADDRESS)["now"]
    assert now["stale_files"] == ["f1.txt", "f2.txt"]
    assert now["tokens_to_resume"] > now["tokens_to_brief"] > 0
    assert not now["tokens_are_estimated"]
    told = shell.tell("Go on.")
    assert (told["decision"], told["reasons"]) == ("resume_with_update", ["files_changed"])
    assert told["upstream_session_id"] == first["upstream_session_id"]
    update = last_request(model).rpartition("Go on.")[0].rpartition("as it was")[2]
    assert "`f1.txt`: changed" in update
    assert "`f2.txt`: changed" in update
    assert "f3.txt" not in update

    write(shell.project, *FILES[:6], text="changed again\n")
    told = shell.tell("And now?")
    assert (told["decision"], told["reasons"]) == ("start_fresh_with_briefing", ["many_changed"])
    assert told["upstream_session_id"] != first["upstream_session_id"]
    for words in ("# Briefing", "KIWI-42", "`f6.txt`: changed"):
        assert words in last_request(model)


@pytest.mark.parametrize("name", spread(AGENTS, first=0, extended=["claude-code", "codex"]))
def test_instructions_that_the_agent_read_by_itself_are_files_that_it_read(name, shell, model):
    file = [each for each in CORE_AGENTS[name].project_instructions if "*" not in each][-1]
    write(shell.project, file, text="Use tabs.\n")
    shell.tell("Begin.")
    assert shell.one("why", ADDRESS)["now"]["stale_files"] == []
    write(shell.project, file, text="Use spaces.\n")
    assert shell.one("why", ADDRESS)["now"]["stale_files"] == [file]
    told = shell.tell("Go on.")
    assert (told["decision"], told["reasons"]) == ("resume_with_update", ["files_changed"])
    assert f"`{file}`: changed" in last_request(model)
    assert shell.one("why", ADDRESS)["now"]["stale_files"] == []


OF_CLAUDE = (
    *("CLAUDE.md", "docs/style.md", "docs/more/deep.md", ".claude/rules/a.md", "sub/CLAUDE.md"),
    *("../home/.claude/CLAUDE.md", "../home/.claude/rules/z.md"),
)
INSTRUCTIONS = {
    "claude-code": OF_CLAUDE,
    "codex": ("AGENTS.md", "../home/.codex/AGENTS.md"),
    "opencode": (
        *("AGENTS.md", "sub/AGENTS.md", "../home/.config/opencode/AGENTS.md"),
        *("rules/of-all.md", "../home/rules.md"),
    ),
}
"""By agent, what of `ALL` it reads by itself when it works in a project and reads `sub/f.txt`."""
IMPORTING = {"CLAUDE.md": "@docs/style.md and `@docs/code.md`", "docs/style.md": "@more/deep.md"}
ALL = {
    *IMPORTING,
    "docs/code.md",
    "side/CLAUDE.md",
    "side/AGENTS.md",
    *sum(INSTRUCTIONS.values(), ()),
}


@pytest.mark.parametrize("name", spread(AGENTS, first=2, extended=list(INSTRUCTIONS)))
def test_instructions_of_the_person_of_subdirectories_and_imported_are_files_that_it_read(
    name, shell, model
):
    own = set(INSTRUCTIONS[name])
    files = own | {each for each in ALL if not each.endswith("CLAUDE.md") or name != "opencode"}
    for each in {*files, "sub/f.txt"}:
        (shell.project / each).parent.mkdir(parents=True, exist_ok=True)
        write(shell.project, each, text=f"Rule of {each}. {IMPORTING.get(each, '')}\n")
    if name == "opencode":
        named = '{"instructions": ["rules/*.md", "~/rules.md", "nothing.md"], // and more\n}'
        write(shell.project, "opencode.json", text=named)
    shell.lines("trust", "--yes")
    shell.tell(AGENTS[name].read(shell.project / "sub/f.txt"))
    seen = {each for each in files if f"Rule of {each}." in str(model.requests)}
    assert seen == own, "the table is the agent's"
    write(shell.project, *files, text="Other rules.\n")
    stale = shell.one("why", ADDRESS)["now"]["stale_files"]
    assert {os.path.relpath(shell.project / each, shell.project) for each in stale} == own


@EXTENDED
@pytest.mark.parametrize("name", ["opencode"])
def test_opencode_reads_the_instructions_of_claude_code_where_the_person_has_no_own(
    name, shell, model
):
    file = shell.home / ".claude" / "CLAUDE.md"
    file.parent.mkdir(exist_ok=True)
    file.write_text("Use tabs.\n")
    shell.tell("Begin.")
    assert "Use tabs." in str(model.requests)
    file.write_text("Use spaces.\n")
    assert shell.one("why", ADDRESS)["now"]["stale_files"] == [str(file)]


@pytest.mark.parametrize("name", spread(AGENTS, first=1, extended=["claude-code", "codex"]))
def test_files_whose_lines_a_search_printed_were_read(name, shell, codex_binary):
    path = shell.environment["PATH"].partition(":")[0]
    Path(path, "rg").symlink_to(next(codex_binary.resolve().parents[1].rglob("rg")))
    (shell.project / "sub").mkdir()
    write(shell.project, "f1.txt", "f2.txt", "sub/f3.txt", text="as it was\n")
    write(shell.project, "f4.txt", text="other\n")
    steps = [AGENTS[name].command("cd . && rg -n 'as .* was' | head -5")]
    if name == "opencode":
        steps = [
            opencode.call("grep", pattern="as it was"),
            opencode.call("grep", pattern="nothing"),
        ]
    shell.tell(" ".join(steps))
    assert shell.one("why", ADDRESS)["now"]["reasons"] == ["unchanged"]
    write(shell.project, "f2.txt", "sub/f3.txt", "f4.txt")
    assert shell.one("why", ADDRESS)["now"]["stale_files"] == ["f2.txt", "sub/f3.txt"]
    shell.tell(AGENTS[name].command("ls | xargs cat"))
    write(shell.project, "f2.txt", "sub/f3.txt", text="as it was\n")
    assert shell.tell("Go on.")["reasons"] == ["files_unknown"]


@pytest.mark.parametrize("name", ["claude-code"])
@EXTENDED
def test_a_file_that_was_read_after_a_cd_is_the_one_there(name, shell, model):
    (shell.project / "sub").mkdir()
    write(shell.project, "f8.py", "sub/f8.py", text="as it was\n")
    shell.tell(" ".join(map(AGENTS[name].command, ("cd sub", "cat f8.py"))))
    write(shell.project, "f8.py", "sub/f8.py")
    assert shell.one("why", ADDRESS)["now"]["stale_files"] == ["sub/f8.py"]
