"""`doctor`: what there is, what is wrong with it, and what is repaired."""
