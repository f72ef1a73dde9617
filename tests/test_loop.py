"""There is one loop: training, pilots, previews and the kit all go through it."""

import ast
from pathlib import Path

import dataeff
from dataeff.hookspecs import HOOKS

ROOT = Path(dataeff.__file__).parent
OF_A_BATCH = list(HOOKS)[list(HOOKS).index("load") :]
"""All hooks from `load` on are called for each batch."""
# The learning rate and the counted work are asked for wherever they are needed.
ANYWHERE = ("lr_factor", "compute_factor")
ALLOWED = {
    "training/loop.py": {"drain", *OF_A_BATCH} - set(ANYWHERE),
    # For a loop of somebody else's, in the place of `_train_batch`.
    "training/offering.py": {"reduce_loss"},
    "training/defaults.py": {"network"},
    "training/run.py": {"network"},
    # Warm-up: throw-away copies, before any clock runs.
    "training/job.py": {"network"},
}


def called(path):
    """Return the hooks of a batch that a module calls through the calls of a run."""
    tree, found = ast.parse(path.read_text(encoding="utf-8")), set()
    holders = {"calls", "hook"} | {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and "id='Calls'" in ast.dump(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            holder = node.func.value
            name = holder.attr if isinstance(holder, ast.Attribute) else getattr(holder, "id", "")
            if name in holders:
                found.add(node.func.attr)
    return found & (set(OF_A_BATCH) | {"drain"}) - set(ANYWHERE)


def test_no_other_module_calls_the_hooks_of_a_batch():
    calls = {str(path.relative_to(ROOT)): called(path) for path in ROOT.rglob("*.py")}
    strays = {name: hooks - ALLOWED.get(name, set()) for name, hooks in calls.items()}
    assert {name: hooks for name, hooks in strays.items() if hooks} == {}


def test_the_loop_calls_every_hook_of_a_batch():
    missing = set(OF_A_BATCH) - set(ANYWHERE) - called(ROOT / "training/loop.py")
    # Called by what the default of `forward` asks of the run.
    assert missing == {"network"}
