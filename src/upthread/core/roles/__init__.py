"""Who works: role files, the limits in them, and the reports roles hand back."""
