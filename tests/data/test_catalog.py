import pytest

from fullrank.data import QM9, DataError, known_names, load


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
