"""The doors: what a command line and a Python program do alike, and what Python has beside it."""
