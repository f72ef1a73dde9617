"""When two strategies cost the same: suites add controls by it, the leaderboard judges by it."""

from __future__ import annotations

SAME = 1.15
"""Measured times may differ by this factor between a method and its control."""
SAVES = 1.05
"""A method that saves less than this factor has the reference itself as its control."""
