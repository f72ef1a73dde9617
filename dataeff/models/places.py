"""Networks that stand at a place of the user's own: `my_module:make_net[width=8]`."""

import ast
import copy
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints
from weakref import WeakSet

import torch
from pydantic import PydanticUserError
from torch import nn
from torch.nn.parameter import is_lazy

from dataeff.errors import DataeffError, UnknownName, did_you_mean, one_line
from dataeff.models.small import Shape
from dataeff.models.trial import is_empty
from dataeff.notation import format_part
from dataeff.registry import Entry, Parameter

CLASSES = ("classes", "num_classes", "n_classes")
"""What the number of classes is called, where a function takes it by name."""

_WORDS = {"true": "True", "false": "False", "none": "None"}
_GIVEN: WeakSet[nn.Module] = WeakSet()


def network_at(entry: Entry, params: dict[str, Any], classes: int, shape: Shape) -> nn.Module:
    """Build what stands at a place: a class, a function, or a network to be copied."""
    found = entry.factory
    if isinstance(found, nn.Module):
        if params:
            raise DataeffError(
                f"{entry.name} is a network, which takes no parameters: give a function that "
                f"makes it with {', '.join(params)}."
            )
        _check_sizes(found, entry.name)
        return renewed(found, entry.name)
    if not callable(found):
        raise DataeffError(
            f"{entry.name} is of type {type(found).__name__}: give a torch.nn.Module, or a "
            "function or class that makes one."
        )
    arguments, named = _arguments(entry, params, classes, shape)
    try:
        net = found(*arguments, **named)
    except DataeffError:
        raise
    # Code of the user's own may raise anything at all.
    except Exception as error:
        if is_empty():
            # It may need data, of which there are none.
            raise NotImplementedError from error
        what, size = format_part(entry.name, params), "x".join(map(str, shape))
        told = one_line(str(error)).rstrip(".") or "nothing more is said"
        raise DataeffError(
            f"model {what} cannot be built for {classes} classes and {size} images "
            f"({type(error).__name__}: {told})."
        ) from error
    if not isinstance(net, nn.Module):
        raise DataeffError(
            f"{entry.name} gives a {type(net).__name__}, which is no torch.nn.Module: return the "
            "network."
        )
    _check_sizes(net, entry.name)
    if net in _GIVEN:
        raise DataeffError(
            f"{entry.name} gives one network again and again, which is trained by then: make a new "
            "one each time."
        )
    _GIVEN.add(net)
    # It is tried here, and whoever trains it takes it elsewhere.
    return net if is_empty() else net.cpu()


def _check_sizes(net: nn.Module, name: str) -> None:
    if any(is_lazy(weight) for weight in net.parameters()):
        raise DataeffError(
            f"{name} has layers of a size that is not known yet: call the network once, on "
            "torch.zeros(2, *shape), before it is returned."
        )


def renewed(net: nn.Module, name: str) -> nn.Module:
    """Return a copy with all weights drawn anew, by `reset_parameters` of its modules."""
    new = copy.deepcopy(net)
    with torch.no_grad():
        for weight in new.parameters():
            if weight.is_floating_point():
                weight.fill_(torch.nan)
    # A module may have other plans for those within it: it comes after them.
    for module in reversed(list(new.modules())):
        if callable(reset := getattr(module, "reset_parameters", None)):
            reset()
    missed = [key for key, weight in new.named_parameters() if weight.isnan().any()]
    if missed:
        more = f" and {len(missed) - 1} more" if missed[1:] else ""
        raise DataeffError(
            f"{name} is a network whose {missed[0]}{more} no reset_parameters() draws anew for "
            "each seed: give a function that makes it instead."
        )
    return new


def read_literal(text: Any) -> Any:
    """Read a parameter as Python does; what is no value of Python's is a text."""
    if not isinstance(text, str):
        return text
    try:
        return ast.literal_eval(_WORDS.get(text.lower(), text))
    # The last two, where it is nested deeply.
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def takes(factory: Callable[..., Any], name: str) -> bool:
    """Say whether a function has a parameter of its own of this name."""
    return name in _signature(factory)


def _arguments(
    entry: Entry, params: dict[str, Any], classes: int, shape: Shape
) -> tuple[list[Any], dict[str, Any]]:
    """Return what to call a function with: what is typed, classes and shape where it takes them."""
    signature = _signature(entry.factory)
    hints = _hints(entry.factory)
    free = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in signature.values())
    known = [name for name, one in signature.items() if one.kind not in _MANY]
    for key in params:
        if key not in known and not free:
            hint = did_you_mean(key, known)
            told = ", ".join(known) or "no parameters"
            raise UnknownName(
                f"model {entry.name} has no parameter {key!r}.{hint} It takes: {told}."
            )
    named: dict[str, Any] = {key: read_literal(value) for key, value in params.items()}
    for key in set(params) & set(hints):
        named[key] = _read(entry, key, hints[key], params[key])
    if by_name := next((name for name in CLASSES if name in known and name not in params), None):
        named[by_name] = classes
    if "shape" in known and "shape" not in params:
        named["shape"] = shape
    left = [classes] * (not set(CLASSES) & set(named)) + [shape] * ("shape" not in named)
    for key in known:
        if key not in named and signature[key].default is inspect.Parameter.empty:
            if not left:
                raise DataeffError(
                    f"model {entry.name} needs {key}: write {entry.name}[{key}=...]."
                )
            named[key] = left.pop(0)
    first = [key for key in known if signature[key].kind is inspect.Parameter.POSITIONAL_ONLY]
    return [named.pop(key) for key in first if key in named], named


_MANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _signature(factory: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(factory).parameters)
    # Such as a class that is written in C.
    except (ValueError, TypeError):
        return {}


def _hints(factory: Any) -> dict[str, Any]:
    maker = factory.__init__ if inspect.isclass(factory) else factory
    try:
        return get_type_hints(maker, include_extras=True)
    # Annotations may name anything, such as what is imported for type checkers only.
    except Exception:
        return {}


def _read(entry: Entry, key: str, kind: Any, value: Any) -> Any:
    try:
        return Parameter(key, kind, None).read(value)
    except PydanticUserError:
        return read_literal(value)
    except ValueError as error:
        told = one_line(str(error).splitlines()[-1]) if "\n" in str(error) else str(error)
        raise DataeffError(f"model {entry.name}: {key}={value} is not valid ({told}).") from None
