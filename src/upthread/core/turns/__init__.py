"""One turn: the machine, its prompt, what is recorded of it, and what a crash left."""
