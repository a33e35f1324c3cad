"""Each extra in an environment of its own runs a verb that needs it."""

import pytest

from goldens.configs import write_graphs
from release.environments import ROOT, Fresh, built
from train.samples import write_molecules

pytestmark = pytest.mark.slow

COUNT = """
from importlib.metadata import distributions, requires
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

def of(name, found):
    if name not in found:
        found.add(name)
        for line in requires(name) or ():
            wanted = Requirement(line)
            if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
                of(canonicalize_name(wanted.name), found)
    return found

print(*sorted(of("fullrank", set()) - of("torch", set())))
"""
LAYERS = """
import torch
from torch_geometric.nn import GCNConv
from fullrank.lab import collide, compare, MEAN, SUM
from fullrank.nn import ExpandingConv
edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
assert ExpandingConv(8, 4)(torch.randn(3, 8), edges).shape == (3, 4)
print(compare(SUM, MEAN), collide(GCNConv(8, 4), torch.randn(4, 8)))
"""
TRAIN = (
    "data: {{name: {name}}}\nmodel: {{layers: 1, hidden: 4}}\ntraining: {{epochs: 1}}\n"
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return built(tmp_path_factory.mktemp("dist"))[0]


def test_the_core_is_light_and_has_the_layers_and_the_lab(wheel, tmp_path, capsys):
    fresh = Fresh(tmp_path, wheel)
    fresh.python(LAYERS)
    said = fresh.run("fullrank", "data", "list", status=2)
    assert "pip install 'fullrank[program]'" in said
    fresh.run("pip", "install", "--quiet", "packaging")
    brought = fresh.python(COUNT).split()
    with capsys.disabled():
        print(f"\n{len(brought)} distributions beside torch's own: {' '.join(brought)}")
    assert "fullrank" in brought
    assert len(brought) <= 25


def test_program(wheel, tmp_path):
    fresh = Fresh(tmp_path, wheel, "program")
    write_graphs(fresh.home / "GRAPHS")
    (fresh.home / "c.yaml").write_text(
        TRAIN.format(name="GRAPHS") + "split: {kind: fair, fold: 0}\n"
    )
    assert "accuracy" in fresh.run("fullrank", "train", "c.yaml")
    said = fresh.run("fullrank", "data", "prepare", "qm9", status=2)
    assert "pip install 'fullrank[chem]'" in said


def test_chem(wheel, tmp_path):
    fresh = Fresh(tmp_path, wheel, "chem")
    write_molecules(fresh.home / "m.csv")
    (fresh.home / "c.yaml").write_text(TRAIN.format(name="m.csv, targets: [logp]"))
    assert "mae" in fresh.run("fullrank", "train", "c.yaml")


def test_ogb(wheel, tmp_path):
    fresh = Fresh(tmp_path, wheel, "ogb")
    assert "ogbg-molhiv" in fresh.run("fullrank", "data", "list")
    nowhere = ("--folder", "nowhere")
    said = fresh.run("fullrank", "data", "prepare", "ogbg-molhiv", *nowhere, status=2)
    assert "nowhere" in said


def test_cluster(wheel, tmp_path):
    fresh = Fresh(tmp_path, wheel, "cluster")
    table = ("reproduce", "baselines-ogb-tu", "--only", "MUTAG", "--only", "CombC")
    said = fresh.run("fullrank", *table, "--ray", "127.0.0.1:9", status=2)
    assert "127.0.0.1:9" in said


def test_docs(wheel, tmp_path):
    fresh = Fresh(tmp_path, wheel, "docs")
    assert "usage" in fresh.run("python", ROOT / "docs" / "lab" / "make.py", "--help")
