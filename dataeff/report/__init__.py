"""Tables and pages made from results on disk; never imports the trainer."""

MARGIN = 0.5
"""Points of accuracy by which a strategy may be less accurate and still be no worse."""
