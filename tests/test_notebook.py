"""The notebook of the documentation, run as it stands in a folder of its own."""

from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parent.parent / "docs" / "notebooks" / "own-data.ipynb"


@pytest.mark.long
def test_it_runs_and_ends_with_weights_that_are_as_good_as_the_table_says(tmp_path):
    client = pytest.importorskip("nbclient", reason="nbclient is not installed: '.[dev]'")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    runner = client.NotebookClient(
        notebook, timeout=600, resources={"metadata": {"path": tmp_path}}
    )
    # Asserts of its own compare the accuracy of the loaded weights.
    done = runner.execute()
    outputs = [one for cell in done.cells for one in cell.get("outputs", ())]
    shown = [one["data"] for one in outputs if "data" in one]
    assert any("<iframe" in data.get("text/html", "") for data in shown), "a result shows itself"
    text = "".join(one.get("text", "") for one in outputs if one["output_type"] == "stream")
    assert "% loaded" in text
    assert "Cells run in this process" not in text, "what a notebook defines travels"
    assert (tmp_path / "results" / "my-digits" / "report.html").exists()


def test_it_is_committed_without_what_it_printed():
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not [
        cell for cell in notebook.cells if cell.get("outputs") or cell.get("execution_count")
    ]
