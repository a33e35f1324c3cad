from fullrank.errors import DataError, nearest, quoted


def test_long_texts_are_shortened():
    assert quoted("CCO") == "'CCO'"
    assert len(quoted("C" * 20_000)) < 100


def test_the_nearest_name_is_suggested():
    assert "'MUTAG'" in nearest("mutga", ["MUTAG", "NCI1"])
    assert nearest("something else", ["MUTAG"]) == ""


def test_a_message_that_quotes_a_whole_file_is_shortened():
    error = DataError(f"a.csv: {'x' * 100_000} is not a number")
    assert len(str(error)) < 2100
    assert str(error).startswith("a.csv")
    assert str(error).endswith("is not a number")
