"""The shape of the house: imports point one way, strategies know the public names only."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PLUGINS = sorted((ROOT / "plugins").rglob("*.py"))
SOURCES = [*sorted((ROOT / "dataeff").rglob("*.py")), *PLUGINS]

# What each room may import of the others, beside the modules that belong to no room.
ALLOWED = {
    "data": {"data"},
    "models": {"models"},
    "training": {"training", "data", "models"},
    "bench": {"bench", "foretell", "training", "data", "models"},
    "foretell": {"foretell", "bench", "training", "data", "models"},
    "analysis": {"analysis", "bench", "training", "data", "models"},
    "report": {"report", "bench.results"},
    "exchange": {"exchange", "report", "bench.results"},
    "template": set(),
}
ROOMS = set(ALLOWED)


def imports(path):
    """Return the dataeff modules that a file imports when it runs (not for type checkers)."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            node.body = []
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dataeff"):
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("dataeff")}
    return found


def room_of(module):
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in ROOMS else None


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_one_way(path):
    room = room_of(".".join(path.relative_to(ROOT).parts))
    for module in imports(path):
        target = room_of(module)
        if room is None or target is None:
            continue
        allowed = any(
            target == name or module.startswith(f"dataeff.{name}") for name in ALLOWED[room]
        )
        assert allowed, f"{path.name} of {room} imports {module}"


@pytest.mark.parametrize("path", PLUGINS, ids=lambda path: str(path.relative_to(ROOT)))
def test_strategies_import_public_names_only(path):
    modules = {module for module in imports(path) if module.startswith("dataeff.")}
    public = ast.literal_eval(_all_of(ROOT / "dataeff" / "__init__.py"))
    assert modules <= {f"dataeff.{name}" for name in public}


def _all_of(path):
    tree = ast.parse(path.read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return node.value
    raise AssertionError("no __all__")


def test_the_harness_knows_no_strategys_name():
    plugins = (ROOT / "plugins").iterdir()
    names = [path.stem for path in plugins if not path.stem.startswith("_")]
    code = [path for path in SOURCES if path not in PLUGINS and path.parent.name != "template"]
    for path in code:
        text = re.sub(r'""".*?"""|#.*', "", path.read_text(), flags=re.S)
        for name in set(names) - {"baseline"}:
            uses = re.findall(rf"(?<![\w'\[ ]){name}(?!\w)", text)
            assert not uses, f"{path.name} names the strategy {name}"


def test_strategies_draw_from_named_streams_only():
    drawing = re.compile(
        r"np\.random|(?<![\w.])random\.(random|shuffle|choice|seed)|manual_seed"
        r"|torch\.(rand|randn|randint|randperm|multinomial|bernoulli)\((?![^\n]*generator)"
    )
    for path in PLUGINS:
        assert not drawing.search(path.read_text()), path.name


def test_the_loop_fits_on_one_page():
    lines = (ROOT / "dataeff" / "training" / "loop.py").read_text().splitlines()
    assert len(lines) <= 155


def test_public_names_have_docstrings():
    for path in SOURCES:
        tree = ast.parse(path.read_text())
        assert ast.get_docstring(tree), f"{path} has no docstring"
        for node in tree.body:
            public = isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name[0] != "_"
            hook = any("hookimpl" in ast.dump(d) for d in getattr(node, "decorator_list", ()))
            if public and not hook:
                assert ast.get_docstring(node), f"{path.name}: {node.name} has no docstring"


def test_reading_results_imports_no_torch():
    code = (
        "import sys, dataeff.cli, dataeff.report.web.page, dataeff.report.latex, dataeff.registry\n"
        "import dataeff.report.plots.draw\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_names_of_report_modules_are_their_own():
    # The command and what it asks bear one name.
    stems = [path.stem for path in (ROOT / "dataeff").rglob("*.py") if path.stem != "__init__"]
    ours = {path.stem for path in (ROOT / "dataeff" / "report").rglob("*.py")} - {"__init__"}
    assert {stem for stem in ours if stems.count(stem) > 1} == {"compare"}
