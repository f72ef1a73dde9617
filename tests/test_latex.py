"""LaTeX: a table that fits one column of a paper, whatever the names of its strategies are."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from boards import CONTROLS, METHODS, board
from shell import mistake, ok

from dataeff.errors import DataeffError
from dataeff.report.board import read_board
from dataeff.report.columns import NAMES
from dataeff.report.latex import CHOSEN, KNOWN, latex
from dataeff.report.tex import breakable, escape, maths

PUBLISHED = Path(__file__).parent.parent / "results" / "published"
SUITES = sorted(path.parent.name for path in PUBLISHED.glob("*/suite.json"))

# A column of 3.3 inches, as papers of two columns have it.
PAPER = r"""\documentclass[10pt,twocolumn]{article}
\usepackage{booktabs,tabularx}
\setlength{\textwidth}{6.85in}\setlength{\columnsep}{0.25in}
\setlength{\textheight}{9.5in}\setlength{\topmargin}{-0.7in}\setlength{\oddsidemargin}{-0.2in}
\overfullrule=5pt\hfuzz=0pt
\begin{document}
\typeout{COLUMN \the\columnwidth}
%s
\clearpage
Text.
\end{document}
"""

needs_pdflatex = pytest.mark.skipif(
    shutil.which("pdflatex") is None, reason="pdflatex is not installed"
)


def compiled(text, folder):
    """Compile a paper with these tables; return what pdflatex has to say."""
    (folder / "paper.tex").write_text(PAPER % text)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    told = (folder / "paper.log").read_text(errors="replace")
    assert done.returncode == 0, told[-2000:]
    assert "COLUMN 238.4" in told
    return told


def fits(told):
    assert not re.findall(r"Overfull \\[hv]box.*\n.*", told)
    assert "Float too large" not in told
    return True


HOSTILE = {
    "baseline": (1.0, 0.0),
    r"ours[a=\input{x},b=#&~^$%_]": (1.5, 0.1),
    r"ours[a=\input{y},b=\\]": (1.5, 0.1),
    "*starred--and_more": (1.4, -0.1),
    "[bracketed]": (1.3, -0.1),
    "W" * 60: (1.2, -0.2),
    "a_rather_long_name_of_a_strategy[with=many,parameters=0.125,that=differ]": (1.1, -30.0),
    "nobreakpointsanywhereinthisverylongnameofastrategy": (0.3, -45.0),
    "quote`'\"<|>±": (1.6, 0.2),
}


# Compiled ---------------------------------------------------------------------------------------


@needs_pdflatex
@pytest.mark.parametrize("suite", SUITES)
def test_what_was_published_fits_a_column(suite, tmp_path):
    text = latex(read_board(PUBLISHED / suite))
    # More methods than a column is high.
    across = ["selection-zoo-mini"]
    assert (r"\begin{table*}" in text) is (suite in across)
    assert fits(compiled(text, tmp_path))


@needs_pdflatex
@pytest.mark.parametrize(
    "made",
    [
        board(),
        board(HOSTILE, ()),
        board(seeds=1),
        board(HOSTILE, (), tasks=("50%_of$all", "t" * 60)),
        board(names={"amp": "&%$#_{}~^\\", "infobatch": "W" * 40}),
    ],
    ids=["methods", "hostile", "one seed", "hostile tasks", "hostile short names"],
)
def test_whatever_there_is_fits_a_column(made, tmp_path):
    text = latex(made)
    assert r"\begin{table*}" not in text
    assert fits(compiled(text, tmp_path))


@needs_pdflatex
@pytest.mark.parametrize(
    "columns",
    [
        ["strategy"],
        ["n", "accuracy"],
        ["strategy", "n", "accuracy", "speedup"],
        ["strategy", "speedup", "ideal_speedup", "accuracy", "difference", "gain", "macro_f1"],
        ["strategy", "sentence", "against_line"],
        ["accuracy", "strategy", "settled", "device", "contended"],
    ],
    ids=",".join,
)
def test_whatever_is_chosen_fits_where_it_stands(columns, tmp_path):
    made = board(HOSTILE | METHODS)
    assert fits(compiled(latex(made, columns), tmp_path))


@needs_pdflatex
@pytest.mark.long
def test_every_column_can_be_had(tmp_path):
    made = board(HOSTILE, ())
    text = "\n".join(latex(made, ["strategy", name]) for name in KNOWN if name != "strategy")
    # More tables than LaTeX keeps waiting for a place.
    assert fits(compiled(text.replace(r"\end{table}", "\\end{table}\\clearpage"), tmp_path))


# What it says -----------------------------------------------------------------------------------


def lines_of(text):
    body = text.split(r"\midrule", 1)[1].split(r"\bottomrule")[0]
    return [line for line in body.splitlines() if r"\\ %" in line]


def test_it_has_five_columns_and_added_yardsticks_are_left_out():
    text = latex(board())
    lines = lines_of(text)
    assert len(CHOSEN) == 5
    assert len(lines) == len(METHODS) - 2
    assert all(line.split(r" \\ % ")[0].count(" & ") == 4 for line in lines)
    assert f"% Left out: {CONTROLS[1]}, {CONTROLS[0]}." in text


def test_listed_yardsticks_stand_below_the_methods():
    made = board()
    listed = made.table["control"]
    made.table.loc[listed, "verdict"] = "faster but worse"
    above, below = latex(made).split(r"\toprule")[1].split(r"\midrule")[1:]
    assert below.count(r" \\ % ") == 2
    assert above.count(r" \\ % ") == len(METHODS) - 2


def test_numbers_carry_their_intervals_and_the_caption_says_so():
    made = board()
    line = made.table.set_index("strategy").loc["infobatch"]
    text = latex(made, ["strategy", "difference", "time_saved"])
    shown = next(told for told in lines_of(text) if told.startswith("infobatch"))
    difference = maths(*(f"{line[f'difference{end}']:+z.2f}" for end in ("", "_low", "_high")))
    assert f" & {difference} & " in shown
    percent = [100 * (1 - 1 / line[f"speedup{end}"]) for end in ("", "_low", "_high")]
    assert maths(*(f"{value:z.0f}" for value in percent)) in shown
    assert "Small: where the intervals that judge begin and end." in text
    assert "Small:" not in latex(made, ["strategy", "accuracy"])
    caption = r"\\caption\{digits .*5 seeds\. baseline: \d\d\.\d\d\\% in \d+\.?\d* s\."
    assert re.search(caption, text)


def test_what_is_not_known_is_a_dash_and_an_end_that_is_infinite_is_left_out():
    made = board()
    made.table.loc[made.table["strategy"] == "infobatch", "gain_low"] = float("-inf")
    text = latex(made, ["strategy", "gain"])
    told = {line.split(" & ")[0]: line.split(" & ")[1] for line in lines_of(text)}
    assert told["baseline"].startswith("-- ")
    assert re.match(r"\$[-+]\d\.\d\d\^\{[-+]\d\.\d\d\}\$ ", told["infobatch"])


def test_a_table_that_is_too_wide_goes_across_the_page_or_is_refused():
    names = ["strategy", "accuracy", "difference", "speedup", "gain", "macro_f1", "verdict"]
    wide = latex(board(), names)
    assert r"\begin{table*}" in wide
    assert r"\textwidth" in wide
    with pytest.raises(DataeffError, match="57 columns are wider than a page; name fewer"):
        latex(board(), NAMES[:57])


def test_names_are_broken_behind_their_parts_and_elsewhere_only_if_they_must_be():
    assert breakable("a_b,c", 50) == r"a\_\allowbreak{}b,\allowbreak{}c"
    assert breakable("faster, accuracy open", 50) == "faster, accuracy open"
    assert breakable("abcdefghijkl", 20) == r"\penalty5000{}".join("abcdefghijkl")


def test_signs_that_would_act_are_printed():
    assert escape("*--x") == "{*}-{}-x"


# The command ------------------------------------------------------------------------------------


@pytest.fixture
def zoo(tmp_path):
    return shutil.copytree(PUBLISHED / "quickstart", tmp_path / "quickstart")


def test_columns_are_chosen_by_name(zoo):
    text = ok("leaderboard", zoo, "--latex", "--columns", "strategy, accuracy")
    assert len([line for line in lines_of(text) if line.count(" & ") == 1]) == len(lines_of(text))
    assert "% accuracy %: On the test set" in text


def test_a_misspelt_column_is_guessed(zoo):
    said = mistake("leaderboard", zoo, "--latex", "--columns", "strategy,acuracy")
    assert "--columns: there is no column 'acuracy'. Did you mean accuracy" in said
    assert "is there twice" in mistake("leaderboard", zoo, "--latex", "--columns", "n,n")
    assert "no column ''" in mistake("leaderboard", zoo, "--latex", "--columns", "")
    assert "add --latex" in mistake("leaderboard", zoo, "--columns", "strategy")
