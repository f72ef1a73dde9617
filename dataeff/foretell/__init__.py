"""What a run will take, before it is run: a few steps measured, previews, matched values."""
