"""The domain of a model: its training molecules, and the similarity of others.

Predictions for molecules unlike the training molecules are unreliable. A model stores
the elements and sizes of its training molecules, and fingerprints of some of them.
"""

from collections.abc import Sequence
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

_ATOMS, _BONDS = "node.x", "edge.attr"
#: Maximum number of fingerprints of training molecules stored with a model.
MOST_MOLECULES = 4096


def seen_in(dataset: GraphDataset, train: np.ndarray) -> Seen | None:
    """A summary of the training molecules; None for other graphs."""
    if not isinstance(dataset.featurizer, MoleculeFeaturizer | QM9Featurizer):
        return None
    graphs = dataset.graphs
    low, usual_low, usual_high, high = np.quantile(
        graphs.num_nodes[train], [0, 0.005, 0.995, 1], method="inverted_cdf"
    ).tolist()
    nodes: tuple[tuple[int, ...], ...] = ()
    edges: tuple[tuple[int, ...], ...] = ()
    elements: tuple[int, ...] = ()
    if isinstance(dataset.featurizer, MoleculeFeaturizer):
        in_training = np.zeros(len(graphs), dtype=bool)
        in_training[train] = True
        nodes = _categories(graphs.array(_ATOMS), in_training, graphs.num_nodes)
        edges = _categories(graphs.array(_BONDS), in_training, graphs.num_edges)
        elements = tuple(category + 1 for category in nodes[0])
    return Seen(
        elements=elements,
        atoms=(low, high),
        usual_atoms=(usual_low, usual_high),
        node_categories=nodes,
        edge_categories=edges,
    )


def _categories(
    rows: np.ndarray, in_training: np.ndarray, sizes: np.ndarray
) -> tuple[tuple[int, ...], ...]:
    """The categories of each column in the training graphs."""
    found = rows[np.repeat(in_training, sizes)]
    return tuple(tuple(np.unique(column).tolist()) for column in found.T)


def notes(
    seen: Seen,
    graphs: PackedGraphs,
    node_names: Sequence[str],
    edge_names: Sequence[str],
) -> list[str | None]:
    """How each molecule differs from all or almost all training molecules, or None.

    Args:
        seen: A summary of the training molecules.
        graphs: The molecules.
        node_names, edge_names: The names of the columns of their features.
    """
    found: list[list[str]] = [[] for _ in range(len(graphs))]
    if seen.elements:
        elements = _elements(graphs)
        new = np.flatnonzero(~np.isin(elements, seen.elements))
        graph_of_atom = np.repeat(np.arange(len(graphs)), graphs.num_nodes)
        pairs = {(int(graph_of_atom[atom]), int(elements[atom])) for atom in new}
        for graph, element in sorted(pairs):
            found[graph].append(f"no training molecule has {_symbol(element)}")
    # Elements are the first column.
    columns = [
        ("atom", _ATOMS, graphs.num_nodes, seen.node_categories[1:], node_names[1:]),
        ("bond", _BONDS, graphs.num_edges, seen.edge_categories, edge_names),
    ]
    for what, array, sizes, categories, names in columns:
        if not categories:
            continue
        rows = graphs.array(array)[:, -len(categories) :]
        graph_of_row = np.repeat(np.arange(len(graphs)), sizes)
        for column, known, name in zip(rows.T, categories, names, strict=True):
            for graph in np.unique(graph_of_row[~np.isin(column, known)]).tolist():
                found[graph].append(
                    f"a value of {name!r} ({what}) that no training molecule has"
                )
    sizes = graphs.num_nodes
    smallest, largest = seen.usual_atoms or seen.atoms
    for graph in np.flatnonzero((sizes < smallest) | (sizes > largest)).tolist():
        low, high, share = smallest, largest, "99% of the "
        if not seen.atoms[0] <= sizes[graph] <= seen.atoms[1]:
            (low, high), share = seen.atoms, ""
        atoms = "1 atom" if sizes[graph] == 1 else f"{sizes[graph]} atoms"
        found[graph].append(f"{atoms}; {share}training molecules have {low} to {high}")
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
    return graphs.array(_ATOMS)[:, 0].astype(np.int64) + 1


def _symbol(element: int) -> str:
    from rdkit import Chem

    known = element <= 118
    return Chem.GetPeriodicTable().GetElementSymbol(element) if known else "a dummy"
