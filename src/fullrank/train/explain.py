r"""Explanations of predictions: contributions of atoms, bonds and descriptors.

Integrated gradients (Sundararajan et al., 2017) along the straight line from a baseline
to the molecule. The baseline is the same graph without features: encoded atoms, columns
of bond features and standardised descriptors :math:`\mathbf{z}` are all zero.

.. math::
    c_i = z_i \int_0^1 \frac{\partial f}{\partial z_i}(\alpha \mathbf{z}) \, d\alpha,
    \qquad \sum_i c_i = f(\mathbf{z}) - f(\mathbf{0})

The integral is approximated by a sum over points, whose number is increased until this
equation holds.
"""

import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch

from fullrank.data import MoleculeFeaturizer, PackedGraphs
from fullrank.data.descriptors import descriptor_names
from fullrank.data.molecules import molecule
from fullrank.errors import ConfigError, nearest
from fullrank.nn import GraphNet
from fullrank.nn.conv.base import num_columns
from fullrank.nn.neighborhoods import edge_columns
from fullrank.train.model import Model

if TYPE_CHECKING:
    from rdkit import Chem

    from fullrank.train.predict import Predictor

_FIRST_POINTS, _MOST_POINTS, _POINTS_AT_ONCE = 32, 2048, 64
#: Tolerance of the equation, as a fraction of the sum of absolute contributions.
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Explanation:
    """The contributions of the parts of a molecule to a prediction.

    Attributes:
        smiles: The molecule.
        target: The explained target or class.
        scale: The scale of the contributions: the target's unit, or ``logit``.
        base: The prediction for the baseline.
        value: The prediction.
        atoms: A contribution for each heavy atom, in the order of the SMILES: ``[N]``.
        bonds: A contribution for each bond, in RDKit's order: ``[B]``.
        descriptors: A contribution for each descriptor, by name.
        unexplained: ``value - base`` minus all contributions: the error of the sum over
            points.
        mol: RDKit's molecule.
    """

    smiles: str
    target: str
    scale: str
    base: float
    value: float
    atoms: np.ndarray
    bonds: np.ndarray
    descriptors: dict[str, float]
    unexplained: float
    mol: "Chem.Mol" = field(repr=False)

    @property
    def total(self) -> float:
        """The sum of all contributions."""
        return float(
            self.atoms.sum() + self.bonds.sum() + sum(self.descriptors.values())
        )

    def svg(self, width: int = 360, height: int = 280) -> str:
        """The molecule, orange where it raises the prediction, blue where it lowers
        it."""
        return _draw(self, width, height)

    def _repr_svg_(self) -> str:
        return self.svg()


def explain(
    predictor: "Predictor", smiles: str, target: str | None = None
) -> Explanation:
    """Explain a prediction for one molecule.

    Args:
        predictor: The model or ensemble, whose contributions are averaged.
        smiles: The molecule.
        target: The target or class to explain; by default the first target, or the
            predicted class.
    """
    featurizer = predictor.molecules
    if not isinstance(featurizer, MoleculeFeaturizer):
        raise ConfigError(
            f"a model of {predictor.spec.dataset} cannot be explained, because it "
            f"reads the distances of a geometry, which belong to no atom or bond"
        )
    mol = featurizer.chosen_fragments(molecule(smiles))
    graphs = PackedGraphs.from_graphs(
        [featurizer.from_molecule(mol)], fields=featurizer.fields
    )
    if predictor.spec.structure is not None:
        graphs = predictor.spec.structure.add_to(graphs)
    batch = graphs.batch([0])
    column, name = _column(predictor, batch, target)
    each = [_Path(model, batch, column).contributions() for model in predictor.models]
    mean = [np.mean([getattr(part, f) for part in each], 0) for f in _Parts._fields]
    parts = _Parts(*mean)
    regression = predictor.spec.task == "regression"
    units = {t.name: t.unit for t in predictor.spec.targets}
    described = descriptor_names(featurizer.descriptors)
    return Explanation(
        smiles=smiles,
        target=name,
        scale=units.get(name, "") if regression else "logit",
        base=float(parts.base),
        value=float(parts.value),
        atoms=parts.atoms,
        bonds=_of_bonds(mol, batch.edge_index.numpy(), parts.edges),
        descriptors=dict(zip(described, parts.descriptors.tolist(), strict=True)),
        unexplained=float(parts.value - parts.base - parts.total),
        mol=mol,
    )


class _Parts(NamedTuple):
    """The contributions to one network's prediction."""

    base: Any
    value: Any
    atoms: np.ndarray
    edges: np.ndarray
    descriptors: np.ndarray

    @property
    def total(self) -> float:
        return float(self.atoms.sum() + self.edges.sum() + self.descriptors.sum())

    @property
    def size(self) -> float:
        """The sum of the absolute contributions."""
        parts = (self.atoms, self.edges, self.descriptors)
        return float(sum(np.abs(part).sum() for part in parts))


class _Path:
    """The line from the baseline to a molecule, for one network."""

    def __init__(self, model: Model, batch: Batch, column: int) -> None:
        self.model, self.column = model, column
        batch = model.ready(batch.clone())
        network = model.graph_net
        with torch.no_grad():
            atoms = network.encoder(batch.x)  # [N, d]
            edges = atoms.new_zeros(batch.num_edges, 0)
            if network.edge_dim is not None:
                edges = edge_columns(batch.edge_attr, network.edge_dim).to(atoms.dtype)
            read = atoms.new_zeros(1, 0)
            if network.standardize is not None:
                read = network.standardize(batch.descriptors.to(atoms.dtype))
            # Their sum is linear, so each atom contributes its own.
            self.references = model.node_references(batch.x)[:, column].cpu().numpy()
        self.ends = [atoms, edges, read]
        self.batch = batch

    @cached_property
    def network(self) -> GraphNet:
        """The network applied to encoded features."""
        network = copy.deepcopy(self.model.graph_net)
        network.encoder = torch.nn.Identity()
        if network.edge_dim is not None:
            network.edge_dim = num_columns(network.edge_dim)
        if network.standardize is not None:
            network.standardize = cast(Any, torch.nn.Identity())
        return network

    def contributions(self) -> _Parts:
        with torch.no_grad():
            base, value = self.values(torch.tensor([0.0, 1.0]))[0].tolist()
        points = _FIRST_POINTS
        while True:
            parts = _Parts(base, value, *self._integral(points))
            missing = abs(value - base - parts.total)
            enough = missing <= TOLERANCE * parts.size
            if enough or points >= _MOST_POINTS:
                return parts._replace(
                    value=value + self.references.sum(),
                    atoms=parts.atoms + self.references,
                )
            points *= 4

    def _integral(self, points: int) -> list[np.ndarray]:
        """The contribution of each part, by the midpoint rule."""
        totals = [torch.zeros_like(end) for end in self.ends]
        middles = (torch.arange(points) + 0.5) / points
        for alphas in middles.split(_POINTS_AT_ONCE):
            values, inputs = self.values(alphas)
            used = [leaf for leaf in inputs if leaf.numel()]
            found = iter(torch.autograd.grad(values.sum(), used, allow_unused=True))
            for total, leaf in zip(totals, inputs, strict=True):
                gradient = next(found) if leaf.numel() else None
                if gradient is not None:
                    total += gradient.view(len(alphas), *total.shape).sum(0)
        products = [t * end / points for t, end in zip(totals, self.ends, strict=True)]
        atoms, edges, read = (p.double().cpu() for p in products)
        return [atoms.sum(1).numpy(), edges.sum(1).numpy(), read[0].numpy()]

    def values(self, alphas: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The predictions at points of the line, and their inputs."""
        k, batch = len(alphas), self.batch
        num_nodes = batch.num_nodes
        inputs = [
            torch.cat([alpha * end for alpha in alphas.to(end)]).requires_grad_()
            for end in self.ends
        ]
        first = torch.arange(k, device=inputs[0].device) * num_nodes
        edge_index = (batch.edge_index[:, None] + first[:, None]).flatten(1)
        colors = {
            name: batch[name].repeat(k)
            for name in ("edge_color", "node_color")
            if name in batch
        }
        output = self.network(
            inputs[0],
            edge_index,
            inputs[1] if self.network.edge_dim is not None else None,
            torch.arange(k, device=edge_index.device).repeat_interleave(num_nodes),
            k,
            descriptors=inputs[2],
            **colors,
        )
        if self.model.spec.task == "regression":
            output = self.model.predictions(output)
        return output[:, self.column], inputs


def _column(
    predictor: "Predictor", batch: Batch, target: str | None
) -> tuple[int, str]:
    """The index of the explained output, and its name."""
    spec = predictor.spec
    if spec.task == "multiclass":
        names = list(spec.classes) or list(map(str, range(spec.num_classes or 0)))
    else:
        names = [t.name for t in spec.targets]
    if target is None:
        if spec.task != "multiclass":
            return 0, names[0]
        with torch.no_grad():
            outputs = [
                m.predictions(m(m.ready(batch.clone()))) for m in predictor.models
            ]
        chosen = int(torch.stack(outputs).mean(0)[0].argmax())
        return chosen, names[chosen]
    if target not in names:
        raise ConfigError(
            f"the model does not predict {target!r}{nearest(target, names)}; it "
            f"predicts {', '.join(names)}"
        )
    return names.index(target), target


def _of_bonds(mol: "Chem.Mol", edge_index: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Sum the two directions of each bond."""
    found = np.zeros(mol.GetNumBonds())
    for (first, second), value in zip(edge_index.T.tolist(), edges, strict=True):
        found[mol.GetBondBetweenAtoms(first, second).GetIdx()] += value
    return found


def _draw(explanation: Explanation, width: int, height: int) -> str:
    from rdkit.Chem.Draw import rdMolDraw2D

    mol = explanation.mol
    together = np.concatenate([explanation.atoms, explanation.bonds])
    largest = max(float(np.abs(together).max()), 1e-12)
    atoms = dict(enumerate(_color(c / largest) for c in explanation.atoms.tolist()))
    bonds = dict(enumerate(_color(c / largest) for c in explanation.bonds.tolist()))
    drawer = rdMolDraw2D.MolDraw2DSVG(width, height)
    drawer.drawOptions().useBWAtomPalette()
    rdMolDraw2D.PrepareAndDrawMolecule(
        drawer,
        mol,
        highlightAtoms=list(atoms),
        highlightBonds=list(bonds),
        highlightAtomColors=atoms,
        highlightBondColors=bonds,
    )
    drawer.FinishDrawing()
    text = drawer.GetDrawingText()
    return text[text.index("<svg") :]


def _color(share: float) -> tuple[float, float, float]:
    """White for 0, orange for 1, blue for -1."""
    red, green, blue = (0.84, 0.37, 0.0) if share > 0 else (0.0, 0.45, 0.70)
    s = abs(share)
    return 1 - s * (1 - red), 1 - s * (1 - green), 1 - s * (1 - blue)
