"""Conditions and provenance: what is stamped into every record."""

import json
import subprocess
from dataclasses import asdict
from functools import partial

import pytest
from machines import CPU, CUDA, Box, Nvml, put_nvml

from dataeff.bench import conditions as stamped
from dataeff.plugins import Plugin
from dataeff.training import devices, system


@pytest.fixture
def box(tmp_path, monkeypatch):
    return Box(tmp_path, monkeypatch)


@pytest.fixture
def put(monkeypatch):
    """Return a function that puts a pynvml, and a CUDA device that torch knows, in place."""
    return partial(put_nvml, monkeypatch)


def test_conditions_of_a_processor(box, monkeypatch):
    cpus = "sys/devices/system/cpu"
    box.write(f"{cpus}/cpu0/cpufreq/cpuinfo_max_freq", "2400000\n")
    box.write(f"{cpus}/cpu11/cpufreq/cpuinfo_max_freq", "3675000\n")
    box.write(f"{cpus}/cpu1/cpufreq/cpuinfo_max_freq", "\n")
    box.write("proc/meminfo", "MemTotal:   24682416 kB\n")
    assert system.highest_cpu_clock(box.root) == 3675
    assert system.memory_gib(box.root) == 23.54
    monkeypatch.setattr(stamped, "memory_gib", lambda: 23.54)
    facts = stamped.conditions(CPU)
    assert facts["memory_gib"] == 24
    monkeypatch.setattr(stamped, "memory_gib", lambda: 23.4)
    assert stamped.conditions(CPU)["memory_gib"] == 24, "the kernel keeps more or less of it"
    assert facts["cores"] == 2
    assert (facts["driver"], facts["cuda"], facts["cudnn"]) == (None, None, None)
    monkeypatch.setattr(stamped, "memory_gib", lambda: None)
    assert stamped.conditions(CPU)["memory_gib"] is None


def test_conditions_are_the_same_from_one_moment_to_the_next():
    first, second = stamped.conditions(CPU), stamped.conditions(CPU)
    assert stamped.conditions_id(first) == stamped.conditions_id(second)
    assert json.loads(json.dumps(first)) == first


def test_memory_is_known_without_proc(tmp_path):
    assert system.memory_gib(tmp_path) == pytest.approx(system.memory_gib(), rel=0.01)


def test_conditions_of_a_gpu(put, monkeypatch):
    monkeypatch.setattr("torch.version.cuda", "12.6")
    monkeypatch.setattr("torch.backends.cudnn.version", lambda: 90501)
    put(Nvml())
    facts = stamped.conditions(CUDA)
    assert (facts["device_name"], facts["memory_gib"]) == ("A GPU", 80)
    assert (facts["driver"], facts["cuda"], facts["cudnn"]) == ("535.104.05", "12.6", 90501)
    put(None)
    monkeypatch.setattr(devices, "kernel_driver", lambda: "535.104.05")
    facts = stamped.conditions(CUDA)
    assert facts["driver"] == "535.104.05"


def git(folder, *arguments):
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    done = subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path):
    """Return a checkout with a package and a result, and forget commits that were read before."""
    stamped.commit.cache_clear()
    root = tmp_path / "checkout"
    for name in ("package/__init__.py", "other/tool.py", "results/run.json", ".gitignore"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("venv\n")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first")
    yield root
    stamped.commit.cache_clear()


def test_the_commit_of_a_checkout(checkout):
    head = git(checkout, "rev-parse", "HEAD")
    assert stamped.commit(checkout / "package") == head
    (checkout / "results/run.json").write_text("another")
    (checkout / "results/more.json").write_text("more")
    stamped.commit.cache_clear()
    assert stamped.commit(checkout / "package") == head, "results are no code"


@pytest.mark.parametrize("name", ["package/__init__.py", "other/tool.py", "other/new.py"])
def test_changed_code_is_told(checkout, name):
    (checkout / name).write_text("changed")
    head = git(checkout, "rev-parse", "HEAD")
    assert stamped.commit(checkout / "package") == f"{head}+dirty"


def test_the_commit_is_read_once(checkout):
    before = stamped.commit(checkout / "package")
    (checkout / "other/tool.py").write_text("changed")
    assert stamped.commit(checkout / "package") == before


def test_a_package_installed_below_a_checkout_is_not_of_it(checkout):
    package = checkout / "venv/package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    assert stamped.commit(package) is None


def test_git_is_not_misled_by_its_own_variables(checkout, tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert stamped.commit(checkout / "package") is not None


def test_there_may_be_no_checkout_no_commit_and_no_git(tmp_path, checkout, monkeypatch):
    assert stamped.commit(tmp_path / "missing") is None
    assert stamped.commit(tmp_path) is None
    git(tmp_path, "init", "-q", "fresh")
    (tmp_path / "fresh/__init__.py").write_text("")
    git(tmp_path / "fresh", "add", ".")
    assert stamped.commit(tmp_path / "fresh") is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert stamped.commit(checkout / "package") is None


def test_versions_of_plugins_that_came_from_elsewhere():
    plugins = [
        Plugin("own", "0.1", "built in"),
        Plugin("ours", "0.1", "bundled"),
        Plugin("theirs", "2.3", "their-package"),
        Plugin("loose", "", "plugins/loose.py"),
        Plugin("broken", "9", "their-package", error="ImportError: no"),
    ]
    facts = stamped.provenance([asdict(plugin) for plugin in plugins])
    own = facts["versions"].pop("dataeff")
    assert own == stamped.conditions(CPU)["dataeff"]
    assert facts["versions"] == {"theirs": "2.3", "loose": ""}
    assert json.loads(json.dumps(facts)) == facts
