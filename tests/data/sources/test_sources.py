import pytest

from fullrank.data import QM9, DataError, known_names, load
from fullrank.data.catalog import UnknownOption


def test_names_of_the_issue_are_known():
    wanted = """qm9 COLLAB REDDIT-BINARY REDDIT-MULTI-12K IMDB-BINARY IMDB-MULTI MUTAG
        PROTEINS ENZYMES NCI1 ogbg-molhiv ogbg-molpcba ogbg-ppa ogbg-code2"""
    assert set(wanted.split()) <= set(known_names())


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("mutag", "MUTAG"), ("ogbg-molhvi", "ogbg-molhiv"), ("QM9", "qm9")],
)
def test_the_nearest_name_is_suggested(wrong, right):
    with pytest.raises(DataError, match=rf"'{wrong}' \(did you mean '{right}'\?\)"):
        load(wrong)


def test_options_reach_the_set(tmp_path):
    dataset = load("qm9", root=tmp_path, limit=3, distance=False)
    assert isinstance(dataset, QM9)
    assert dataset[0].edge_attr.shape[1] == 4


def test_an_option_that_the_set_does_not_have_is_named(tmp_path):
    with pytest.raises(UnknownOption, match="MUTAG has no option 'limit'; it has root"):
        load("MUTAG", limit=3)


def test_own_files_are_known_by_what_they_hold(tmp_path):
    table = tmp_path / "upper.CSV"
    table.write_text("smiles,y\nC,1\n")
    assert len(load(table, targets=["y"], root=tmp_path / "root")) == 1
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(DataError, match="neither NAME_A.txt, as the TU layout does, n"):
        load(folder)
    (folder / "a.py").write_text("def get_it(x): return x\n")
    assert load(folder, root=tmp_path / "root").task == "tokens"
