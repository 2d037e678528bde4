"""Any agent that speaks ACP, the Agent Client Protocol (agentclientprotocol.com).

`adapter` starts one and holds one that runs, `peer` its messages in order, `sessions` what it has
stored, `wire` turns updates into events, `children` knows the sub-agents, `outcomes` says what its
answers mean, `quirks` is what is particular to each agent.
"""

from upthread.agents.acp.adapter import AcpAdapter

__all__ = ["AcpAdapter"]
