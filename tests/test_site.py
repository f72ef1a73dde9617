"""Sites: what is written, that every link leads somewhere, and what is told at a glance."""

import json
import re
import shutil
from pathlib import Path
from urllib.parse import unquote

import boards
import pytest
from pages import HOSTILE, Read, hostile
from PIL import Image
from shell import mistake, ok

from dataeff.report.plots.card import wrapped
from dataeff.report.plots.lettering import width_of
from dataeff.report.site.elsewhere import verdict
from dataeff.report.site.gather import Gallery
from dataeff.report.site.index import headline, of_asked
from dataeff.report.site.write import write_site
from dataeff.report.worth import BEATS, KEEPS, SAVES

PUBLISHED = Path(__file__).parent.parent / "results" / "published"
SUITES = ("quickstart", "selection-zoo-mini", "mixtrain-mini")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return the site of some published results."""
    folder = tmp_path_factory.mktemp("site") / "out"
    said = ok("site", *(PUBLISHED / name for name in SUITES), "--out", folder)
    assert said == f"Written: {folder / 'index.html'} ({len(list(folder.rglob('*.html')))} pages)\n"
    return folder


def pages(folder):
    return {path: Read(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")}


def written(folder, *made, **options):
    return write_site(Gallery(made, **options), folder, "ours")


# Links and files ---------------------------------------------------------------------------------


def test_every_link_leads_somewhere_and_nothing_is_fetched(site):
    read = pages(site)
    assert len(read) > 20
    for path, page in read.items():
        assert len(page.ids) == len(set(page.ids)), f"{path}: a name stands for two places"
        for link in page.links:
            assert unquote(link[1:]) in page.ids, f"{path}: {link}"
        for link in page.fetched:
            assert not re.match(r"[a-z]+:|/", link), f"{path} needs {link}"
            name, _, place = unquote(link).partition("#")
            there = (path.parent / name).resolve()
            assert there.is_file(), f"{path}: {link}"
            if place:
                assert place in read[there].ids, f"{path}: {link}"


def test_all_files_are_listed_with_what_tables_say(site):
    listed = json.loads((site / "site.json").read_text())
    there = {str(path.relative_to(site)) for path in site.rglob("*") if path.is_file()}
    assert sorted(listed["files"]) == sorted(there - {"site.json"})
    assert [one["suite"] for one in listed["tables"]] == [*SUITES, "mixtrain-mini"]
    first = listed["tables"][0]
    assert first["strategy"] == "infobatch"
    assert first["page"] == "suites/quickstart.html#s0"
    assert first["headline"] in (site / "suites" / "quickstart.html").read_text()


def test_the_same_results_give_the_same_files(tmp_path):
    for name in ("one", "two"):
        ok("site", PUBLISHED / "quickstart", "--out", tmp_path / name)
    for path in (tmp_path / "one").rglob("*.*"):
        assert (
            path.read_bytes()
            == (tmp_path / "two" / path.relative_to(tmp_path / "one")).read_bytes()
        )


def test_what_is_no_longer_there_is_taken_away_and_what_is_not_ours_stays(tmp_path):
    out = tmp_path / "out"
    written(out, boards.board(), boards.board({"baseline": (1, 0), "gone": (2, 0)}, (), name="b"))
    assert (out / "methods" / "gone.html").exists()
    (out / "CNAME").write_text("example.org")
    listed = json.loads((out / "site.json").read_text())
    outside = tmp_path / "mine.html"
    outside.write_text("mine")
    listed["files"] += ["../mine.html", "methods/../../mine.html", 7, "CNAME"]
    (out / "site.json").write_text(json.dumps(listed))
    written(out, boards.board())
    assert not (out / "methods" / "gone.html").exists()
    assert not (out / "suites" / "b.html").exists()
    assert outside.exists()
    assert (out / "CNAME").exists()


def test_who_has_results_of_several_machines_has_a_page_of_each(tmp_path):
    for machine in ("laptop", "server"):
        shutil.copytree(PUBLISHED / "quickstart", tmp_path / machine / "quickstart")
    conditions = tmp_path / "server" / "quickstart" / "conditions.json"
    conditions.write_text(conditions.read_text().replace("AMD EPYC", "Other"))
    ok("site", tmp_path / "laptop", tmp_path / "server", "--out", tmp_path / "out")
    assert {path.name for path in (tmp_path / "out" / "suites").iterdir()} == {
        "quickstart.html",
        "quickstart-2.html",
    }
    index = (tmp_path / "out" / "index.html").read_text()
    head = re.search(r'class="index"><thead.*?</thead>', index, re.S)[0]
    assert re.findall(r">([^<]+)</th>", head) == ["suite", "AMD EPYC", "Other"]
    assert index.count('<th scope="row" role="rowheader">quickstart') == 1
    method = (tmp_path / "out" / "methods" / "infobatch.html").read_text()
    assert {
        "../suites/quickstart.html#m0-infobatch",
        "../suites/quickstart-2.html#m0-infobatch",
    } <= {link.partition('"')[0] for link in method.split('href="')}


def test_shared_links_show_the_answer_and_with_an_address_the_card(tmp_path):
    ok("site", PUBLISHED / "quickstart", "--out", tmp_path / "out")
    page = tmp_path / "out" / "suites" / "quickstart.html"
    assert "og:image" not in page.read_text()
    assert 'property="og:title" content="infobatch is the best bet' in page.read_text()
    ok(
        "site",
        PUBLISHED / "quickstart",
        "--out",
        tmp_path / "out",
        "--url",
        "https://example.org/r/",
    )
    assert 'content="https://example.org/r/cards/quickstart.png"' in page.read_text()


def test_texts_of_results_are_nobodys_code(tmp_path):
    evil = hostile()
    written(tmp_path, evil, notes=[HOSTILE["amp"]])
    for path, page in pages(tmp_path).items():
        scripts = [tag for tag in page.tags if tag == "script"]
        assert len(scripts) <= 2, path
        assert not {"img", "iframe", "b0ld"} & set(page.tags)
        for link in page.fetched:
            assert not link.startswith(("javascript:", "http")), f"{path}: {link}"


# What is told ------------------------------------------------------------------------------------


def test_the_first_page_says_what_all_tables_come_to(site):
    page = Read((site / "index.html").read_text())
    assert page.text("h1") == "Of 4 tables, 2 have a best bet and 2 say to just train less."
    assert "progressive_resizing" in page.text("table.index")
    assert len(page.seen) < 500


def test_one_table_has_no_share_of_many(tmp_path):
    assert headline(Gallery([boards.board()])) == "1 has a best bet."
    assert headline(Gallery([boards.board(seeds=1, answers=[])])) == "1 has no answer yet."


def test_the_page_of_a_method_says_how_often_it_holds():
    def line(*words):
        return dict(zip((SAVES, KEEPS, BEATS), words, strict=True))

    found = [
        line("proven", "likely", "open"),
        line("likely not", "open", "proven not"),
        line("", "", ""),
    ]
    assert verdict("ours", found) == (
        "ours saves time in 1 of 2, loses no more than may be lost in 1 of 2, beats just training "
        "less in 0 of 2 and is beaten by it in 1."
    )
    assert verdict("ours", [line("", "", "")]) == "ours: nothing can be said yet."
    assert of_asked(found, SAVES) == "1 of 2"
    assert of_asked([line("", "", "")], SAVES) == "–"


def test_parts_of_compositions_are_on_the_pages_of_both(tmp_path):
    written(tmp_path, boards.board())
    for name in ("amp", "mixtrain_cutmix"):
        text = Read((tmp_path / "methods" / f"{name}.html").read_text()).text("table.five")
        assert "mixtrain_cutmix+amp" in text
    page = (tmp_path / "suites" / "hand.html").read_text()
    assert '<a href="../methods/amp.html">amp elsewhere</a>' in page


# Cards -------------------------------------------------------------------------------------------


def test_cards_are_as_large_as_networks_show_them(site):
    found = sorted((site / "cards").glob("*.png"))
    assert len(found) == 4
    for path in found:
        with Image.open(path) as picture:
            assert picture.size == (1200, 630)
            assert picture.convert("L").getextrema() == (pytest.approx(25, abs=25), 255)
    text = (site / "cards" / "quickstart.svg").read_text()
    for word in ("infobatch", "AMD EPYC", "dataeff run quickstart"):
        assert word in text


def test_words_of_a_card_fit_however_long_they_are():
    text = f"short words and {'W' * 200} and more"
    lines = wrapped(text, 20.0, 300.0)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert max(width_of(line, 20.0) for line in lines) <= 300


# Mistakes ----------------------------------------------------------------------------------------


def test_mistakes_are_told_and_nothing_is_overwritten(tmp_path):
    assert mistake("site", tmp_path / "none").startswith(f"There is no folder {tmp_path / 'none'};")
    assert mistake("site", tmp_path).startswith(f"There are no results in {tmp_path};")
    quick = PUBLISHED / "quickstart"
    (tmp_path / "diary.txt").write_text("mine")
    assert "holds other things than a site" in mistake("site", quick, "--out", tmp_path)
    assert "is a file" in mistake("site", quick, "--out", tmp_path / "diary.txt")
    assert "write https://" in mistake("site", quick, "--url", "example.org")
    assert [path.name for path in tmp_path.iterdir()] == ["diary.txt"]


def test_a_suite_without_results_is_left_out_with_a_word(tmp_path):
    shutil.copytree(PUBLISHED / "quickstart", tmp_path / "quickstart")
    (tmp_path / "empty").mkdir()
    shutil.copy(PUBLISHED / "quickstart" / "suite.json", tmp_path / "empty")
    ok("site", tmp_path, "--out", tmp_path / "out")
    index = Read((tmp_path / "out" / "index.html").read_text())
    assert "empty is left out: " in index.text("main")
