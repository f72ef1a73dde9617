"""Where things are."""

from pathlib import Path

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
PUBLISHED = ROOT / "results" / "published"
