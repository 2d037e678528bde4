"""What a hook reads at the end of a sub-agent's transcript."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from upthread.surfaces.hook.claude_code_transcript import told_by


def written(path: Path, *entries: tuple[str, object]) -> str:
    lines = [json.dumps({"type": kind, "message": {"content": said}}) for kind, said in entries]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.mark.parametrize("prompt", ["Go on.", [{"type": "text", "text": "Go on."}]])
def test_what_stands_before_the_newest_prompt_is_no_answer_to_it(tmp_path, prompt):
    before = ("assistant", [{"type": "text", "text": "Planned."}])
    assert told_by(written(tmp_path / "t.jsonl", ("user", "Plan."), before)).reply == "Planned."
    assert told_by(written(tmp_path / "t.jsonl", before, ("user", prompt))).reply == ""


def test_a_tools_result_is_no_prompt(tmp_path):
    said = ("assistant", [{"type": "text", "text": "I look."}])
    result = ("user", [{"type": "tool_result", "tool_use_id": "t1", "content": "found"}])
    assert (
        told_by(written(tmp_path / "t.jsonl", ("user", "Plan."), said, result)).reply == "I look."
    )


def test_the_files_of_all_prompts_are_told_with_several_edits_too(tmp_path):
    def use(name, **given):
        return ("assistant", [{"type": "tool_use", "name": name, "input": given}])

    path = written(
        tmp_path / "t.jsonl",
        use("Read", file_path="a"),
        ("user", "Go on."),
        use("MultiEdit", file_path="b"),
    )
    assert told_by(path).examinations == [
        {"path": "a", "how": "read"},
        {"path": "b", "how": "wrote"},
    ]
