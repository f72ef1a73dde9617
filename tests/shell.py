"""The command line as tests call it."""

import sys
from unittest.mock import patch

from click.testing import CliRunner

from dataeff.cli import main


def call(*arguments):
    """Call dataeff as a shell would; an exception that nobody caught is raised here."""
    words = [str(part) for part in arguments]
    with patch.object(sys, "argv", ["dataeff", *words]):
        return CliRunner().invoke(main, words, catch_exceptions=False)


def ok(*arguments):
    """Return what a call prints that must succeed."""
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def mistake(*arguments):
    """Return the one sentence that a mistake gets."""
    result = call(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    return line.removeprefix("Error: ")
