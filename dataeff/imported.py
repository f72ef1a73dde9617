"""Own code by its place: `my_module:make_net` is what a module that can be imported calls so."""

import importlib
import os
import sys
from typing import Any

from dataeff.errors import DataeffError, UnknownName, did_you_mean, one_line


def is_place(name: str) -> bool:
    """Say whether a name is the place of own code."""
    module, _, rest = name.partition(":")
    return bool(rest) and all(part.isidentifier() for part in [*module.split("."), rest])


def imported(name: str) -> Any:
    """Return what stands at a place; the folder that one is in is searched too."""
    module, _, attribute = name.partition(":")
    here = os.getcwd()
    if not {here, ""} & set(sys.path):
        sys.path.append(here)
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise _broken(module, error) from error
        raise UnknownName(
            f"There is no module {error.name!r} for {name}; type it in the folder that holds "
            f"{error.name}.py, or install it."
        ) from None
    # A module may raise anything at all, or try to leave the process.
    except (Exception, SystemExit) as error:
        raise _broken(module, error) from error
    try:
        return getattr(found, attribute)
    except AttributeError:
        known = [key for key in vars(found) if not key.startswith("_")]
        hint = did_you_mean(attribute, known) or f" See {found.__file__}."
        raise UnknownName(f"Module {module} has no {attribute!r}.{hint}") from None


def _broken(module: str, error: BaseException) -> DataeffError:
    told = one_line(str(error))
    return DataeffError(f"Module {module} cannot be imported: {type(error).__name__}: {told}")
