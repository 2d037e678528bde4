"""What drives: carries the core's decisions out on a store and an agent. Knows ports only."""
