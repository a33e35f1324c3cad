"""Two small graphs in the layout of the TU collection."""

import zipfile

BARE = dict.fromkeys(("node_labels", "node_attributes", "edge_labels"))


def small(folder, name="SMALL", **changes: str | None):
    """A triangle and an edge; a file that is changed to None is left out."""
    files = {
        "A": "1, 2\n2, 1\n2, 3\n3, 2\n1, 3\n3, 1\n4, 5\n5, 4\n",
        "graph_indicator": "1\n1\n1\n2\n2\n",
        "graph_labels": "-1\n1\n",
        "node_labels": "3\n3\n7\n3\n7\n",
        "node_attributes": "0.5, 1\n1.5, 1\n2.5, 1\n3.5, 1\n4.5, 1\n",
        "edge_labels": "0\n0\n1\n1\n0\n0\n1\n1\n",
    }
    folder.mkdir(exist_ok=True, parents=True)
    for kind, content in (files | changes).items():
        if content is not None:
            (folder / f"{name}_{kind}.txt").write_text(content)
    return folder


def archive(file, folder):
    """The folder as a zip archive, as the collection offers it."""
    with zipfile.ZipFile(file, "w") as writer:
        for member in sorted(folder.iterdir()):
            writer.write(member, f"{file.stem}/{member.name}")
    return file


def star(folder, leaves, name="STAR"):
    """A star, whose centre has as many neighbours as there are leaves, and an edge."""
    edges = [(1, leaf) for leaf in range(2, leaves + 2)] + [(leaves + 2, leaves + 3)]
    lines = [f"{u}, {v}\n{v}, {u}\n" for u, v in edges]
    indicator = "1\n" * (leaves + 1) + "2\n2\n"
    changes = {"A": "".join(lines), "graph_indicator": indicator}
    return small(folder, name, **BARE, **changes)
