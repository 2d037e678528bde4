"""Text from strangers, made fit to be shown or read."""
