import numpy as np
import pytest

from data.tu_samples import small
from fullrank.data import DataError, read_tu_folder
from fullrank.data.tu_files import files_in, name_in, read_columns


def test_graphs_edges_and_columns(tmp_path):
    folder = small(tmp_path / "set")
    num_nodes, edges, columns = read_columns(files_in(folder, name_in(folder)))
    assert num_nodes.tolist() == [3, 2]
    assert edges.T.tolist()[:2] == [[0, 1], [1, 0]]
    assert columns["node"].names == (
        "attribute 0",
        "attribute 1",
        "label 0 is 3",
        "label 0 is 7",
    )
    assert np.array_equal(columns["edge"].arrays["edge.label0"][:3], [0, 0, 1])


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("A", "1, 2\n2, 6\n", r"A\.txt, line 2: .*\(2, 6\).* 5"),
        ("A", "1, 2\n0, 1\n", r"A\.txt, line 2: .*\(0, 1\)"),
        ("A", "1, 2\n3, 4\n", r"A\.txt, line 2: .* 1 .* 2"),
        ("A", "1, 2\n3, b\n", r"A\.txt, line 2: 'b'"),
        ("A", "1\n2\n", r"A\.txt, line 1: .*1"),
        ("graph_indicator", "1\n1\n1\n3\n3\n", r"line 4: .* 2 "),
        ("graph_indicator", "1\n2\n1\n2\n2\n", "line 3: "),
        ("graph_indicator", "0\n0\n0\n1\n1\n", "line 1: .*0"),
        ("graph_indicator", "1, 1\n" * 5, "line 1: 2 "),
        ("graph_indicator", "", r"SMALL_graph_indicator\.txt"),
        ("graph_labels", "1\n", r"graph_labels\.txt, line 2: 1 .* 2"),
        ("graph_labels", "1\n1\n2\n", r"line 3: 3 .* 2"),
        ("graph_labels", "1, 0\n2, 1\n", r"graph_labels\.txt, line 1: 2 "),
        ("graph_labels", "1\nnan\n", r"graph_labels\.txt, line 2: 'nan'"),
        ("graph_attributes", "1\n1e300\n", r"graph_attributes\.txt, line 2: '1e300'"),
        ("graph_attributes", "nan\n1\n", r"graph_attributes\.txt, line 1: 'nan'"),
        ("node_labels", "1\n1\n", r"node_labels\.txt, line 3: 2 .* 5"),
        ("node_labels", "1\n" * 4 + "inf\n", r"node_labels\.txt, line 5: 'inf'"),
        ("node_attributes", "1, 2\n" * 4 + "1, nan\n", r"line 5: 'nan'"),
        ("node_attributes", "1, 2\n" * 4 + "-inf, 1\n", r"line 5: '-inf'"),
        ("node_attributes", "1, 2\n" * 4 + "1\n", r"line 5: 1 .* 2 "),
        ("node_attributes", "1\n" * 4 + "1, 2\n", r"line 5: 2 .* 1 "),
        ("edge_attributes", "1\n" * 7 + "1e39\n", r"edge_attributes\.txt, line 8"),
        ("graph_indicator", None, r"SMALL_graph_indicator\.txt"),
        ("graph_labels", None, "graph_labels.*graph_attributes"),
    ],
)
def test_wrong_files_are_named_with_the_line(tmp_path, file, content, message):
    with pytest.raises(DataError, match=message):
        read_tu_folder(small(tmp_path / "set", **{file: content}))


def test_folder_without_a_set(tmp_path):
    with pytest.raises(DataError, match=r"NAME_A\.txt"):
        read_tu_folder(tmp_path)


def test_a_name_may_hold_what_a_pattern_would_read(tmp_path):
    assert len(read_tu_folder(small(tmp_path / "set[1]", name="A[1]"))) == 2


def test_a_folder_in_place_of_a_file_is_named(tmp_path):
    folder = small(tmp_path / "set", graph_labels=None)
    (folder / "SMALL_graph_labels.txt").mkdir()
    with pytest.raises(DataError, match=r"SMALL_graph_labels\.txt"):
        read_tu_folder(folder)
