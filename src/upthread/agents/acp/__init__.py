"""Any agent that speaks ACP, the Agent Client Protocol (agentclientprotocol.com).

`adapter` starts one and talks with it, `wire` turns its messages into events and outcomes and has
what is particular to each agent, `children` knows the sub-agents.
"""

from upthread.agents.acp.adapter import AcpAdapter

__all__ = ["AcpAdapter"]
