"""`upthread setup AGENT`: continuity in the agents people already run, and its way back."""
