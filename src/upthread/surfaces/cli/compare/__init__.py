"""`compare`: one task of the person's own, resumed, from a briefing and fresh, side by side."""
