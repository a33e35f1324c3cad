import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fullrank.data.sources.tokens import (
    VOCABULARY_SIZE,
    code_edges,
    decode_names,
    encode_names,
    vocabulary_of,
)


@given(st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=7), min_size=1))
def test_names_come_back_as_far_as_they_fit(names):
    vocabulary = vocabulary_of(names)
    assert decode_names(encode_names(names, vocabulary), vocabulary) == [
        name[:5] for name in names
    ]


def test_vocabulary_keeps_the_most_frequent():
    names = [[f"rare{i}"] for i in range(VOCABULARY_SIZE)] + [["often"]] * 2
    vocabulary = vocabulary_of(names)
    assert len(vocabulary) == VOCABULARY_SIZE
    assert vocabulary[0] == "often"
    encoded = encode_names([[f"rare{VOCABULARY_SIZE - 1}"]], vocabulary)
    assert encoded[0, :2].tolist() == [VOCABULARY_SIZE, VOCABULARY_SIZE + 1]
    assert decode_names(encoded, vocabulary) == [["__UNK__"]]


def test_tokens_of_two_graphs_do_not_follow_each_other():
    tree = np.array([[0, 2], [1, 3]])
    edges, kinds = code_edges(
        tree, np.ones(4), np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    )
    following = edges[:, (kinds == [1, 0]).all(axis=1)]
    assert following.tolist() == [[0, 2], [1, 3]]
