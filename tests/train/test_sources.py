import pytest

from fullrank.data import DataError
from fullrank.train import parse
from fullrank.train.sources import load_dataset


@pytest.fixture
def data(tmp_path):
    """The data section of a configuration."""
    (tmp_path / "t.csv").write_text("smiles,y,part\nC,1,train\nCC,2,test\n")

    def section(name="t.csv", **options):
        given = {"name": str(tmp_path / name), "root": tmp_path / "root", **options}
        return parse({"data": given}).data

    return section


def test_columns_of_a_table(data):
    dataset = load_dataset(data(targets=["y"], split_column="part"))
    assert dataset.split().test.tolist() == [1]


def test_a_table_needs_targets_unless_it_is_only_looked_at(data):
    with pytest.raises(DataError, match="a target, got 0"):
        load_dataset(data())
    assert load_dataset(data(), labelled=False).targets == ()
    named = load_dataset(data(targets=["y"]), labelled=False)
    assert [target.name for target in named.targets] == ["y"]


def test_a_folder_of_python_sources(data, tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_text("def get_it(x): return x\n")
    assert load_dataset(data("code")).task == "tokens"


def test_an_option_that_the_set_does_not_have_is_named(data):
    with pytest.raises(DataError, match=r"t\.csv has no option 'limit'"):
        load_dataset(data(targets=["y"], limit=3))
