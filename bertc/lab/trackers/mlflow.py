"""MLflow: a run of the server, database or folder that its own variables name."""

import os
import re

from mlflow import MlflowClient
from mlflow.entities import Metric, Param

from bertc.lab.results.figures import LineFigures
from bertc.lab.trackers.tracked import DEFAULT_PROJECT, TrackedRun

MOST_PARAMETERS = 100
"""Parameters that one request takes."""
LONGEST_VALUE = 500
"""Characters of a parameter that older versions of its database take."""
TAG = "bertc.id"


class MlflowSink:
    """A run of MLflow, identified by a tag with its id; MLflow's variables hold."""

    def __init__(self, run: TrackedRun) -> None:
        self._client = MlflowClient()
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", DEFAULT_PROJECT)
        experiment = self._client.get_experiment_by_name(name)
        number = experiment.experiment_id if experiment else self._client.create_experiment(name)
        known = self._client.search_runs([number], f"tags.`{TAG}` = '{run.id}'", max_results=1)
        self._id = known[0].info.run_id if known else self._create(number, run)

    def _create(self, experiment: str, run: TrackedRun) -> str:
        created = self._client.create_run(experiment, run_name=run.name, tags={TAG: run.id})
        number: str = created.info.run_id
        parameters = [Param(mlflow_name(n), t[:LONGEST_VALUE]) for n, t in run.settings.items()]
        for start in range(0, len(parameters), MOST_PARAMETERS):
            self._client.log_batch(number, params=parameters[start : start + MOST_PARAMETERS])
        return number

    def record(self, point: LineFigures, time: float) -> None:
        """Send the metrics of a point in one request."""
        metrics = [
            Metric(mlflow_name(name), value, round(time * 1000), point.step)
            for name, value in point.values.items()
        ]
        self._client.log_batch(self._id, metrics=metrics)

    def close(self) -> None:
        """Say that the run has ended, until it goes on."""
        self._client.set_terminated(self._id)


def mlflow_name(name: str) -> str:
    """The name with ``_`` for characters that MLflow refuses, such as brackets."""
    return re.sub(r"[^\w\-. :/]", "_", name, flags=re.ASCII)
