"""Pages made from boards, and read as a reader finds them."""

import dataclasses
import json
import re
from html.parser import HTMLParser

import boards
from plotly import offline

from dataeff.report.web.page import page_text

# Reading plotly's script is most of what a page costs, in Python and in a browser.
PLOTLY, NO_PLOTLY = offline.get_plotlyjs, "window.Plotly = {react() {}};"


HOSTILE = {
    "mixtrain_cutmix": "<script>alert(1)</script>",
    "amp": '<a href="javascript:alert(1)">x</a>',
    "infobatch": "<img src=x onerror=alert(1)>",
    "selective_backprop[keep=0.5]": "\"&' constructor",
    "el2n[keep=0.75]": "$x$ &amp; %{x} <b>bold</b>",
    "mixtrain_cutmix+amp": "</script><!--<ink>\u2028",
    "digits": "<svg onload=alert(1)>",
    "99372ed4": "<c1>",
}


class Read(HTMLParser):
    """A page as a reader finds it: tags, what they would fetch, texts by tag, tables."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.fetched, self.words, self.labels = [], [], {}, []
        self.ids, self._open = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        told = dict(attrs)
        self.ids.add(told.get("id"))
        self.labels.append(told.get("aria-label") or "")
        self._open.append((tag, told.get("class") or told.get("id") or ""))
        for name, value in attrs:
            assert not name.startswith("on"), f"{tag} {name}"
            if name in ("src", "href", "xlink:href", "srcset", "data") and value[0] != "#":
                self.fetched.append(value)
        if tag in ("meta", "input", "wbr", "path"):
            self._open.pop()

    def handle_endtag(self, tag):
        if self._open and tag not in ("path", "wbr"):
            self._open.pop()

    def handle_data(self, data):
        for tag, kind in self._open:
            for key in {tag, f"{tag}.{kind}"}:
                self.words[key] = self.words.get(key, "") + data

    def text(self, key):
        return self.words.get(key, "")


def read(board):
    """Return the page of a board, as text and as read."""
    text = page_text(board)
    return text, Read(text)


def figures(text):
    """Return the figures that a page draws."""
    return json.loads(re.search(r'id="figures">(.*?)</script>', text, re.S)[1])


def names_of(text):
    return {name.partition("-")[2] for name in figures(text)}


def hostile():
    board = boards.renamed(boards.board(), HOSTILE)
    evil = HOSTILE["infobatch"]
    suite = board.suite | {"title": evil, "commands": [f"dataeff run {evil}"]}
    columns = ("sentence", "against_line", "note", "trouble", "verdict")
    board = boards.changed(board, **{name: {HOSTILE["amp"]: evil} for name in columns})
    board.compositions["says"] = evil
    board = dataclasses.replace(board, suite=suite, conditions={"<c1>": {evil: evil}}, notes=[evil])
    return dataclasses.replace(board, feet={(HOSTILE["digits"], "<c1>"): [evil]})
