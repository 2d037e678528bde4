"""What a line of shell, or a call, would do, by its words. Nothing is looked up or run."""
