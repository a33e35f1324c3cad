import json
import stat

import pytest

from fullrank.train.files import remove_leftovers, replacing, write_json


def test_file_appears_when_it_is_complete(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("old")
    with replacing(file) as stream:
        stream.write("new")
        stream.flush()
        assert file.read_text() == "old"
    assert file.read_text() == "new"
    assert [f.name for f in tmp_path.iterdir()] == ["a.txt"]


def test_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("old")
    with pytest.raises(TypeError), replacing(file) as stream:
        stream.write(b"no text")
    assert file.read_text() == "old"
    assert [f.name for f in tmp_path.iterdir()] == ["a.txt"]


def test_permissions_are_those_of_an_ordinary_file(tmp_path):
    (tmp_path / "ordinary").touch()
    with replacing(tmp_path / "ours"):
        pass
    modes = {stat.S_IMODE((tmp_path / n).stat().st_mode) for n in ("ordinary", "ours")}
    assert len(modes) == 1


def test_leftovers_are_removed_and_nothing_else(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / ".last.ckpt.x1y2.part").touch()
    write_json(tmp_path / "result.json", {"ä": 1})
    remove_leftovers(tmp_path)
    assert not list((tmp_path / "checkpoints").iterdir())
    text = (tmp_path / "result.json").read_text(encoding="utf-8")
    assert json.loads(text) == {"ä": 1}
