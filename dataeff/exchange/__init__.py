"""Results that travel: from several machines into one folder, and out of it for other programs."""
