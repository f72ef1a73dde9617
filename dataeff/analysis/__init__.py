"""Figures of papers, from runs that are trained for them alone."""
