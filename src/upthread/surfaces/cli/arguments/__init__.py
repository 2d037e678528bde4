"""Verbs as a person types them: names, options, help. What each does stands in `verbs`."""
