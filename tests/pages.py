"""Pages made from boards, and read as a reader finds them."""

import dataclasses
import json
import re
from html.parser import HTMLParser

import boards

from dataeff.report.web.page import page_text

_VOID = ("meta", "input", "wbr", "path", "circle", "line", "rect")


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
    """A page as a reader finds it: tags, what they would fetch, texts by tag, names of places.

    `seen` are the words that are there before the first click.
    """

    def __init__(self, text):
        super().__init__()
        self.tags, self.fetched, self.words, self.labels = [], [], {}, []
        self.ids, self.links, self.seen, self._open = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        told = dict(attrs)
        if "id" in told:
            self.ids.append(told["id"])
        self.labels.append(told.get("aria-label") or "")
        for name, value in attrs:
            assert not name.startswith("on"), f"{tag} {name}"
            if name in ("src", "href", "xlink:href", "srcset", "data"):
                (self.links if value[0] == "#" else self.fetched).append(value)
        if tag not in _VOID:
            self._open.append((tag, told.get("class") or told.get("id") or ""))

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self._open.pop()

    def handle_endtag(self, tag):
        if self._open and tag not in _VOID:
            self._open.pop()

    def handle_data(self, data):
        # What a drawing calls its parts is no title of the page.
        drawn = any(tag == "svg" for tag, _ in self._open)
        for tag, kind in self._open:
            if drawn and tag == "title":
                continue
            for key in {tag, f"{tag}.{kind}"}:
                self.words[key] = self.words.get(key, "") + data
        if self._is_seen():
            self.seen += data.split()

    def _is_seen(self):
        tags = [tag for tag, _ in self._open]
        if {"script", "style", "title", "noscript", "head"} & set(tags):
            return False
        if {"skip", "unseen", "chart narrow"} & {kind for _, kind in self._open}:
            return False
        folds = [place for place, tag in enumerate(tags) if tag == "details"]
        return not folds or (len(folds) == 1 and "summary" in tags[folds[0] :])

    def text(self, key):
        return self.words.get(key, "")


def read(board):
    """Return the page of a board, as text and as read."""
    text = page_text(board)
    return text, Read(text)


def data(text):
    """Return what a page offers for download."""
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])


def charts(page, number=0):
    """Return the names of the charts of a table."""
    first = f"s{number}-"
    known = {"trade", "seconds", "epoch", "phases", "kept", "mixed", "classes"}
    known |= {"composed-speedup", "composed-accuracy"}
    return {name.removeprefix(first) for name in page.ids if name.startswith(first)} & known


def hostile():
    board = boards.renamed(boards.board(), HOSTILE)
    evil = HOSTILE["infobatch"]
    suite = board.suite | {"title": evil, "commands": [f"dataeff run {evil}"]}
    columns = ("sentence", "against_line", "note", "trouble", "verdict")
    board = boards.changed(board, **{name: {HOSTILE["amp"]: evil} for name in columns})
    board.compositions["says"] = evil
    board.runs.loc[0, ["status", "error"]] = "failed", evil
    board = dataclasses.replace(board, suite=suite, conditions={"<c1>": {evil: evil}}, notes=[evil])
    return dataclasses.replace(board, feet={(HOSTILE["digits"], "<c1>"): [evil]})
