"""The working tree an agent works in: its digest, its one writer, its git worktree."""
