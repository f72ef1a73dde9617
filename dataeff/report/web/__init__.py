"""The page of a suite: one HTML file, and a server that keeps it up to date."""
