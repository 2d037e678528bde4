"""A run: the pipeline over a workstream, its steps, its verdicts and its stops."""
