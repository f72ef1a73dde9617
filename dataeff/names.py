"""Names that others give: which of them may be typed, printed, and be the name of a folder."""

import os
import re

from dataeff.errors import DataeffError
from dataeff.printable import shortened, unseen

LONGEST = 100
"""Letters that a registered name may have."""
LONGEST_FOLDER = 200
"""Bytes that the name of a folder may have: file systems take 255."""
RESERVED = ("artefacts", "published")
"""What a results folder holds beside the results of suites."""


def check_registered(kind: str, name: object) -> None:
    """Refuse a name that cannot be typed as `name[key=value]`, or in a file."""
    if not (isinstance(name, str) and re.fullmatch(rf"[^\W_][\w.:-]{{,{LONGEST - 1}}}", name)):
        told = shortened(repr(name), LONGEST)
        raise DataeffError(
            f"{told} is no name for a {kind}: use letters, digits, dashes and underscores, a "
            f"letter or digit first, {LONGEST} at most."
        )


def check_suite_name(name: str) -> None:
    """Refuse a name whose results would lie beside, or outside of, those of suites."""
    check_folder_name("the suite", name)
    if name in RESERVED:
        raise DataeffError(
            f"results has a folder {name!r} that is for something else; call the suite otherwise."
        )


def check_folder_name(what: str, name: str) -> None:
    """Refuse what could not be printed or would not be a folder of its own."""
    if sign := unseen(name):
        why = f"holds the character {sign}, which cannot be seen"
    elif not name.strip():
        why = "has no letter in its name"
    elif len(os.fsencode(name)) > LONGEST_FOLDER:
        why = f"has a name of more than {LONGEST_FOLDER} bytes"
    elif name.startswith(".") or re.search(r"[/\\]", name):
        why = "would be another place among the folders"
    else:
        return
    told = shortened(name, LONGEST)
    raise DataeffError(f"{what} {told!r} {why}; call it by letters, digits and dashes.")
