"""What the site holds beside docs/: the README as its first page, the changelog, published results.

MkDocs calls the functions below; pages of other folders keep their places below the site's root, so
only links into and out of docs/ change.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_BESIDE = ("CHANGELOG.md", "results/**/README.md", "results/published/quickstart/page.png")


def on_files(files, config):
    """Add the pages that lie outside of docs/."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, "index.md", abs_src_path=str(ROOT / "README.md")))
    for pattern in _BESIDE:
        for path in sorted(ROOT.glob(pattern)):
            place = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Let links find their pages: docs/ is the root of the site."""
    return moved(markdown, page.file.src_uri)


def moved(markdown: str, place: str) -> str:
    """Return a page with links as they are in the site; `place` is the page's own there."""
    if place in ("index.md", "CHANGELOG.md"):
        return re.sub(r"\]\(docs/", "](", markdown)
    up = "../" * place.count("/")
    if up:
        return markdown.replace(f"]({up}docs/", f"]({up}")
    return re.sub(
        r"\]\(\.\./(README\.md)?", lambda found: "](index.md" if found[1] else "](", markdown
    )
