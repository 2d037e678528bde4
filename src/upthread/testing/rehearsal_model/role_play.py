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
from upthread.testing.rehearsal_model.answers import Reply, ToolCall
from upthread.testing.rehearsal_model.conversation import Conversation, OfferedTool

RESULT_CHARACTERS_MAX: Final = 200

_ROLE = re.compile(r'<role name="(?P<name>[^"]+)">.*?(?:</role>|\Z)', re.DOTALL)
_ANSWERS = re.compile(r"^#+ Answers\b", re.MULTILINE)
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
    tool = next((tool for tool in conversation.tools if tool.name.lower() == "write"), None)
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


def _write_call(tool: OfferedTool, conversation: Conversation) -> ToolCall:
    """OpenCode says `filePath`, Claude Code `file_path`; both want it absolute."""
    seen = len(conversation.user_texts)
    directory = _DIRECTORY.search("\n".join([conversation.system, *conversation.user_texts]))
    name = f"built-by-rehearsal-{seen}.md"
    path = f"{directory['path'].strip()}/{name}" if directory else name
    values = {"content": f"Built by the rehearsal model; user messages seen: {seen}.\n"}
    arguments: JsonObject = {
        argument: path if "path" in argument.lower() else values[argument]
        for argument in tool.argument_names
        if "path" in argument.lower() or argument in values
    }
    return ToolCall(name=tool.name, arguments=arguments)


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
