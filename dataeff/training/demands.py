"""What a strategy asks of a loop that is not ours: read off its hooks and its code, before it runs.

Hooks on the side of the data can be called around any loop; those on the side of the network and
its optimizer belong to whoever has the loop.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

from dataeff.composition import Active, Part
from dataeff.errors import DataeffError
from dataeff.strategy import Strategy, hooks_of

OURS = {
    "on_resume": "rebuilds the network",
    "forward": "calls the network in its own way",
    "network": "wraps the call of the network",
    "sample_losses": "computes the losses",
    "backward": "goes backward itself",
    "should_step": "decides when the optimizer steps",
    "finish_gradients": "changes gradients",
    "optimizer_step": "steps the optimizer",
}
"""The hooks that only our loop calls, each with what a strategy does there."""

_OPTIMIZER = {"optimizer", "add_parameters", "model_changed"}
_NETWORK = {"score", "score_dataset", "scoring", "network", "model", "feature_shape", "work"}
_CHILDREN = {"train_child"}


@dataclass(frozen=True)
class Demands:
    """What a strategy needs beside batches and losses."""

    network: bool
    """It scores samples, or looks at the network."""
    children: bool
    """It trains networks of its own."""
    logits: bool
    """It looks at what the network said, not at losses alone."""
    rate: bool
    """It has a factor on the learning rate."""


def whose(kind: type[Strategy]) -> str:
    """Return the hook for which a strategy needs our loop; nothing where any loop will do."""
    return next((name for name in hooks_of(kind) if name in OURS), "")


def check_drivable(parts: Sequence[Part]) -> None:
    """Refuse strategies that need our loop, by the hook that they need it for."""
    for part in parts:
        name = part.entry.name
        if hook := whose(part.kind):
            raise DataeffError(
                f"{name} cannot be driven, because its hook {hook} {OURS[hook]}: leave it out "
                f"here, or train in our loop with dataeff run -s {name}."
            )
        if asked := sorted(_asked(part.kind)[0] & _OPTIMIZER):
            raise DataeffError(
                f"{name} cannot be driven, because it asks for our optimizer (run.{asked[0]}): "
                f"leave it out here, or train in our loop with dataeff run -s {name}."
            )


def check_network(parts: Sequence[Active], given: bool, makes: bool) -> None:
    """Refuse strategies that ask for a network, or for new ones, where there are none."""
    for part in parts:
        needs, name = demands(part.kind), part.entry.name
        if needs.children and not makes:
            raise DataeffError(
                f"{name} trains networks of its own: give model= a name such as 'resnet8', or a "
                "function that returns a new network each time, and train drive.model."
            )
        if needs.network and not given:
            raise DataeffError(
                f"{name} asks the network that you train: give it as model= to dataeff.drive."
            )


def demands(kind: type[Strategy]) -> Demands:
    """Return what a strategy needs, by its hooks and by its code."""
    hooks = [getattr(kind, name) for name in hooks_of(kind)]
    looks = any("logits" in inspect.signature(hook).parameters for hook in hooks)
    run, anyone = _asked(kind)
    return Demands(
        network=bool(run & (_NETWORK | _CHILDREN)),
        children=bool(run & _CHILDREN),
        logits=looks or "last_correct" in anyone,
        rate="lr_factor" in hooks_of(kind),
    )


def _asked(kind: type) -> tuple[set[str], set[str]]:
    """Return the names that its code asks of `run`, and of anything: its helpers' code too."""
    run: set[str] = set()
    anyone: set[str] = set()
    seen: set[Any] = set()
    waiting = list(_methods(kind))
    while waiting:
        function = waiting.pop()
        if function.__code__ in seen:
            continue
        seen.add(function.__code__)
        for node in ast.walk(_tree(function)):
            if isinstance(node, ast.Attribute):
                anyone.add(node.attr)
                if isinstance(node.value, ast.Name) and node.value.id == "run":
                    run.add(node.attr)
            if isinstance(helper := _named(node, function), FunctionType):
                waiting.append(helper)
    return run, anyone


def _methods(kind: type) -> Iterator[FunctionType]:
    for part in kind.__mro__[: kind.__mro__.index(Strategy)]:
        for value in vars(part).values():
            value = getattr(value, "fget", getattr(value, "__func__", value))
            if isinstance(value, FunctionType):
                yield value


def _tree(function: FunctionType) -> ast.AST:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    # Code without a source: what it asks for is refused when it asks.
    except (OSError, TypeError, SyntaxError):
        return ast.Module([], [])


def _named(node: ast.AST, function: FunctionType) -> Any:
    """Return what a name stands for that a function uses: its own package's, nobody else's."""
    names = function.__globals__
    found = None
    if isinstance(node, ast.Name):
        found = names.get(node.id)
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        module = names.get(node.value.id)
        found = getattr(module, node.attr, None) if isinstance(module, ModuleType) else None
    package = (function.__module__ or "").partition(".")[0]
    theirs = getattr(found, "__module__", None) or ""
    return found if theirs.partition(".")[0] == package else None
