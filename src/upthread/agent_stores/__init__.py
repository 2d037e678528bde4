"""What reading any agent's own store takes: lines, homes, copies. No store is written to."""
