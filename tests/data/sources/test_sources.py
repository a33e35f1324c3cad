"""The sources together: found by name, checked, stored."""

import json
from pathlib import Path

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from data.tu_samples import small
from fullrank.data import (
    AnySource,
    CsvSource,
    DataError,
    OGBSource,
    PythonCodeSource,
    QM9Source,
    TUFolderSource,
    TUSource,
    known_names,
    load_dataset,
    source,
)
from fullrank.data.sources import SOURCES

ADAPTER = TypeAdapter(AnySource)


def test_names_are_known():
    wanted = """qm9 COLLAB REDDIT-BINARY REDDIT-MULTI-12K IMDB-BINARY IMDB-MULTI MUTAG
        PROTEINS ENZYMES NCI1 ogbg-molhiv ogbg-molpcba ogbg-ppa ogbg-code2
        python-stdlib"""
    assert set(wanted.split()) <= set(known_names())


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("mutag", "MUTAG"), ("ogbg-molhvi", "ogbg-molhiv"), ("QM9", "qm9")],
)
def test_the_nearest_name_is_suggested(wrong, right):
    with pytest.raises(DataError, match=f"'{wrong}'.*'{right}'"):
        load_dataset(wrong)


@pytest.fixture
def places(tmp_path):
    (tmp_path / "upper.CSV").write_text("smiles,y\nC,1\n")
    small(tmp_path / "graphs")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_text("def get_it(x): return x\n")
    return tmp_path


def test_the_kind_is_found_from_the_name(places):
    for name, kind in (
        ("qm9", QM9Source),
        ("MUTAG", TUSource),
        ("ogbg-molhiv", OGBSource),
        ("python-stdlib", PythonCodeSource),
        (places / "upper.CSV", CsvSource),
        (places / "absent.tsv", CsvSource),
        (places / "graphs", TUFolderSource),
        (places / "code", PythonCodeSource),
    ):
        found = source(name)
        assert type(found) is kind
        assert ADAPTER.validate_python({"name": str(name)}) == found
        stored = json.loads(ADAPTER.dump_json(found))
        assert ADAPTER.validate_python(stored) == found
        json.dumps(found.determining())
        assert found.determining()["kind"] == found.kind


def test_a_path_is_not_taken_for_the_name_of_a_known_set(tmp_path, monkeypatch):
    small(tmp_path / "MUTAG")
    monkeypatch.chdir(tmp_path)
    for path in (Path("MUTAG"), "./MUTAG"):
        assert source(path).name == str(tmp_path / "MUTAG")
    assert isinstance(source("MUTAG"), TUSource)


def test_a_stored_source_needs_nothing_to_be_there():
    for kind in ("tu_folder", "python_code", "csv"):
        options = {"kind": kind, "name": "/gone/away"}
        assert ADAPTER.validate_python(options).model_dump()["name"] == "/gone/away"


def test_a_source_is_a_field():
    class Config(BaseModel):
        data: AnySource

    assert Config(data={"name": "qm9", "limit": 3}).data.limit == 3
    assert Config(data=TUSource(name="MUTAG")).data.name == "MUTAG"
    for wrong in ({"name": "qm9", "limt": 3}, {"name": "MUTAGG"}, {"kind": "x"}, {}):
        with pytest.raises(ValidationError):
            Config(data=wrong)


def test_a_folder_that_holds_nothing(tmp_path):
    with pytest.raises(DataError, match="NAME_A.txt"):
        load_dataset(tmp_path)


def test_the_home_of_a_user_who_does_not_exist():
    with pytest.raises(DataError, match="~surely_nobody"):
        source("~surely_nobody/set")


def test_wrong_options_are_named():
    with pytest.raises(DataError, match="MUTAG.*'limit'.*mirror"):
        source("MUTAG", limit=3)
    with pytest.raises(DataError, match="'limt'.*'limit'"):
        source("qm9", limt=3)
    with pytest.raises(DataError, match="limit.*'many'"):
        source("qm9", limit="many")
    with pytest.raises(DataError, match="structure.hops"):
        source("qm9", structure={"hops": -1})
    with pytest.raises(DataError, match="'nothing'"):
        source("qm9", kind="nothing")
    for targets in ([], ["mu", "mu"]):
        with pytest.raises(DataError, match="targets"):
            source("qm9", targets=targets)


def test_options_reach_the_set(tmp_path):
    dataset = load_dataset(
        "qm9", root=tmp_path, limit=3, distance=False, targets=["U0"]
    )
    assert dataset[0].edge_attr.shape[1] == 4
    assert [target.name for target in dataset.targets] == ["U0"]
    assert dataset.labels.shape == (3, 1)


def test_structure_is_added(tmp_path):
    plain = source("qm9", root=tmp_path, limit=3)
    colored = source("qm9", root=tmp_path, limit=3, structure={"hops": "all"})
    assert "edge_color" not in plain.load()[0]
    assert "edge_color" in colored.load()[0]
    limited = {"hops": "all", "memory_limit": 5}
    assert (
        source("qm9", limit=3, structure=limited).determining() == colored.determining()
    )
    assert plain.determining() != colored.determining()


def test_locations_do_not_determine_the_result(tmp_path):
    for name, options in (
        ("MUTAG", {"mirror": tmp_path}),
        ("ogbg-molhiv", {"mirror": tmp_path, "folder": tmp_path}),
        ("x.csv", {"rejected": tmp_path, "allow_rejected": True}),
    ):
        given = source(name, root=tmp_path, **options)
        assert given.determining() == source(name).determining()
        assert str(tmp_path) not in json.dumps(given.determining())
    assert source("MUTAG").determining() != source("NCI1").determining()


@pytest.mark.parametrize("kind", SOURCES)
def test_every_option_is_documented(kind):
    assert set(kind.documentation()) == set(kind.model_fields)
