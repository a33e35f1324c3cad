import pytest
import yaml

from fullrank.errors import ConfigError
from fullrank.paper.ready import ready_config, ready_configs
from fullrank.train import parse
from paper.hyperparameters import HYPERPARAMETERS, hyperparameters_of


def test_ready_configurations_have_the_papers_hyperparameters():
    assert len(HYPERPARAMETERS) == 38
    for (column, family), expected in HYPERPARAMETERS.items():
        name = f"{family.lower()}/{column.replace('/', '-')}"
        config = parse(yaml.safe_load(ready_config(name)))
        assert hyperparameters_of(config) == expected
        assert config.model.conv == family.lower()
        if column.startswith("qm9/"):
            assert config.data.targets == [column.removeprefix("qm9/")]


def test_every_ready_configuration_is_valid_and_different():
    found = [parse(yaml.safe_load(text)) for text in ready_configs().values()]
    assert len(found) == 40  # the paper's 38 and ogbg-code2 for each family
    assert len({config.model_dump_json() for config in found}) == 40


def test_an_unknown_name():
    with pytest.raises(ConfigError, match="'expc/qm9-gab'.*'expc/qm9-gap'"):
        ready_config("expc/qm9-gab")
