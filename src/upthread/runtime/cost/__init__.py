"""What a turn costs: the price beforehand, the account while it runs, what was spent."""
