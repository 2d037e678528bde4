"""What people and agents reach: command line, hooks, MCP server. Surfaces know the client."""
