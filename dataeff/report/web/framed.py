"""The first screen of results in a frame, for notebooks."""

from html import escape
from string import Template

from dataeff.report.board import Board
from dataeff.report.web.first import facts, first_screen
from dataeff.report.web.page import asset, policy
from dataeff.report.web.shown import shown_of
from dataeff.report.web.texts import lines

_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="$policy">
<meta name="color-scheme" content="light dark"><title>$title</title>
<style>$style</style></head><body><main>$body</main></body></html>"""
_HEIGHT = 760


def framed(board: Board) -> str:
    """Return the answer of each table, its chart and its methods, in a frame of their own."""
    shown = shown_of(board, {})
    heading = "h1" if len(shown) == 1 else "h2"
    told = (lines([facts(one)], "facts") + first_screen(one, heading) for one in shown)
    body = "".join(f'<section class="task">{one}</section>' for one in told)
    text = Template(_PAGE).substitute(
        policy=policy(),
        title=escape(board.suite["name"]),
        style=asset("page.css"),
        body=body or "<h1>There is no finished run yet.</h1>",
    )
    return (
        f'<iframe title="{escape(board.suite["name"])}" srcdoc="{escape(text)}" sandbox '
        f'style="width:100%;height:{_HEIGHT}px;border:0" loading="lazy"></iframe>'
    )
