"""The MCP server: delegation as tools, for agents that take MCP servers. Needs the extra `mcp`."""
