import json

import numpy as np
import pytest

from fullrank.data import (
    DataError,
    Features,
    Graph,
    GraphDataset,
    GraphFeaturizer,
    MoleculeFeaturizer,
    PackedGraphs,
    QM9Featurizer,
    Target,
)
from fullrank.data.dataset import Description


def make(task="regression", y=((1.0, 2.0),) * 12, **changes) -> GraphDataset:
    graphs = [Graph(1, np.zeros((2, 0), int), {"graph.y": np.array(v)}) for v in y]
    about = {
        "name": "small",
        "task": task,
        "targets": (Target("a", "eV"), Target("b")),
        "node_features": Features("categorical", ("kind",), (7,)),
        "edge_features": Features(),
        "metric": "mae",
    }
    return GraphDataset(graphs=PackedGraphs.from_graphs(graphs), **(about | changes))


@pytest.mark.parametrize(
    "featurizer",
    [
        None,
        MoleculeFeaturizer(fragments="largest"),
        QM9Featurizer(edges="complete", distance=False),
        GraphFeaturizer(
            node_features=Features("float", ("normalised degree",)),
            edge_features=Features(),
            degree_moments=(1 / 3, 2 / 7),
        ),
    ],
)
def test_description_survives_json(featurizer):
    dataset = make(
        vocabulary=("get", "set"), notes={"left out": [3]}, featurizer=featurizer
    )
    again = Description.from_json(json.loads(json.dumps(dataset.to_json())))
    for name in Description.__dataclass_fields__:
        assert getattr(again, name) == getattr(dataset, name)


def test_an_incomplete_description_is_refused():
    with pytest.raises(DataError, match="'name'"):
        GraphDataset.described(PackedGraphs.pack(np.array([1]), np.zeros((2, 0), int)))


def test_selected_targets_reach_batches_labels_and_names():
    chosen = make().select_targets(["b"])
    assert chosen.targets == (Target("b"),)
    assert chosen.labels.tolist() == [[2]] * 12
    assert chosen.graphs.batch([0, 1]).y.tolist() == [[2], [2]]


def test_splits():
    dataset = make()
    assert len(dataset.split(seed=3).train) == 9
    with pytest.raises(DataError, match="small.*'given'"):
        dataset.split("given")
    with pytest.raises(DataError, match="'smiles'"):
        dataset.split("scaffold")
    with pytest.raises(DataError, match="small"):
        dataset.folds()
    classes = make("multiclass", y=[0, 1] * 10, targets=(Target("class"),))
    assert [len(fold.test) for fold in classes.folds(5)] == [4] * 5
