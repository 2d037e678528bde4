"""A LangGraph graph that is stopped before its last node, and goes on in the next run.

pip install 'upthread[langgraph]'
python langgraph_graph.py; python langgraph_graph.py
"""

from __future__ import annotations

import operator
from typing import Annotated, TypedDict

from langgraph.graph import END, START, StateGraph

from upthread.integrations.langgraph import UpthreadSaver


class State(TypedDict):
    """What the nodes hand on: one line for each that worked."""

    done: Annotated[list[str], operator.add]


def worked(name: str) -> dict[str, list[str]]:
    """Do a node's work; here that is only to say so."""
    print(f"{name} works")
    return {"done": [name]}


graph = StateGraph(State)
graph.add_node("plan", lambda _: worked("plan"))
graph.add_node("build", lambda _: worked("build"))
graph.add_node("deploy", lambda _: worked("deploy"))
graph.add_edge(START, "plan")
graph.add_edge("plan", "build")
graph.add_edge("build", "deploy")
graph.add_edge("deploy", END)

with UpthreadSaver() as saver:  # in place of InMemorySaver(), SqliteSaver(…) or PostgresSaver(…)
    app = graph.compile(checkpointer=saver, interrupt_before=["deploy"])
    config = {"configurable": {"thread_id": "release-7"}}
    waits_for = app.get_state(config).next
    if waits_for:
        print(f"release-7 waits for {', '.join(waits_for)}: going on")
    app.invoke(None if waits_for else {"done": []}, config)
    print("kept:", ", ".join(app.get_state(config).values["done"]))
