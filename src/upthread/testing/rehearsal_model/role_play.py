"""A tiny pipeline, played from what the model is shown: it remembers only what its history holds.

Played where a `<role name="…">` block is in the conversation and the prompt holds no script. Each
role ends with a report, a fenced `upthread` JSON block.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Final

from upthread.testing.rehearsal_model._json import JsonObject
from upthread.testing.rehearsal_model.protocol import Conversation, OfferedTool, Reply, ToolCall

RESULT_CHARACTERS_MAX: Final = 200

_ROLE = re.compile(r'<role name="(?P<name>[^"]+)">.*?(?:</role>|\Z)', re.DOTALL)
_ANSWERS = re.compile(r"^#+ (?:Answers|Questions already answered)\b", re.MULTILINE)
_TO_READ = re.compile(r"^To be read: (?P<names>\S.*)$", re.MULTILINE)
_PLAN = re.compile(r"^# Report of planner\b.*?(?=^# |\Z)", re.DOTALL | re.MULTILINE)
_REJECTED = re.compile(r"^## Verdict: rejected\b", re.MULTILINE)
_TESTS = re.compile(r"\btests\b")
_DIRECTORY = re.compile(r"[Ww]orking directory: *(?P<path>\S[^\n]*)")


def role_of(conversation: Conversation) -> str | None:
    """Return the role the conversation gives the model, the newest where several are named."""
    for text in (*reversed(conversation.user_texts), conversation.system):
        names = [match["name"] for match in _ROLE.finditer(text)]
        if names:
            return names[-1]
    return None


def play(role: str, conversation: Conversation) -> Reply:
    """Return what the role says next."""
    return _ROLES.get(role, _any_role)(conversation)


def _clarifier(conversation: Conversation) -> Reply:
    """Read what the specification names and nobody has shown it yet; then ask, until answered."""
    tool = _offered(conversation, "read")
    unread = _unread(conversation)
    if tool is not None and unread and not conversation.since_last_user:
        calls = tuple(
            ToolCall(name=tool.name, arguments=_paths(tool, _absolute(conversation, name)))
            for name in unread
        )
        return Reply(text="I read first.", calls=calls)
    if _ANSWERS.search(_history(conversation)):
        return _report("The answers settle what was open.", decisions=["Go by the answers given."])
    question = {"id": "q1", "text": "Which colour shall it have?"}
    return _report("One thing is open.", status="needs_input", questions=[question])


def _planner(conversation: Conversation) -> Reply:
    steps = ["1. write the file"]
    if _REJECTED.search(_history(conversation)):
        steps.append("2. run the tests")
    seen = len(conversation.user_texts)
    plan = f"Plan (user messages seen: {seen}): " + "; ".join(steps)
    return _report(plan, decisions=steps)


def _auditor(conversation: Conversation) -> Reply:
    """Reject the first plan it is shown when that forgets the tests; approve any other."""
    prompts = conversation.user_texts
    plan = _plan_in(prompts[-1]) if prompts else ""
    if len(prompts) <= 1 and not _TESTS.search(plan):
        return _verdict("rejected", "the plan does not say how it is checked")
    return _verdict("approved", f"plan no. {len(prompts)} in this session holds")


def _constructor(conversation: Conversation) -> Reply:
    tool = _offered(conversation, "write")
    if tool is not None and not conversation.since_last_user:
        return Reply(text="I write the file.", calls=(_write_call(tool, conversation),))
    results = [item.text for item in conversation.since_last_user if item.speaker == "tool"]
    findings = [text[:RESULT_CHARACTERS_MAX] for text in results]
    return _report(
        "The file is written." if results else "Nothing to write with.", findings=findings
    )


def _validator(conversation: Conversation) -> Reply:
    return _verdict("approved", f"user messages seen: {len(conversation.user_texts)}")


def _any_role(conversation: Conversation) -> Reply:
    return _report(f"Done; user messages seen: {len(conversation.user_texts)}.")


_ROLES: Final[Mapping[str, Callable[[Conversation], Reply]]] = {
    "clarifier": _clarifier,
    "planner": _planner,
    "auditor": _auditor,
    "constructor": _constructor,
    "validator": _validator,
}


def _history(conversation: Conversation) -> str:
    """What the model may go by: never the role's own instructions."""
    return "\n\n".join(_ROLE.sub("", item.text) for item in conversation.said)


def _plan_in(prompt: str) -> str:
    told = _ROLE.sub("", prompt)
    plan = _PLAN.search(told)
    return plan[0] if plan else told


def _offered(conversation: Conversation, name: str) -> OfferedTool | None:
    return next((tool for tool in conversation.tools if tool.name.lower() == name), None)


def _unread(conversation: Conversation) -> list[str]:
    """Return the files to be read that no tool result names yet, in order."""
    wanted = _TO_READ.findall("\n".join(conversation.user_texts))
    shown = "\n".join(item.text for item in conversation.said if item.speaker == "tool")
    names = dict.fromkeys(name.strip() for line in wanted for name in line.split(","))
    return [name for name in names if name not in shown]


def _write_call(tool: OfferedTool, conversation: Conversation) -> ToolCall:
    seen = len(conversation.user_texts)
    path = _absolute(conversation, f"built-by-rehearsal-{seen}.md")
    content = f"Built by the rehearsal model; user messages seen: {seen}.\n"
    contents = {"content": content} if "content" in tool.argument_names else {}
    return ToolCall(name=tool.name, arguments={**_paths(tool, path), **contents})


def _absolute(conversation: Conversation, name: str) -> str:
    directory = _DIRECTORY.search("\n".join([conversation.system, *conversation.user_texts]))
    return f"{directory['path'].strip()}/{name}" if directory else name


def _paths(tool: OfferedTool, path: str) -> JsonObject:
    """OpenCode says `filePath`, Claude Code `file_path`; both want it absolute."""
    return {name: path for name in tool.argument_names if "path" in name.lower()}


def _verdict(result: str, evidence: str) -> Reply:
    verdict = {"result": result, "evidence": [evidence]}
    return _report(f"Verdict: {result}.", verdict=verdict)


def _report(summary: str, **fields: object) -> Reply:
    report: dict[str, object] = {
        "status": "done",
        "summary": summary,
        "questions": [],
        "decisions": [],
        "findings": [],
        "verdict": None,
        **fields,
    }
    return Reply(text=f"{summary}\n\n```upthread\n{json.dumps(report, indent=1)}\n```")
