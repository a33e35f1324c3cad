import ast
import os
import shutil
import textwrap

import numpy as np
import pytest
import torch

from fullrank.data import DataError, load_dataset, python_code, source
from fullrank.data.sources.python_code import MASK, NODE_TYPES, function_tree, words_of


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("get_HTTPCode2", ["get", "http", "code", "2"]),
        ("_private", ["private"]),
        ("toJSON", ["to", "json"]),
        ("__", []),
    ],
)
def test_words(name, words):
    assert words_of(name) == words


def tree_of(source: str):
    return function_tree(ast.parse(textwrap.dedent(source)).body[0])


def test_the_own_name_is_masked_everywhere():
    tree = tree_of(
        '''
        def walk(node, walk_all):
            """walk over all; do not rewalk."""
            from here import walk
            self.walk = lambda walk=1: walk(node)
            return walk(walk_all)
        '''
    )
    texts = [text for text in tree.attributes if text is not None]
    assert MASK in texts
    assert "walk" not in texts
    assert f"'{MASK} over all; do not rewalk.'" in texts
    assert "walk_all" in texts


def test_tree_is_pythons_depth_first():
    tree = tree_of("def f(a):\n    return a + 1\n")
    names = [NODE_TYPES[kind] for kind in tree.types]
    assert names == [
        "FunctionDef",
        "arguments",
        "arg",
        "Return",
        "BinOp",
        "Name",
        "Add",
        "Constant",
    ]
    assert tree.parents == [-1, 0, 1, 0, 3, 4, 4, 4]
    assert tree.depths == [0, 1, 2, 1, 2, 3, 3, 3]
    assert tree.attributes == [MASK, None, "a", None, None, "a", None, "1"]


@pytest.fixture
def sources(tmp_path):
    folder = tmp_path / "sources"
    for project in range(10):
        package = folder / f"project{project}"
        package.mkdir(parents=True)
        (package / "module.py").write_text(
            f"class A:\n    def get_value{project}(self, x): return self.x\n"
            "    def __init__(self): pass\n"
            "async def set_value(x):\n    def inner_one(y): return y\n    return x\n"
        )
    (folder / "broken.py").write_text("def f(:\n")
    return folder


def test_a_folder_of_sources(sources, tmp_path):
    dataset = python_code(sources, root=tmp_path)
    names = list(dataset.texts("name"))
    assert len(dataset) == 30
    assert names.count("set value") == names.count("inner one") == 10
    assert not any("init" in name for name in names)
    assert dataset.task == "tokens"
    assert [file for file, _ in dataset.notes["skipped"]] == ["broken.py"]
    data = dataset[0]
    sizes = dataset.node_features.cardinalities
    assert bool((data.x.max(dim=0).values < torch.tensor(sizes)).all())
    assert dataset.labels.max() < dataset.num_classes


def test_an_edited_file_is_read_again(sources, tmp_path):
    """Also if it has the size and the time of before."""
    file = sources / "project0" / "module.py"
    times = (file.stat().st_atime_ns, file.stat().st_mtime_ns)
    first = python_code(sources, root=tmp_path)
    file.write_text(file.read_text().replace("set_value", "put_value"))
    os.utime(file, ns=times)
    again = python_code(sources, root=tmp_path)
    assert list(again.texts("name")).count("put value") == 1
    assert again.fingerprint != first.fingerprint


def test_the_place_of_the_sources_does_not_matter(sources, tmp_path):
    copy = tmp_path / "elsewhere" / "copy"
    shutil.copytree(sources, copy)
    first, second = (load_dataset(folder, root=tmp_path) for folder in (sources, copy))
    assert first.fingerprint == second.fingerprint
    assert (first.name, second.name) == ("sources", "copy")
    assert source(sources).determining() == source(copy).determining()


def test_projects_are_not_split(sources, tmp_path):
    dataset = python_code(sources, root=tmp_path)
    split, project = dataset.split(), np.array(dataset.texts("project"))
    parts = [set(project[part]) for part in (split.train, split.valid, split.test)]
    assert [len(part) for part in parts] == [8, 1, 1]
    assert not parts[0] & parts[2]
    assert not parts[0] & parts[1]


def test_an_installed_package_by_name(tmp_path):
    dataset = python_code("json", root=tmp_path)
    assert "raw decode" in list(dataset.texts("name"))
    attributed = dataset.graphs.array("node.x")[:, 1]
    assert attributed.max() == dataset.node_features.cardinalities[1] - 1


def test_nothing_to_read(tmp_path):
    with pytest.raises(DataError):
        python_code("no_such_package_at_all", root=tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError):
        python_code(tmp_path / "empty", root=tmp_path)


@pytest.mark.slow
def test_the_standard_library(tmp_path):
    dataset = load_dataset("python-stdlib", root=tmp_path)
    assert len(dataset) > 10_000
    split = dataset.split()
    assert min(len(split.train), len(split.valid), len(split.test)) > 500


def test_files_that_cannot_be_read_are_left_out(sources, tmp_path):
    expected = len(python_code(sources, tmp_path / "root", progress=False))
    (sources / ".#module.py").symlink_to("nowhere")  # as an editor locks a file
    (sources / "folder.py").mkdir()
    assert len(python_code(sources, tmp_path / "root", progress=False)) == expected


def test_an_integer_that_python_does_not_write_out():
    tree = tree_of(f"def large(): return 0x{'f' * 9000}")
    assert tree.attributes[-1].startswith("0xfff")


def test_what_is_not_installed_is_refused():
    for name in ("__main__", "surely_not_installed"):
        with pytest.raises(DataError, match=name):
            source(name, kind="python_code").load()
