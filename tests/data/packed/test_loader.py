import numpy as np
import pytest

from fullrank.data import DataError, Graph, PackedGraphs, PackedLoader


@pytest.fixture
def graphs() -> PackedGraphs:
    none = np.zeros((2, 0), int)
    return PackedGraphs.from_graphs([Graph(1, none, {})] * 23)


def seen(loader) -> list[list[int]]:
    return [batch.graph_id.tolist() for batch in loader]


def flat(batches) -> list[int]:
    return [index for batch in batches for index in batch]


def test_order_depends_on_seed_and_epoch_alone(graphs):
    loader = PackedLoader(graphs, batch_size=5, shuffle=True, seed=3)
    first, second = seen(loader), seen(loader)
    assert first != second
    assert sorted(flat(first)) == sorted(flat(second)) == list(range(23))
    again = PackedLoader(graphs, batch_size=5, shuffle=True, seed=3)
    again.set_epoch(1)
    assert seen(again) == second
    assert seen(PackedLoader(graphs, batch_size=5, shuffle=True, seed=4)) != first


@pytest.mark.parametrize("stopped_after", [1, 3])
def test_resumes_in_the_middle_of_an_epoch(graphs, stopped_after):
    whole = PackedLoader(graphs, batch_size=4, shuffle=True)
    seen(whole)
    expected = seen(whole) + seen(whole)

    interrupted = PackedLoader(graphs, batch_size=4, shuffle=True)
    seen(interrupted)
    got = []
    for _, batch in zip(range(stopped_after), interrupted, strict=False):
        got.append(batch.graph_id.tolist())
    resumed = PackedLoader(graphs, batch_size=4, shuffle=True)
    resumed.load_state_dict(interrupted.state_dict())
    resumed.set_epoch(1)  # as Lightning does before it goes on
    assert got + seen(resumed) + seen(resumed) == expected


def test_leaving_a_pass_starts_it_again(graphs):
    loader = PackedLoader(graphs, batch_size=4, shuffle=True)
    first = next(iter(loader)).graph_id.tolist()
    assert seen(loader)[0] == first


@pytest.mark.parametrize("drop_last", [False, True])
def test_length_is_what_comes(graphs, drop_last):
    loader = PackedLoader(graphs, np.arange(10), batch_size=4, drop_last=drop_last)
    assert len(loader) == len(seen(loader)) == (2 if drop_last else 3)


def test_shards_share_the_graphs(graphs):
    def shards(shuffle):
        return [
            flat(seen(PackedLoader(graphs, shuffle=shuffle, shard=i, num_shards=4)))
            for i in range(4)
        ]

    assert sorted(flat(shards(False))) == list(range(23))
    shuffled = shards(True)
    assert {len(shard) for shard in shuffled} == {6}
    assert set(flat(shuffled)) == set(range(23))


def test_wrong_arguments(graphs):
    with pytest.raises(DataError, match="batch_size.*0"):
        PackedLoader(graphs, batch_size=0)
    with pytest.raises(DataError, match="shard.*2"):
        PackedLoader(graphs, shard=2, num_shards=2)
