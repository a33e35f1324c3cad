"""Function names as sub-tokens and syntax trees as graphs, as in ogbg-code2."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from fullrank.data.features import Features

NUM_TOKENS = 5
VOCABULARY_SIZE = 5000
LARGEST_DEPTH = 20
EDGE_FEATURES = Features("float", ("next token", "inverse"))


def node_features(num_types: int, num_attributes: int) -> Features:
    """Type, attribute and depth (capped at the largest depth)."""
    sizes = (num_types, num_attributes, LARGEST_DEPTH + 1)
    return Features("categorical", ("type", "attribute", "depth"), sizes)


def vocabulary_of(names: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """The most frequent words; pass the training names only."""
    counts = Counter(word for name in names for word in name)
    return tuple(word for word, _ in counts.most_common(VOCABULARY_SIZE))


def encode_names(
    names: Sequence[Sequence[str]], vocabulary: Sequence[str]
) -> np.ndarray:
    """The first words of each name as ids, ``[G, 5]``.

    The two ids after the vocabulary stand for unknown words and for the end.
    """
    ids = {word: i for i, word in enumerate(vocabulary)}
    unknown, end = len(vocabulary), len(vocabulary) + 1
    encoded = np.full((len(names), NUM_TOKENS), end, dtype=np.int32)
    for row, name in zip(encoded, names, strict=True):
        known = [ids.get(word, unknown) for word in name[:NUM_TOKENS]]
        row[: len(known)] = known
    return encoded


def decode_names(ids: np.ndarray, vocabulary: Sequence[str]) -> list[list[str]]:
    """The words before the end token, for each row of ``ids``."""
    words = [*vocabulary, "__UNK__", "__EOS__"]
    end = len(vocabulary) + 1
    decoded = []
    for row in np.asarray(ids).tolist():
        until = row.index(end) if end in row else len(row)
        decoded.append([words[i] for i in row[:until]])
    return decoded


def code_edges(
    tree: np.ndarray,
    is_token: np.ndarray,
    depth_first: np.ndarray,
    graph_of_node: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Tree edges and edges to the next token, each in both directions.

    Args:
        tree: Edges from parent to child, nodes numbered over all graphs: ``[2, E]``.
        is_token: Whether a node has an attribute: ``[N]``.
        depth_first: Position of the node in a depth-first traversal: ``[N]``.
        graph_of_node: The graph of each node: ``[N]``.

    Returns:
        The edges, ``[2, E']``, and their features, ``[E', 2]``.
    """
    tokens = np.flatnonzero(is_token)
    tokens = tokens[np.lexsort((depth_first[tokens], graph_of_node[tokens]))]
    follows = graph_of_node[tokens[:-1]] == graph_of_node[tokens[1:]]
    following = np.stack([tokens[:-1], tokens[1:]])[:, follows]
    kinds = [tree, tree[::-1], following, following[::-1]]
    features = [(0, 0), (0, 1), (1, 0), (1, 1)]
    counts = [edges.shape[1] for edges in kinds]
    return np.concatenate(kinds, axis=1), np.repeat(
        np.array(features, dtype=np.uint8), counts, axis=0
    )
