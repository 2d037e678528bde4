"""What is carried over to a session that does not have it: briefings, replays."""
