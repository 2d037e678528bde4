"""Frames of Claude Code 2.1.330, as recorded, cut to the members that are read."""

SESSION = "1020d86e-ea44-4210-a6cb-ee5f858edd16"
CHILD = f"{SESSION}:subagent:a1e327d36947a67b3"
CALL = "toolu_6ff3c4e94e2_0"
OF_CHILD = {
    "parent_tool_use_id": CALL,
    "agent_id": "a1e327d36947a67b3",
    "subagent_type": "general-purpose",
}


def frame(kind, **more):
    return {"type": kind, "session_id": SESSION, "parent_tool_use_id": None, **more}


def assistant(*content: object, message_id="msg_1", **more):
    return frame("assistant", message={"id": message_id, "content": [*content]}, **more)


def user(*content: object, **more):
    return frame("user", message={"role": "user", "content": [*content]}, **more)


def piece(event, **more):
    return frame("stream_event", event=event, **more)


def system(subtype, **more):
    return frame("system", subtype=subtype, **more)


def said(text):
    return {"type": "text", "text": text}


def use(name, call_id="toolu_1", **arguments):
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(text, call_id="toolu_1", **more):
    return {"type": "tool_result", "tool_use_id": call_id, "content": text, **more}


STARTED = system(
    "task_started",
    task_id="a1e327d36947a67b3",
    tool_use_id=CALL,
    subagent_type="general-purpose",
    task_type="local_agent",
)
ENDED = system(
    "task_notification", task_id="a1e327d36947a67b3", tool_use_id=CALL, status="completed"
)
