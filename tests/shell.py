"""The command line as tests call it."""

from click.testing import CliRunner

from dataeff.cli import main


def call(*arguments):
    """Call dataeff as a shell would; an exception that nobody caught is raised here."""
    return CliRunner().invoke(main, [str(part) for part in arguments], catch_exceptions=False)


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
