"""The trainer: one loop, its hooks, and everything it measures."""
