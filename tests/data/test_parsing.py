import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fullrank.data.parsing import parse_json, parse_yaml

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(PLAIN)
def test_what_was_written_is_read(value):
    assert parse_json(json.dumps(value)) == value
    assert parse_yaml(yaml.safe_dump(value)) == value


@pytest.mark.parametrize(
    "text",
    [
        "a: &x [1]\nb: *x",
        "!!timestamp x",
        "!!python/object/apply:os.system [true]",
        "{a: 1, a: 2}",
        "a: 1\nb: {c: 1, d: 2, c: 3}",
        "{[1]: 2}",
        "[" * 10_000,
        "9" * 5000,
        "a: [1",
    ],
)
def test_what_yaml_has_beyond_plain_values_is_refused(text):
    with pytest.raises(ValueError, match="."):
        parse_yaml(text)


def test_what_is_there_twice_is_named_with_its_line():
    with pytest.raises(ValueError, match=r"'c'(.|\n)*line 2"):
        parse_yaml("a: 1\nb: {c: 1, c: 2}")


def test_a_date_is_text():
    assert parse_yaml("2020-99-99") == "2020-99-99"
    assert parse_yaml("2020-01-01") == "2020-01-01"


@pytest.mark.parametrize("text", ["[" * 100_000, "{", "", "9" * 5000])
def test_json_that_cannot_be_read_is_a_value_error(text):
    with pytest.raises(ValueError, match="."):
        parse_json(text)
