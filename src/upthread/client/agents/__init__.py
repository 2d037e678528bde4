"""What a project asks of its agents by their names, outside a turn."""
