"""The README's Python runs as it stands, from the first block to the last."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_code_runs():
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) >= 4
    exec(compile("\n".join(blocks), str(README), "exec"), {})
