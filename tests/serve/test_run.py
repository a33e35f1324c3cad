import pytest

from fullrank.errors import ConfigError
from fullrank.serve.run import address, listen


def test_any_free_port_is_found():
    with listen("127.0.0.1", 0) as one, listen("127.0.0.1", 0) as other:
        assert address(one) != address(other)
        assert address(one).startswith("http://127.0.0.1:")


def test_a_port_that_is_taken_or_an_address_that_is_none_is_a_sentence():
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=str(port)):
            listen("127.0.0.1", port)
    with pytest.raises(ConfigError, match="999.1.1.1"):
        listen("999.1.1.1", 0)
