"""Figures of a board for papers and slides, drawn by matplotlib."""
