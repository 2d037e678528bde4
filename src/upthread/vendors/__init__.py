"""The stores of the agents themselves: read, diagnosed, repaired in a copy, never written to."""
