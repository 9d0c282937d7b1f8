"""A run as a model of mteb, by the class of the page on search; skipped where mteb is not there."""

import re
from pathlib import Path

import pytest

from bertc.run.models.runs import import_run
from tests.hub.test_sentences import FOLDERS, folder_of

mteb = pytest.importorskip("mteb")
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "documents.md"


def test_a_run_is_scored_by_clusters_of_a_local_task(tmp_path):
    from datasets import Dataset, DatasetDict
    from mteb.abstasks import AbsTaskClustering
    from mteb.mocks.mock_tasks.clustering import MockClusteringTask

    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, type] = {}
    exec(block, names)  # as a reader would

    class Texts(AbsTaskClustering):
        metadata = MockClusteringTask.metadata
        max_fraction_of_documents_to_embed = None

        def load_data(self, **_):
            texts, labels = ["a b", "h g"] * 8, [0, 1] * 8
            of_split = Dataset.from_dict({"sentences": texts, "labels": labels})
            self.dataset, self.data_loaded = DatasetDict({"test": of_split}), True

    import_run(folder_of(tmp_path / "came", FOLDERS["mean, normalised"]), tmp_path / "run")
    result = mteb.evaluate(names["Encoder"](tmp_path / "run"), Texts(), cache=None)
    (scores,) = result.task_results[0].scores["test"]
    assert scores["v_measure"] == pytest.approx(1.0), "two texts are two clusters"
