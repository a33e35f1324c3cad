"""The README's Python runs as it stands, from the first block to the last."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_code_runs():
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) >= 4
    exec(compile("\n".join(blocks), str(README), "exec"), {})


def test_the_configuration_is_one():
    import yaml

    from fullrank.train.config import parse

    (block,) = re.findall(r"```yaml\n(.*?)```", README.read_text(), re.DOTALL)
    config = parse(yaml.safe_load(block))
    assert config.model.conv == "expc"
    assert config.training.epochs == 50
