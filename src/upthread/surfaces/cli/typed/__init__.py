"""The verbs as they are typed: names, options, help. What each does stands in `verbs`."""
