"""The command that makes a static site of many results."""

from pathlib import Path

import click

from dataeff.cli.echo import echo
from dataeff.cli.options import PATH, margin_option
from dataeff.errors import DataeffError
from dataeff.plural import counted


@click.command()
@click.argument("results", nargs=-1, type=PATH, required=True)
@click.option("--out", type=PATH, default=Path("site"), show_default=True, help="Its folder.")
@click.option(
    "--title", default="dataeff", show_default=True, help="What its first page is called."
)
@click.option("--url", default="", help="Where it will be, so that shared links show their card.")
@margin_option
def site(results, out, title, url, margin):
    """Write a site of all suites in the folders RESULTS: an index, a page for each, and for each
    method, and cards to share.

    Files that need nothing else: open index.html, or host the folder anywhere. Results of several
    machines are several folders.

    \b
    dataeff site results --out site
    dataeff site laptop/results server/results --out site
    """
    from dataeff.report.site.gather import gathered
    from dataeff.report.site.write import write_site

    if url and not url.startswith(("https://", "http://")):
        raise DataeffError(f"--url {url} is no address; write https://... as browsers show it.")
    gallery = gathered(results, margin)
    for note in gallery.notes:
        echo(note, err=True)
    names = write_site(gallery, out, title, url.rstrip("/"))
    pages = sum(name.endswith(".html") for name in names)
    echo(f"Written: {out / 'index.html'} ({counted(pages, 'page')})")
