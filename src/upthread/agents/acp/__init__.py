"""Any agent that speaks ACP, the Agent Client Protocol (agentclientprotocol.com).

`adapter` starts and attaches, `connection` holds one running agent, `peer` its frames in
order, `wire` turns frames into events, `outcomes` its failures into words, `quirks` is what is
particular to each agent.
"""

from upthread.agents.acp.adapter import AcpAdapter

__all__ = ["AcpAdapter"]
