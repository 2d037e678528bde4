"""What each verb does and shows, a file for each."""
