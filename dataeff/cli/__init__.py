"""The command line: one file per command, imported when that command is asked for."""

import importlib

import click

from dataeff.cli.group import Commands

# In the order in which a user meets them.
_COMMANDS = (
    *("run", "leaderboard", "report", "site", "plot", "compare", "merge", "export"),
    *("verify", "analyze"),
    "doctor",
    *("strategies", "datasets", "models", "suites", "tasks", "hooks", "plugins"),
)


class _Lazy(Commands):
    """Knows its commands by name, and imports the file of one when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        return getattr(importlib.import_module(f"dataeff.cli.{cmd_name}"), cmd_name)


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dataeff")
def main() -> None:
    """Measure which ways to train on less data really save time, and at what accuracy."""
