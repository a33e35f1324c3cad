"""Jobs that are slow or may crash: drawings, explanations, lab experiments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from fullrank.data.molecules import molecule, rdkit_failures
from fullrank.data.workers import for_each
from fullrank.errors import ConfigError, DataError
from fullrank.serve.lab import LabAnswer, LabQuestion, experiment
from fullrank.train.predict import Predictor

WIDTH, HEIGHT = 300, 220
#: Drawings of larger molecules take seconds and are illegible.
MOST_ATOMS = 300


@dataclass(frozen=True)
class Question:
    """A molecule to draw.

    Attributes:
        smiles: The molecule.
        model: The model whose prediction is explained; None for a drawing only.
        target: The target or class to explain; see `Predictor.explain`.
    """

    smiles: str
    model: str | None = None
    target: str | None = None


class Part(BaseModel):
    """A named part of a molecule and its contribution."""

    name: str
    contribution: float


class Explained(BaseModel):
    """The contributions of the parts of a molecule to a prediction.

    Attributes:
        target: The explained target or class.
        scale: The unit of the contributions, or ``logit``.
        base: The prediction for the same graph without features.
        value: The prediction, which is the sum of the base and all contributions.
        atoms: Contributions of the atoms, in the order of the SMILES.
        bonds: Contributions of the bonds, in RDKit's order.
        descriptors: Contributions of the descriptors, if the model uses any.
        unexplained: Error of the sum, due to numerical integration.
        svg: Drawing of the molecule, orange where it raises the prediction, blue where
            it lowers it.
    """

    target: str
    scale: str
    base: float
    value: float
    atoms: list[Part]
    bonds: list[Part]
    descriptors: list[Part]
    unexplained: float
    svg: str


@dataclass(frozen=True)
class Studio:
    """Answers questions in a separate process.

    Attributes:
        predictors: The models, by name.
    """

    predictors: Mapping[str, Predictor]

    def __call__(
        self, questions: Sequence[Any]
    ) -> list[str | Explained | LabAnswer | DataError]:
        return for_each(self._answer, questions)

    def _answer(self, question: Question | LabQuestion) -> str | Explained | LabAnswer:
        if isinstance(question, LabQuestion):
            return experiment(question)
        mol = molecule(question.smiles)
        if mol.GetNumAtoms() > MOST_ATOMS:
            raise DataError(
                f"a molecule of {mol.GetNumAtoms()} atoms is too large to draw"
            )
        with rdkit_failures(question.smiles):
            if question.model is None:
                return _plain(mol)
            return _explained(self.predictors[question.model], question)


def _plain(mol) -> str:
    from rdkit.Chem.Draw import rdMolDraw2D

    drawer = rdMolDraw2D.MolDraw2DSVG(WIDTH, HEIGHT)
    rdMolDraw2D.PrepareAndDrawMolecule(drawer, mol)
    drawer.FinishDrawing()
    text = drawer.GetDrawingText()
    return text[text.index("<svg") :]


def _explained(predictor: Predictor, question: Question) -> Explained:
    try:
        found = predictor.explain(question.smiles, question.target)
    except ConfigError as error:
        raise DataError(str(error)) from None
    atoms, bonds = found.mol.GetAtoms(), found.mol.GetBonds()
    ends = [(b.GetBeginAtomIdx() + 1, b.GetEndAtomIdx() + 1) for b in bonds]
    return Explained(
        target=found.target,
        scale=found.scale,
        base=found.base,
        value=found.value,
        atoms=_parts([f"{a.GetSymbol()} {a.GetIdx() + 1}" for a in atoms], found.atoms),
        bonds=_parts([f"bond {i}–{j}" for i, j in ends], found.bonds),
        descriptors=_parts(list(found.descriptors), found.descriptors.values()),
        unexplained=found.unexplained,
        svg=found.svg(WIDTH, HEIGHT),
    )


def _parts(names: Sequence[str], values) -> list[Part]:
    both = zip(names, values, strict=True)
    return [Part(name=name, contribution=float(value)) for name, value in both]
