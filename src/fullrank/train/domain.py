"""The domain of a model: its training molecules, and the similarity of others.

Predictions for molecules unlike the training molecules are unreliable. A model stores
the elements and sizes of its training molecules, and fingerprints of some of them.
"""

from functools import partial
from typing import cast

import numpy as np
import torch
from torch import Tensor

from fullrank.data import GraphDataset, MoleculeFeaturizer, PackedGraphs, QM9Featurizer
from fullrank.data.featurizers import (
    SmilesFeaturizer,
    fingerprints_of,
    need_chemistry,
)
from fullrank.data.workers import available_cpus, batched, map_blocks
from fullrank.train.model import Seen

#: Maximum number of fingerprints of training molecules stored with a model.
MOST_MOLECULES = 4096


def seen_in(dataset: GraphDataset, train: np.ndarray) -> Seen | None:
    """The elements and sizes of the training molecules; None for other graphs."""
    if not isinstance(dataset.featurizer, MoleculeFeaturizer | QM9Featurizer):
        return None
    graphs = dataset.graphs
    sizes = graphs.num_nodes[train]
    elements: tuple[int, ...] = ()
    if isinstance(dataset.featurizer, MoleculeFeaturizer):
        in_training = np.zeros(len(graphs), dtype=bool)
        in_training[train] = True
        of_atoms = np.repeat(in_training, graphs.num_nodes)
        elements = tuple(np.unique(_elements(graphs)[of_atoms]).tolist())
    low, usual_low, usual_high, high = np.quantile(
        sizes, [0, 0.005, 0.995, 1], method="inverted_cdf"
    ).tolist()
    return Seen(
        elements=elements, atoms=(low, high), usual_atoms=(usual_low, usual_high)
    )


def notes(seen: Seen, graphs: PackedGraphs) -> list[str | None]:
    """How each molecule differs from all or almost all training molecules, or None."""
    found: list[list[str]] = [[] for _ in range(len(graphs))]
    if seen.elements:
        elements = _elements(graphs)
        new = np.flatnonzero(~np.isin(elements, seen.elements))
        graph_of_atom = np.repeat(np.arange(len(graphs)), graphs.num_nodes)
        pairs = {(int(graph_of_atom[atom]), int(elements[atom])) for atom in new}
        for graph, element in sorted(pairs):
            found[graph].append(f"no training molecule has {_symbol(element)}")
    sizes = graphs.num_nodes
    smallest, largest = seen.usual_atoms or seen.atoms
    for graph in np.flatnonzero((sizes < smallest) | (sizes > largest)).tolist():
        low, high, share = smallest, largest, "99% of the "
        if not seen.atoms[0] <= sizes[graph] <= seen.atoms[1]:
            (low, high), share = seen.atoms, ""
        found[graph].append(
            f"{sizes[graph]} atoms; {share}training molecules have {low} to {high}"
        )
    return ["; ".join(said) or None for said in found]


def training_fingerprints(
    dataset: GraphDataset, train: np.ndarray, seed: int = 0
) -> Tensor:
    """Fingerprints of all training molecules, or of a random sample: ``[K, 128]``."""
    need_chemistry()
    order = np.random.default_rng(seed).permutation(train)[:MOST_MOLECULES]
    texts = dataset.texts("smiles")
    smiles = (texts[int(index)] for index in np.sort(order))
    blocks = batched(smiles, 512)
    read = partial(fingerprints_of, cast(SmilesFeaturizer, dataset.featurizer))
    made = map_blocks(read, blocks, available_cpus())
    return torch.from_numpy(np.concatenate(list(made)))


def _elements(graphs: PackedGraphs) -> np.ndarray:
    """The atomic numbers; OGB's first column counts from 0 for hydrogen."""
    return graphs.array("node.x")[:, 0].astype(np.int64) + 1


def _symbol(element: int) -> str:
    from rdkit import Chem

    known = element <= 118
    return Chem.GetPeriodicTable().GetElementSymbol(element) if known else "a dummy"
