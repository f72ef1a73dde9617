"""The command that says what this machine is, and tests it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from dataeff.cli.echo import echo
from dataeff.cli.listed import print_json
from dataeff.cli.options import device_option, json_option, training_options


@click.command()
@click.option("--selftest", is_flag=True, help="Train on the device and measure it, 5 minutes.")
@json_option
@device_option
@training_options
def doctor(selftest, as_json, **asked):
    """Say what this machine has for runs, what is amiss, and what to type; or test it.

    Nothing is written. With --selftest the exit code is 1 where a check fails.
    """
    from dataeff.bench.checkup import Asked, facts

    if selftest:
        _test(asked["device"], as_json)
        return
    told = facts(Asked(**asked))
    if as_json:
        print_json(told)
        return
    lines = dict(_lines(told))
    width = max(map(len, lines))
    for title, text in lines.items():
        echo(f"{title:{width}}", bold=True, nl=False)
        echo(f"  {text}")
    echo()
    for sentence in told["amiss"] or ["Nothing is amiss."]:
        echo(sentence)


def _lines(told: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    precision, threads, data = told["precision"], told["threads"], told["data"]
    halves = ", ".join(f"{n} {_fast(precision[n])}" for n in ("bfloat16", "float16"))
    yield "device", told["device"]["line"]
    yield (
        "precision",
        f"float32 products {precision['matmul_precision']}, TF32 in convolutions "
        f"{_on(precision['cudnn_tf32'])}, cuDNN tries kernels {_on(precision['cudnn_benchmark'])}, "
        f"{halves}",
    )
    load = threads["load_average"]
    yield (
        "threads",
        f"{threads['torch']} of torch on {threads['cores']} cores, OMP_NUM_THREADS "
        f"{threads['OMP_NUM_THREADS'] or 'not set'}, load average "
        f"{'unknown' if load is None else format(load, '.1f')}",
    )
    yield "data", f"{data['root'] or 'no folder (--data-root or DATAEFF_DATA)'}: {_sets(data)}"
    broken = told["plugins"]["broken"]
    yield "plugins", f"{told['plugins']['count']}, {len(broken) or 'none'} of them broken"
    disk, state = told["disk"], told["state"]
    yield "results", f"{disk['folder']}, {disk['free_gib']} GiB free, {_may(disk)}"
    yield "seal key", f"{state['folder']}, {_may(state)}"


def _sets(data: Mapping[str, Any]) -> str:
    there = {name for name, is_there in data["found"].items() if is_there}
    parts = {"found": there, "not found": data["found"].keys() - there}
    return "; ".join(f"{word} {', '.join(sorted(sets))}" for word, sets in parts.items() if sets)


def _fast(accelerated: bool) -> str:
    return "accelerated" if accelerated else "emulated"


def _on(flag: bool) -> str:
    return "on" if flag else "off"


def _may(room: Mapping[str, Any]) -> str:
    return "may be written" if room["may_write"] else "cannot be written"


def _test(device: str, as_json: bool) -> None:
    from dataeff.selftest import selftest

    seen = []
    for outcome in selftest(device):
        seen.append(outcome)
        if not as_json:
            why = f": {outcome.why}" if outcome.why else ""
            echo(f"{outcome.check}  {outcome.word}{why}")
    if as_json:
        print_json([outcome._asdict() for outcome in seen])
    if any(outcome.word == "failed" for outcome in seen):
        raise click.exceptions.Exit(1)
