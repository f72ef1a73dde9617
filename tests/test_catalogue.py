"""The catalogue: kept while it holds, made anew when anything changes that it hangs on."""

import os
from pathlib import Path

import pytest
from loose import LOOSE
from shell import mistake, ok

from dataeff import cached, catalogue
from dataeff.cached import Finding, kept


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Return an empty cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "dataeff"


@pytest.fixture
def loads(monkeypatch):
    """Count how often plugins are loaded, in a process for that."""
    seen, found = [], catalogue._found

    def find(what, folders):
        seen.append(tuple(folders))
        return found(what, folders)

    monkeypatch.setattr(catalogue, "_found", find)
    return seen


def keep(path, content, find=None):
    return kept("name", "key", find or (lambda: Finding(content, [path])))


# What is kept ----------------------------------------------------------------------------------


def test_what_is_kept_is_found_out_once(cache, tmp_path):
    assert keep(tmp_path / "file", [1, "a"]) == [1, "a"]
    assert keep(tmp_path / "file", "another") == [1, "a"]
    assert [path.name for path in cache.iterdir()] == ["name-key.json"]


def test_a_file_that_changes_makes_it_anew(cache, tmp_path):
    path = tmp_path / "file"
    for number, change in enumerate(("a", "ab", "cd")):
        path.write_text(change)
        os.utime(path, (number, number))
        assert keep(path, change) == change
    path.unlink()
    assert keep(path, "gone") == "gone"


@pytest.mark.parametrize("damage", ["", "{", "[]", "{}", "null", '{"content": 1}', "\x00", "cut"])
def test_a_damaged_file_is_made_anew(cache, tmp_path, damage):
    keep(tmp_path / "file", ["old"])
    (path,) = cache.iterdir()
    text = path.read_text()
    path.write_text(text.replace("old", "odd") if damage == "cut" else damage)
    assert keep(tmp_path / "file", ["new"]) == ["new"]
    assert keep(tmp_path / "file", ["newer"]) == ["new"]


def test_a_folder_that_cannot_be_written_is_done_without(tmp_path, monkeypatch):
    (tmp_path / "taken").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "taken"))
    assert [keep(tmp_path, number) for number in (1, 2)] == [1, 2]


def test_without_a_home_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    for home in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", home)
        assert cached.cache_folder() is None
        assert [keep(tmp_path, number) for number in (1, 2)] == [1, 2]
    assert not list(Path().iterdir())


def test_the_folder_does_not_grow(cache):
    for number in range(2 * cached.KEPT):
        kept("name", f"key{number}", lambda: Finding(1))
    kept("other", "key", lambda: Finding(1))
    assert len(list(cache.glob("name-*"))) == cached.KEPT
    assert (cache / f"name-key{2 * cached.KEPT - 1}.json").exists()
    assert not list(cache.glob("*.partial"))


def test_files_are_found_without_importing(tmp_path, monkeypatch):
    (tmp_path / "whole" / "deep").mkdir(parents=True)
    for name in ("__init__.py", "deep/more.py", "deep/suite.toml", "deep/text.md"):
        (tmp_path / "whole" / name).write_text("raise RuntimeError")
    (tmp_path / "single.py").write_text("raise RuntimeError")
    monkeypatch.syspath_prepend(tmp_path)
    names = [str(path.relative_to(tmp_path)) for path in cached.package_files("whole")]
    assert names == ["whole/__init__.py", "whole/deep/more.py", "whole/deep/suite.toml"]
    assert cached.package_files("single") == [tmp_path / "single.py"]
    assert cached.package_files("nowhere_at_all") == []


# What it hangs on ------------------------------------------------------------------------------


@pytest.mark.long
def test_plugins_are_loaded_once_for_each_kind_of_listing(cache, loads):
    for _ in range(2):
        ok("strategies")
        ok("plugins", "list")
        ok("hooks", "load")
    assert len(loads) == 1
    ok("models", "resnet?")
    ok("models", "resnet5*")
    assert len(loads) == 2


def test_versions_and_limits_are_part_of_the_key(monkeypatch):
    keys = [catalogue._key(())]
    monkeypatch.setenv("DATAEFF_LOAD_PLUGINS", "")
    keys.append(catalogue._key(()))
    version = catalogue._version
    for library in ("dataeff", "torch", "timm", "torchvision"):
        monkeypatch.setattr(
            catalogue, "_version", lambda name, new=library: "9" if name == new else version(name)
        )
        keys.append(catalogue._key(()))
    assert len(set(keys)) == len(keys)


def test_an_installed_plugin_that_changes_is_read_again(tmp_path, monkeypatch):
    info = tmp_path / "site" / "dataeff_more-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dataeff-more\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dataeff]\nmore = more_plugin.inner:thing\n")
    package = tmp_path / "site" / "more_plugin"
    package.mkdir()
    (package / "inner.py").write_text("")
    before = catalogue._key(())
    monkeypatch.syspath_prepend(tmp_path / "site")
    keys = [before, catalogue._key(())]
    (package / "inner.py").write_text("# changed")
    keys.append(catalogue._key(()))
    (package / "another.py").write_text("")
    keys.append(catalogue._key(()))
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dataeff-more\nVersion: 1.1\n")
    keys.append(catalogue._key(()))
    assert len(set(keys)) == len(keys)


def test_loose_files_are_part_of_the_key(tmp_path, loads, cache):
    folder = tmp_path / "loose"
    folder.mkdir()
    ok("strategies", "--plugins-dir", folder)
    (folder / "half.py").write_text(LOOSE)
    ok("strategies", "--plugins-dir", folder)
    ok("strategies", "--plugins-dir", folder)
    ok("strategies")
    assert loads == [(folder,), (folder,), ()]


def test_a_folder_that_is_gone_is_named_although_it_was_read(tmp_path):
    folder = tmp_path / "loose"
    folder.mkdir()
    ok("strategies", "--plugins-dir", folder)
    folder.rmdir()
    said = mistake("strategies", "--plugins-dir", folder)
    assert said == f"There is no plugins folder {folder}; --plugins-dir takes a folder."


def test_a_loose_plugin_is_listed_as_it_is_now(tmp_path):
    path = tmp_path / "half.py"
    path.write_text(LOOSE)
    assert "half  Keep the first rows" in ok("strategies", "half", "--plugins-dir", tmp_path)
    path.write_text(LOOSE.replace("Keep the first rows", "Keep the very first rows"))
    assert "half  Keep the very first" in ok("strategies", "half", "--plugins-dir", tmp_path)


@pytest.mark.long
def test_a_suite_is_read_again_when_its_file_changes(tmp_path):
    suite, folder = tmp_path / "far.toml", tmp_path / "loose"
    folder.mkdir()
    suite.write_text("seeds = 1")
    (folder / "far.py").write_text(
        "from dataeff import hookimpl\n\n@hookimpl\ndef register_suites(register):\n"
        f"    register('far', {str(suite)!r})\n"
    )
    assert "far  cannot be run: " in ok("suites", "--plugins-dir", folder)
    suite.write_text(
        'title = "Far"\nstrategies = ["baseline"]\n'
        'tasks.one = { dataset = "digits", model = "tiny", epochs = 1 }\n'
    )
    said = ok("suites", "--plugins-dir", folder)
    assert "far  Far (1 task x 1 strategy, seeds until settled)" in said


def test_what_a_broken_plugin_lacked_is_found_once_it_is_there(tmp_path, monkeypatch):
    folder, site = tmp_path / "loose", tmp_path / "site"
    folder.mkdir()
    site.mkdir()
    monkeypatch.syspath_prepend(site)
    (folder / "half.py").write_text(f"import comes_later\n{LOOSE}")
    broken = "did not load: ModuleNotFoundError: No module named 'comes_later'"
    assert broken in ok("plugins", "list", "--plugins-dir", folder)
    (site / "comes_later.py").write_text("")
    assert "did not load" not in ok("plugins", "list", "--plugins-dir", folder)


def test_a_parameter_that_cannot_be_read_hides_no_other_strategy(tmp_path):
    (tmp_path / "half.py").write_text(LOOSE.replace("keep: Share", 'keep: "Nowhere"'))
    text = ok("strategies", "--plugins-dir", tmp_path)
    assert "    parameters: cannot be read (NameError: name 'Nowhere' is not defined)" in text
    assert "amp  " in text
