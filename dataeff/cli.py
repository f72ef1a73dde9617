"""The command line: run suites, print leaderboards, list what there is, manage plugins."""

from __future__ import annotations

import functools
import inspect
import json
import shlex
import sys
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from dataeff import hookspecs, plugin_tools
from dataeff.errors import DataeffError, did_you_mean
from dataeff.plugins import Installed, hook_kind, hooks_of, load_plugins

console = Console(highlight=False)


class Commands(click.Group):
    """Turns a mistake into one sentence and exit code 2, and knows close command names."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            hint = did_you_mean(args[0], self.commands) or f" Try: {', '.join(self.commands)}."
            raise click.UsageError(f"There is no command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except DataeffError as error:
            click.echo(f"Error: {error}", err=True)
            ctx.exit(2)
        except KeyboardInterrupt:
            click.echo(
                "\nStopped. The same command goes on from the last finished epoch.", err=True
            )
            ctx.exit(130)


def with_plugins(command: Callable) -> Callable:
    """Add --plugins-dir and pass what is installed as `installed`."""

    @click.option(
        "--plugins-dir",
        "plugin_dirs",
        multiple=True,
        type=click.Path(path_type=Path),
        help="Also load every .py file of this folder as a plugin.",
    )
    @functools.wraps(command)
    def wrapped(*args: Any, plugin_dirs: tuple[Path, ...], **options: Any) -> Any:
        return command(
            *args, installed=load_plugins(plugin_dirs), plugin_dirs=plugin_dirs, **options
        )

    return wrapped


results_option = click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=Path("results"),
    envvar="DATAEFF_RESULTS",
    show_default=True,
    help="Folder of results.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
data_root_option = click.option(
    "--data-root",
    type=click.Path(path_type=Path),
    envvar="DATAEFF_DATA",
    help="Folder of data sets (or the variable DATAEFF_DATA).",
)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dataeff")
def main() -> None:
    """Measure which ways to train on less data really save time, and at what accuracy."""


# Running ---------------------------------------------------------------------------------------


@main.command()
@click.argument("suite", required=False)
@click.option(
    "-s",
    "--strategy",
    "strategies",
    multiple=True,
    help="Strategy to run instead of the suite's; repeatable.",
)
@click.option(
    "--seeds", type=click.IntRange(1), help="Number of seeds (default: the suite's, or 3)."
)
@click.option("-d", "--dataset", help="Ad-hoc comparison: the dataset, instead of a suite.")
@click.option("-m", "--model", help="Ad-hoc comparison: the model.")
@click.option("--epochs", type=float, help="Ad-hoc comparison: the epochs.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Ad-hoc comparison: another key of the task, such as lr=0.05.",
)
@click.option("--name", help="Ad-hoc comparison: the name of its results folder.")
@click.option(
    "--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, mps, ..."
)
@click.option(
    "--fresh/--resume",
    default=False,
    help="Run finished cells again (default: skip them, go on with stopped ones).",
)
@click.option("--in-process", is_flag=True, help="Run cells in this process, for debugging.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=3600.0,
    show_default=True,
    help="Seconds without a finished epoch after which a cell is given up.",
)
@data_root_option
@results_option
@with_plugins
def run(
    suite,
    strategies,
    seeds,
    installed,
    plugin_dirs,
    results,
    data_root,
    device,
    fresh,
    in_process,
    timeout,
    **adhoc,
):
    """Run SUITE (a name or a .toml file), or an ad-hoc comparison, and print the leaderboard.

    \b
    dataeff run quickstart
    dataeff run --dataset digits --model resnet8 --epochs 10 -s baseline -s amp
    """
    from dataeff.bench import runner
    from dataeff.bench.progress import Watch
    from dataeff.bench.results import is_done

    chosen = _choose_suite(suite, list(strategies), seeds, installed, adhoc)
    settings = runner.Settings(results, device, data_root, plugin_dirs, in_process, timeout)
    cells = runner.suite_cells(chosen, settings, installed)
    if fresh or not all(is_done(cell.folder) for cell in cells):
        runner.check_tasks(chosen, settings, installed)
    runner.write_suite(chosen, settings, command=shlex.join(["dataeff", *sys.argv[1:]]))
    with Watch(console) as watch:
        runner.run_cells(cells, settings, watch, fresh=fresh)
    _show(results / chosen.name)
    failed = runner.failures(cells)
    for line in failed:
        click.echo(f"Failed: {line}", err=True)
    if failed:
        raise click.exceptions.Exit(1)


def _choose_suite(
    text: str | None,
    strategies: list[str],
    seeds: int | None,
    installed: Installed,
    adhoc: dict[str, Any],
) -> Any:
    from dataeff.bench.suite import load_suite, make_suite

    given = {key: value for key, value in adhoc.items() if value}
    if text and given:
        option = next(iter(given))
        raise DataeffError(
            f"--{option} is for ad-hoc comparisons; leave out the suite {text!r}, or the option."
        )
    if text:
        suite = load_suite(text, installed)
        content = suite.model_dump() | ({"seeds": seeds} if seeds else {})
        if strategies:
            # The reference comes along: without it there is nothing to compare with.
            content["strategies"] = list(dict.fromkeys([suite.reference, *strategies]))
        return make_suite(content, installed, where=text)
    missing = [f"--{key}" for key in ("dataset", "model", "epochs") if not given.get(key)]
    if missing:
        raise DataeffError(
            f"Name a suite (see: dataeff suites), or compare ad hoc: add {', '.join(missing)}."
        )
    if not strategies:
        raise DataeffError("Name what to compare: -s baseline -s 'random_backprop[keep=0.5]'.")
    task = {key: given[key] for key in ("dataset", "model", "epochs")} | _settings(
        given.get("settings", ())
    )
    name = given.get("name") or f"{given['dataset']}-{given['model']}-{given['epochs']:g}ep"
    content = {"name": _folder_name(name), "strategies": strategies, "seeds": seeds or 3}
    return make_suite(
        content | {"tasks": {_folder_name(given["dataset"]): task}}, installed, where="command line"
    )


def _settings(pairs: tuple[str, ...]) -> dict[str, Any]:
    values = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise DataeffError(f"--set takes key=value, such as lr=0.05, not {pair!r}.")
        values[key] = value.split(",") if key == "milestones" else value
    return values


def _folder_name(text: str) -> str:
    return "".join(c if c.isalnum() or c in "._-=" else "-" for c in text).strip("-")


# Reading ---------------------------------------------------------------------------------------


@main.command()
@click.argument("suite")
@click.option(
    "--csv", "csv_file", type=click.Path(path_type=Path), help="Also write the table here."
)
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown.")
@json_option
@results_option
def leaderboard(suite, csv_file, as_markdown, as_json, results):
    """Print the table of SUITE and write leaderboard.csv, runs.csv and report.html."""
    _show(results / Path(suite).stem, csv_file, as_markdown, as_json)


def _show(
    folder: Path, csv_file: Path | None = None, as_markdown: bool = False, as_json: bool = False
) -> None:
    from dataeff.report import leaderboard as board
    from dataeff.report import page, terminal

    table = board.write_tables(folder)
    page.write_report(folder, table)
    if csv_file:
        board.write_csv(csv_file, table)
    if as_json:
        click.echo(table.to_json(orient="records", indent=1))
    elif as_markdown:
        click.echo(terminal.markdown(table))
    elif console.is_terminal and console.width >= terminal.width(table):
        for part in terminal.rich_tables(table):
            console.print(part)
    else:
        click.echo(terminal.plain_text(table))
    if not (as_json or as_markdown):
        click.echo(f"\nWritten: {folder}/leaderboard.csv, runs.csv, report.html")


@main.command()
@click.argument("suite")
@click.option("--open", "open_it", is_flag=True, help="Open it in the browser.")
@results_option
def report(suite, open_it, results):
    """Write the page of SUITE: report.html, one file that works offline."""
    from dataeff.report import leaderboard as board
    from dataeff.report import page

    folder = results / Path(suite).stem
    path = page.write_report(folder, board.write_tables(folder))
    click.echo(f"Written: {path}")
    if open_it:
        webbrowser.open(path.resolve().as_uri())


# Listing ---------------------------------------------------------------------------------------


def _list(entries: list[Any], pattern: str, kind: str) -> None:
    if not entries:
        raise DataeffError(f"No {kind} matches {pattern!r}; a pattern such as '*random*' may help.")


@main.command()
@click.argument("pattern", default="*")
@json_option
@with_plugins
def strategies(pattern, as_json, installed, plugin_dirs):
    """List strategies, one line each, with their parameters and paper."""
    entries = installed.strategies.entries(pattern)
    _list(entries, pattern, "strategy")
    if as_json:
        lines = [
            {
                "name": entry.name,
                "summary": entry.summary,
                "parameters": [str(parameter) for parameter in entry.parameters.values()],
                "paper": entry.paper,
                "hooks": hooks_of(entry.factory),
                "reads_back": getattr(entry.factory, "reads_back", False),
            }
            for entry in entries
        ]
        click.echo(json.dumps(lines, indent=1))
        return
    for entry in entries:
        parameters = ", ".join(str(parameter) for parameter in entry.parameters.values())
        reads_back = (
            " Reads one number per batch back."
            if getattr(entry.factory, "reads_back", False)
            else ""
        )
        console.print(f"[bold]{entry.name}[/]  {entry.summary}{reads_back}", soft_wrap=True)
        for title, text in (("parameters", parameters), ("paper", entry.paper)):
            if text:
                console.print(f"    {title}: {text}", soft_wrap=True, markup=False)


@main.command()
@click.option("--download", metavar="NAME", help="Download this one into --data-root.")
@data_root_option
@with_plugins
def datasets(download, data_root, installed, plugin_dirs):
    """List datasets and their parameters, or download one."""
    if download:
        from dataeff.data.datasets import download as fetch

        if data_root is None:
            raise DataeffError("Say where to: --data-root FOLDER, or set DATAEFF_DATA.")
        fetch(download, data_root)
        click.echo(f"{download} is in {data_root}.")
        return
    for entry in installed.datasets.entries():
        parameters = ", ".join(str(parameter) for parameter in entry.parameters.values())
        console.print(f"[bold]{entry.name}[/]  {entry.summary}", soft_wrap=True)
        console.print(f"    parameters: {parameters}", soft_wrap=True, markup=False)


@main.command()
@click.argument("pattern", default="*")
@with_plugins
def models(pattern, installed, plugin_dirs):
    """List models: ours, torchvision:NAME, and every timm name."""
    from dataeff.models import model_names

    names = model_names(installed.models, pattern)
    _list(names, pattern, "model")
    click.echo("\n".join(names))


@main.command()
@with_plugins
def suites(installed, plugin_dirs):
    """List suites by name."""
    from dataeff.bench.suite import load_suite

    for entry in installed.suites.entries():
        suite = load_suite(entry.name, installed)
        size = (
            f"{len(suite.tasks)} tasks x {len(suite.strategies)} strategies x {suite.seeds} seeds"
        )
        console.print(f"[bold]{suite.name}[/]  {suite.title} ({size})", soft_wrap=True)


@main.command()
@click.argument("name", required=False)
@with_plugins
def hooks(name, installed, plugin_dirs):
    """Print the loop and its hooks, or one hook and the strategies that use it."""
    known = [hook for hook, spec in vars(hookspecs).items() if hasattr(spec, "dataeff_spec")]
    if name is None:
        click.echo(inspect.getdoc(hookspecs))
        click.echo("\nHooks:")
        for hook in known:
            click.echo(f"  {hook_kind(hook):8} {hook}{_arguments(hook)}")
        return
    if name not in known:
        raise DataeffError(
            f"There is no hook {name!r}.{did_you_mean(name, known)} See: dataeff hooks"
        )
    click.echo(f"{name}{_arguments(name)}\n\n{inspect.getdoc(getattr(hookspecs, name))}")
    users = [
        entry.name for entry in installed.strategies.entries() if name in hooks_of(entry.factory)
    ]
    click.echo(f"\nUsed by: {', '.join(users) or 'no installed strategy'}")


def _arguments(hook: str) -> str:
    return f"({', '.join(inspect.signature(getattr(hookspecs, hook)).parameters)})"


# Plugins ---------------------------------------------------------------------------------------


@main.group(cls=Commands)
def plugins() -> None:
    """List, install, write and check plugins."""


@plugins.command("list")
@json_option
@with_plugins
def plugins_list(as_json, installed, plugin_dirs):
    """List plugins: version, strategies, hooks, and why one did not load."""
    lines = plugin_tools.describe(installed)
    if as_json:
        click.echo(json.dumps(lines, indent=1))
        return
    for line in lines:
        console.print(
            f"[bold]{line['name']}[/] {line['version']} ({line['source']})", soft_wrap=True
        )
        for key in ("strategies", "hooks"):
            if line[key]:
                click.echo(f"    {key}: {', '.join(line[key])}")
        if line["error"]:
            console.print(
                "    did not load:", line["error"], style="red", soft_wrap=True, markup=False
            )


@plugins.command("new")
@click.argument("name")
@click.option("--into", type=click.Path(path_type=Path), default=Path(), help="Parent folder.")
def plugins_new(name, into):
    """Write a plugin package whose test passes at once."""
    folder = plugin_tools.new(name, into)
    click.echo(f"Written: {folder}/")
    for path in sorted(folder.iterdir()):
        click.echo(f"  {path.name}")
    click.echo(f"Next: dataeff plugins install -e {folder}")


@plugins.command("install")
@click.argument("packages", nargs=-1)
@click.option(
    "-e", "--editable", multiple=True, type=click.Path(), help="Install a folder in place."
)
@click.option("-U", "--upgrade", is_flag=True)
def plugins_install(packages, editable, upgrade):
    """Install plugins with the pip of this environment."""
    if not packages and not editable:
        raise DataeffError(
            "Name a package, or a folder with -e: dataeff plugins install -e dataeff-my-idea"
        )
    flags = ["--upgrade"] if upgrade else []
    plugin_tools.pip(
        "install",
        *flags,
        *packages,
        *[part for folder in editable for part in ("--editable", folder)],
    )


@plugins.command("uninstall")
@click.argument("packages", nargs=-1, required=True)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def plugins_uninstall(packages, yes):
    """Uninstall plugins with the pip of this environment."""
    plugin_tools.pip("uninstall", *(["--yes"] if yes else []), *packages)


@plugins.command("check")
@click.argument("name")
@with_plugins
def plugins_check(name, installed, plugin_dirs):
    """Run the conformance kit on the strategy NAME, or name[key=value]."""
    from dataeff import testing

    for line in testing.check_strategy(name, installed=installed):
        click.echo(f"ok  {line}")
    click.echo(f"{name} conforms.")
