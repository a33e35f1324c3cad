from fullrank.errors import nearest, quoted


def test_long_texts_are_shortened():
    assert quoted("CCO") == "'CCO'"
    assert len(quoted("C" * 20_000)) < 100


def test_the_nearest_name_is_suggested():
    assert "'MUTAG'" in nearest("mutga", ["MUTAG", "NCI1"])
    assert nearest("something else", ["MUTAG"]) == ""
