"""What shows: the command line, and later hooks, servers and pages. Surfaces know the client."""
