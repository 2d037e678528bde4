"""What upthread ships for tests: its own, and those of third-party stores and agents."""
