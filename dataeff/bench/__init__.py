"""Suites of cells: what to run, under which conditions, and the results on disk."""
