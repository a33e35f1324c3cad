"""Each extra in an environment of its own runs a verb that needs it."""

import shutil
import socket

import pytest

from goldens.configs import write_graphs
from release.environments import ROOT, Fresh
from train.samples import write_molecules

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

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
SERVE = """
import json, subprocess, sys, urllib.request
command = [sys.executable, "-m", "fullrank", "serve", "--port", "0"]
server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
address = server.stdout.readline().strip()
print(urllib.request.urlopen(f"{address}/health").read())
question = {"points": [[0, 0], [1, 0], [0, 1]]}
kind = {"Content-Type": "application/json"}
body = json.dumps(question).encode()
asked = urllib.request.Request(f"{address}/lab", body, kind)
assert json.load(urllib.request.urlopen(asked))["found"]
server.terminate()
assert server.wait() == 0
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
UNTIL_IT_ANSWERS = """
import socket, time
for _ in range(120):
    try:
        socket.create_connection(("127.0.0.1", {port})).close()
        break
    except OSError:
        time.sleep(1)
"""
FOLD = "split: {kind: fair, fold: 0}\n"


def write_config(fresh, data, model="layers: 1, hidden: 4", more=""):
    (fresh.home / "c.yaml").write_text(
        f"data: {{{data}}}\nmodel: {{{model}}}\ntraining: {{epochs: 1}}\n{more}"
    )


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
    write_config(fresh, "name: GRAPHS", more=FOLD)
    assert "accuracy" in fresh.run("fullrank", "train", "c.yaml")
    said = fresh.run("fullrank", "data", "prepare", "qm9", status=2)
    assert "pip install 'fullrank[chem]'" in said


def test_chem_and_onnx(wheel, tmp_path):
    fresh = Fresh(tmp_path, wheel, "chem")
    write_molecules(fresh.home / "m.csv")
    write_config(fresh, "name: m.csv, targets: [logp]")
    assert "mae" in fresh.run("fullrank", "train", "c.yaml")
    model = next(fresh.home.glob("runs/*/model.safetensors"))
    said = fresh.run("fullrank", "export", model, "m.onnx", status=2)
    assert "pip install 'fullrank[onnx]'" in said
    fresh.install("onnx")
    fresh.run("fullrank", "export", model, "m.onnx")
    fresh.python("import onnx; onnx.checker.check_model('m.onnx', full_check=True)")


def test_ogb(wheel, tmp_path):
    fresh = Fresh(tmp_path, wheel, "ogb")
    assert "ogbg-molhiv" in fresh.run("fullrank", "data", "list")
    nowhere = ("--folder", "nowhere")
    said = fresh.run("fullrank", "data", "prepare", "ogbg-molhiv", *nowhere, status=2)
    assert "nowhere" in said


def test_baselines(wheel, tmp_path):
    fresh = Fresh(tmp_path, wheel, "baselines")
    write_graphs(fresh.home / "GRAPHS")
    for model in ("name: patchy-san, hidden: 4", "name: wegl, args: {trees: 5}"):
        write_config(fresh, "name: GRAPHS", model, FOLD)
        assert "accuracy" in fresh.run("fullrank", "train", "c.yaml")


def test_cluster(wheel, tmp_path):
    fresh = Fresh(tmp_path, wheel, "cluster")
    write_graphs(fresh.home / "REDDIT-BINARY")
    shutil.make_archive(
        str(fresh.home / "REDDIT-BINARY"), "zip", fresh.home, "REDDIT-BINARY"
    )
    fresh.variables["FULLRANK_MIRROR"] = str(fresh.home)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    which = ("--only", "REDDIT-BINARY", "--only", "CombC", "--only", "gin")
    table = ("reproduce", "networks-tu", *which, "--epochs", "1", "--ray")
    address = f"127.0.0.1:{port}"
    assert address in fresh.run("fullrank", *table, address, status=2)
    head = ("start", "--head", "--block", "--num-cpus", "1", "--port", str(port))
    # Ray's workers would get only what other programs leave over.
    light = (
        "--include-dashboard",
        "false",
        "--system-config",
        '{"worker_niceness": 0}',
    )
    with fresh.running("ray", *head, *light, "--disable-usage-stats"):
        fresh.python(UNTIL_IT_ANSWERS.format(port=port))
        assert "3/3 done" in fresh.run("fullrank", *table, address)


def test_docs(wheel, tmp_path):
    fresh = Fresh(tmp_path, wheel, "docs")
    assert "usage" in fresh.run("python", ROOT / "docs" / "lab" / "make.py", "--help")


def test_serve(wheel, tmp_path):
    fresh = Fresh(tmp_path, wheel, "serve")
    assert "ok" in fresh.python(SERVE)
