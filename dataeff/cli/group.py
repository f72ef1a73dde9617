"""The group that commands are in: how mistakes are told, and help that is not cut."""

import os
import signal
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import click

from dataeff.cli.echo import echo
from dataeff.damage import listening
from dataeff.errors import FULL, DataeffError, DiskFull, did_you_mean, needs_all
from dataeff.printable import printable, shortened


class Commands(click.Group):
    """Turns a mistake into one sentence and exit code 2, and knows close command names.

    A full disk is no mistake, and has exit code 1. Of damaged files it tells as they are met.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order in which a user meets them."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with the whole first paragraph of their help; click would cut it."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        lines = [
            (name, " ".join((command.help or "").split("\n\n")[0].split()))
            for name, command in found
            if command is not None
        ]
        with formatter.section("Commands"):
            formatter.write_dl(lines)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            known = self.list_commands(ctx)
            hint = did_you_mean(args[0], known) or f" Try: {', '.join(known)}."
            raise DataeffError(f"There is no command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            _check_characters(args)
            return super().parse_args(ctx, args)
        except DataeffError as error:
            _tell(ctx, str(error))
        except click.UsageError as error:
            _tell_usage(ctx, error)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _terminable(), listening(lambda text: echo(text, err=True)):
                return super().invoke(ctx)
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] not in ("torch", "torchvision", "timm"):
                raise
            _tell(ctx, str(needs_all(f"dataeff {ctx.invoked_subcommand}")))
        except DiskFull as error:
            _tell(ctx, str(error), code=1)
        except DataeffError as error:
            _tell(ctx, str(error))
        except click.UsageError as error:
            _tell_usage(ctx, error)
        except OSError as error:
            if error.errno in FULL:
                full = DiskFull.at(error.filename or "what is to be written")
                _tell(ctx, str(full), code=1)
            if error.filename is None:
                raise
            # What was to be replaced is the second, where there are two.
            _tell(ctx, f"Cannot use {error.filename2 or error.filename}: {error.strerror}.")
        except (KeyboardInterrupt, _Terminated) as stop:
            trains = ctx.invoked_subcommand in ("run", "analyze")
            more = " The same command goes on from the last finished epoch." if trains else ""
            said = [f"\nStopped.{more}", *getattr(stop, "__notes__", ())]
            echo("\n".join(said), err=True)
            ctx.exit(143 if isinstance(stop, _Terminated) else 130)


class _Terminated(SystemExit):
    """Somebody asked this process to end."""


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM end what runs as Ctrl-C does, unless somebody else has a use for it."""
    free = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    # Only there may handlers be set.
    if not free or threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: Any) -> NoReturn:
        # Whoever asks twice does not wait for what is being tidied up.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise _Terminated

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _check_characters(args: list[str]) -> None:
    """Refuse control characters and what is no UTF-8: neither could be kept, nor typed again."""
    given = {name: text for name, text in os.environ.items() if name.startswith("DATAEFF_")}
    for text in [*args, *given.values()]:
        for kind in map(unicodedata.category, "" if text.isprintable() else text):
            if kind in ("Cc", "Cs"):
                what = "a control character" if kind == "Cc" else "bytes that are no UTF-8"
                raise DataeffError(f"{text!r} holds {what}; write or rename it without.")


def _tell(ctx: click.Context, message: str, code: int = 2) -> NoReturn:
    echo(f"Error: {shortened(printable(' '.join(message.splitlines())))}", err=True)
    ctx.exit(code)


def _tell_usage(ctx: click.Context, error: click.UsageError) -> NoReturn:
    message = error.format_message()
    # Help, where a group was asked for nothing, comes as an error too.
    if message.startswith("Usage:"):
        raise error
    end = "" if message.endswith((".", "?", "?)")) else "."
    # An option without its value is not told of which command it is.
    asked = [ctx.command_path, ctx.invoked_subcommand or ""]
    where = error.ctx.command_path if error.ctx else " ".join(asked).rstrip()
    _tell(ctx, f"{message}{end} See: {where} --help")
