"""Shipped for those who write a store or an agent adapter of their own: the promises as tests."""
