"""The command line: one file per command, imported when that command is asked for."""

import importlib
import importlib.metadata
import importlib.util

import click

from dataeff.cli.group import Commands
from dataeff.errors import needs_all

# In the order in which a user meets them.
_COMMANDS = (
    *("run", "leaderboard", "report", "site", "plot", "compare", "merge", "export"),
    *("verify", "analyze", "train"),
    "doctor",
    *("strategies", "datasets", "models", "suites", "tasks", "hooks", "plugins"),
)


class _Lazy(Commands):
    """Knows its commands by name, and imports the file of one when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in _COMMANDS if _is_here(name)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        if not _is_here(cmd_name):
            raise needs_all(f"dataeff {cmd_name}")
        return getattr(importlib.import_module(f"dataeff.cli.{cmd_name}"), cmd_name)


def _is_here(name: str) -> bool:
    """Say whether a command is part of what is installed: dataeff-read has those that read."""
    return importlib.util.find_spec(f"dataeff.cli.{name}") is not None


def _distribution() -> str:
    try:
        importlib.metadata.version("dataeff")
    except importlib.metadata.PackageNotFoundError:
        return "dataeff-read"
    return "dataeff"


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name=_distribution())
def main() -> None:
    """Measure which ways to train on less data really save time, and at what accuracy."""
