"""MLflow: a run for each cell, in an experiment of the suite's name.

dataeff run quickstart --log mlflow; mlflow ui --backend-store-uri results/quickstart/mlflow
"""

import os
import time

from dataeff_plugins._numbers import numbers

from dataeff import DataeffError, Observer, hookimpl


@hookimpl
def register_observers(register):
    register("mlflow", MLflow)


class MLflow(Observer):
    """Log epochs to the server `tracking`, an address.

    Without one it is that of MLFLOW_TRACKING_URI, or files in `mlflow` in the results of the suite.
    """

    def __init__(self, folder, *, tracking: str = ""):
        super().__init__(folder)
        here = (folder / "mlflow").absolute().as_uri()
        address = tracking or os.environ.get("MLFLOW_TRACKING_URI") or here
        # Nobody is to hear of a run who was not asked to; and files are what there is without a
        # server.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        try:
            from mlflow import entities
            from mlflow.tracking import MlflowClient
        except ImportError:
            raise DataeffError(
                "MLflow is not installed; type: pip install 'dataeff[mlflow]'"
            ) from None
        self._entities, self._client = entities, MlflowClient(tracking_uri=address)
        self._runs = {}

    def cell_started(self, cell):
        client = self._client
        known = client.get_experiment_by_name(cell["suite"])
        experiment = known.experiment_id if known else client.create_experiment(cell["suite"])
        # A cell that was stopped starts again: its epochs are told in one run.
        for run in client.search_runs([experiment], f"tags.`dataeff.cell` = '{cell['name']}'"):
            if run.info.status == "RUNNING":
                self._runs[cell["name"]] = run.info.run_id
                return
        tags = {f"dataeff.{name}": str(cell[name]) for name in ("version", "conditions_id")}
        tags |= {"dataeff.cell": cell["name"]}
        title = f"{cell['task_name']} {cell['strategy']} seed {cell['seed']}"
        run = client.create_run(experiment, run_name=title, tags=tags)
        self._runs[cell["name"]] = run.info.run_id
        said = {"strategy": cell["strategy"], "seed": cell["seed"]}
        said |= {f"task.{name}": value for name, value in cell["task"].items()}
        # Its parameters are short texts.
        params = [self._entities.Param(name, str(value)[:500]) for name, value in said.items()]
        client.log_batch(run.info.run_id, params=params)

    def epoch_ended(self, cell, line):
        self._log(cell, numbers(line), int(line["epoch"]) + 1)

    def cell_ended(self, cell, record):
        clocks = {f"{name}_seconds": value for name, value in record.get("clocks", {}).items()}
        whole = numbers({**record.get("metrics", {}), **clocks})
        final = {f"final_{name}": value for name, value in whole.items()}
        self._log(cell, final, int(record.get("epochs") or 0))
        ended = "FINISHED" if record["status"] == "finished" else "FAILED"
        self._client.set_tag(self._runs[cell["name"]], "dataeff.status", record["status"])
        self._client.set_terminated(self._runs.pop(cell["name"]), ended)

    def _log(self, cell, values, step):
        now = int(1000 * time.time())
        found = [self._entities.Metric(name, value, now, step) for name, value in values.items()]
        self._client.log_batch(self._runs[cell["name"]], metrics=found)
