"""Real molecules with computed properties, and small configurations for them."""

import csv
import os
import subprocess
import sys

import torch

from fullrank.train import Model, parse
from fullrank.train.model import design_model
from fullrank.train.run import run_folder
from fullrank.train.splitting import make_split

_TEXT = (
    "C CC CCC CCCC CCCCC CCCCCC C=C C=CC C#C C#CC CO CCO CCCO CC(C)O OCCO C=O CC=O "
    "CCC=O CC(C)=O CC(=O)O CCC(=O)O CN CCN CNC CN(C)C NCCN C#N CC#N CF FCF FC(F)F CCl "
    "ClCCl CBr c1ccccc1 Cc1ccccc1 Oc1ccccc1 Nc1ccccc1 Fc1ccccc1 Clc1ccccc1 "
    "O=Cc1ccccc1 N#Cc1ccccc1 c1ccncc1 c1ccoc1 c1ccsc1 c1cc[nH]c1 c1cnc[nH]1 C1CC1 "
    "C1CCC1 C1CCCC1 C1CCCCC1 C1CCOC1 C1CCNC1 C1COCCO1 CC(N)=O CC(N)C(=O)O NCC(=O)O "
    "O=C(O)C(=O)O CSC CS CSSC CS(C)=O COC CCOCC COC(C)=O CC(=O)OC(C)=O O=C1CCCC1 "
    "O=C1CCCCC1 CC1CCCCC1 c1ccc2ccccc2c1 c1ccc2[nH]ccc2c1"
)
SMILES = _TEXT.split(" ")


def write_molecules(file, repeat=1):
    """A CSV file: weight and logp (regression), ring and hetero (binary, some labels
    missing), kind (three classes)."""
    from rdkit import Chem
    from rdkit.Chem import Crippen, Descriptors

    with open(file, "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["smiles", "weight", "logp", "ring", "hetero", "kind"])
        for index, smiles in enumerate(SMILES * repeat):
            mol = Chem.MolFromSmiles(smiles)
            ring = int(mol.GetRingInfo().NumRings() > 0)
            hetero = int(any(atom.GetAtomicNum() != 6 for atom in mol.GetAtoms()))
            aromatic = any(atom.GetIsAromatic() for atom in mol.GetAtoms())
            kind = "aromatic" if aromatic else "ring" if ring else "chain"
            values = [Descriptors.MolWt(mol), Crippen.MolLogP(mol)]
            missing = index % 3 == 0
            writer.writerow([smiles, *values, ring, "" if missing else hetero, kind])
    return file


def small_config(tmp_path, targets=("logp",), task="regression", **sections):
    """A run on the molecules that takes a second."""
    file = tmp_path / "molecules.csv"
    if not file.exists():
        write_molecules(file)
    values = {
        "data": {
            "name": str(file),
            "targets": list(targets),
            "task": task,
            "root": str(tmp_path / "root"),
        },
        "model": {"layers": 2, "hidden": 8},
        "training": {"epochs": 3, "batch_size": 16},
        "runs": str(tmp_path / "runs"),
    }
    for name, section in sections.items():
        added = isinstance(section, dict) and "name" not in section
        values[name] = values.get(name, {}) | section if added else section
    return parse(values)


def folder_of(config):
    """The folder of a single run."""
    return run_folder(config, config.data.load())


def untrained(config, file, seed=0):
    """The file of a model with fresh weights, which is made in no time."""
    dataset = config.load_data()
    torch.manual_seed(seed)
    model = Model(design_model(config, dataset, make_split(config, dataset)))
    model.fit_descriptors(dataset, make_split(config, dataset).train)
    model.save(file)
    return file


def environment(**more):
    """That of a program which finds this package and leaves the other cores alone."""
    path = os.pathsep.join(sys.path)
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **more}


def start(*arguments, cwd=None, **options):
    """Start the program in a process of its own."""
    command = [sys.executable, "-m", "fullrank", *map(str, arguments)]
    return subprocess.Popen(
        command,
        cwd=cwd,
        env=environment(COLUMNS="200"),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )
