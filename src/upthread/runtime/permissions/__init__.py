"""What an agent may do: who answers when it asks, and what is held back."""
