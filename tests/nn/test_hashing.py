import torch

from fullrank.nn.hashing import STEP, row_keys, scramble


def test_numbers_of_splitmix64():
    """The first three of the generator seeded with 1234567, as published with it."""
    found = scramble(1234567 + torch.arange(3) * STEP)
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert [number % 2**64 for number in found.tolist()] == published


def test_rows_have_the_same_key_if_and_only_if_they_are_equal():
    for x in (torch.randint(3, (500, 4)), torch.randint(3, (500, 4)).float()):
        _, by_value = x.unique(dim=0, return_inverse=True)
        _, by_key = row_keys(x).unique(return_inverse=True)
        together = torch.stack([by_value, by_key]).unique(dim=1).size(1)
        assert together == len(by_value.unique()) == len(by_key.unique())
