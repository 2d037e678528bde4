"""`upthread` alone: which sessions there are, what needs somebody, and what to type next."""
