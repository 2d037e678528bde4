"""What upthread decides: pure values and machines, without I/O, clocks, randomness or logging."""
