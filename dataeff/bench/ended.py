"""What cells leave behind when they have ended: the runner alone writes it."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dataeff.bench.cells import Cell, write_record
from dataeff.bench.results import clear
from dataeff.checked import digest, write_checked
from dataeff.errors import one_line
from dataeff.files import read_bytes, write_bits, write_csv, write_text
from dataeff.forms import RECORD
from dataeff.seals import seal
from dataeff.training.weights import FILES, Form


def finish(
    cell: Cell, record: dict[str, Any], lines: list[dict[str, Any]], hits: list[bool]
) -> None:
    """Write what a cell leaves behind, the record last, and clear away what it went on from."""
    write_csv(cell.folder / "epochs.csv", pd.DataFrame(lines))
    if hits:
        write_bits(cell.folder / "hits.bin", np.array(hits, dtype=np.bool_))
    (cell.folder / "traceback.txt").unlink(missing_ok=True)
    if form := record.get("network_form"):
        record["weights"] = weights_of(cell.folder, form)
    _write_sealed(cell, record)
    clear(cell.folder)


def fail(cell: Cell, error: str, trace: str = "") -> None:
    """Record that a cell has failed, and why."""
    write_text(cell.folder / "traceback.txt", trace or error + "\n")
    _write_sealed(cell, {"status": "failed", "error": error})


def _write_sealed(cell: Cell, record: dict[str, Any]) -> None:
    seal(cell.folder, write_record(cell, record))


def amend(cell: Cell, record: dict[str, Any], **more: Any) -> None:
    """Enter more into the record of a cell that has ended, and seal it anew."""
    kept = {key: value for key, value in record.items() if key not in ("schema", "checksum")}
    seal(cell.folder, write_checked(cell.folder / "run.json", kept | more, RECORD))


def weights_of(folder: Path, form: Form) -> str:
    """Return a hash of the weights that a cell has left."""
    return digest(read_bytes(folder / FILES[form]))


def failures(cells: list[Cell]) -> list[str]:
    """Return one line per failed cell: which, why, and where its traceback is."""
    records = [(cell, cell.record()) for cell in cells]
    return [
        f"{cell.title}: {one_line(record['error'])} (see {cell.folder}/traceback.txt)"
        for cell, record in records
        if record and record["status"] == "failed"
    ]
