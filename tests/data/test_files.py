import gzip
import http.server
import os
import threading
import zipfile

import numpy as np
import pytest

from fullrank.data import DataError
from fullrank.data.files import (
    NumberStream,
    content_digest,
    downloaded,
    in_mirror,
    read_column,
    read_numbers,
    unpacked,
)


@pytest.fixture(autouse=True)
def no_mirror(monkeypatch):
    monkeypatch.delenv("FULLRANK_MIRROR", raising=False)


@pytest.fixture
def address(tmp_path):
    """A server on this machine that holds ``set.zip``."""
    served = tmp_path / "served"
    served.mkdir()
    (served / "set.zip").write_bytes(b"content")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(served))

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def test_downloads_once(tmp_path, address):
    file = downloaded(f"{address}/set.zip", tmp_path)
    assert file == tmp_path / "raw" / "set.zip"
    assert file.read_bytes() == b"content"
    (tmp_path / "served" / "set.zip").unlink()
    assert downloaded(f"{address}/set.zip", tmp_path) == file


@pytest.mark.parametrize("url", ["{}/other.zip", "http://127.0.0.1:9/other.zip"])
def test_no_network_says_which_file_to_put_where(tmp_path, address, url):
    expected = tmp_path / "raw" / "other.zip"
    with pytest.raises(DataError) as found:
        downloaded(url.format(address), tmp_path)
    assert str(expected) in str(found.value)
    assert "FULLRANK_MIRROR" in str(found.value)
    assert os.listdir(tmp_path / "raw") == []


def test_a_download_that_breaks_off_leaves_nothing(tmp_path):
    class BreaksOff(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"x" * 10)

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), BreaksOff)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with pytest.raises(DataError, match="1000"):
        downloaded(f"http://127.0.0.1:{server.server_port}/set.zip", tmp_path)
    server.shutdown()
    assert os.listdir(tmp_path / "raw") == []


def test_mirror_as_argument_or_variable(tmp_path, monkeypatch):
    url = "https://nowhere.invalid/set.zip"
    assert in_mirror(url, None) is None
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    with pytest.raises(DataError, match=r"set\.zip, set"):
        in_mirror(url, mirror)
    (mirror / "set").mkdir()
    assert in_mirror(url, mirror) == mirror / "set"
    (mirror / "set.zip").touch()
    monkeypatch.setenv("FULLRANK_MIRROR", str(mirror))
    assert in_mirror(url, None) == mirror / "set.zip"


@pytest.mark.parametrize("member", ["../evil.txt", "/tmp/evil.txt", "a/../../evil.txt"])
def test_members_outside_the_folder_are_refused(tmp_path, member):
    archive = tmp_path / "evil.zip"
    with zipfile.ZipFile(archive, "w") as writer:
        writer.writestr("good.txt", "good")
        writer.writestr(member, "evil")
    with (
        pytest.raises(DataError),
        unpacked(archive, tmp_path / "scratch"),
    ):
        pass
    assert os.listdir(tmp_path / "scratch") == []
    assert not (tmp_path / "evil.txt").exists()


def test_an_archive_that_would_fill_the_disk_is_refused(tmp_path):
    archive = tmp_path / "bomb.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as writer:
        writer.writestr("zeros.txt", bytes(10_000_000))
    with (
        pytest.raises(DataError, match=r"bomb\.zip.*10,000,000"),
        unpacked(archive, tmp_path / "scratch"),
    ):
        pass
    assert os.listdir(tmp_path / "scratch") == []


@pytest.mark.parametrize("damage", ["cut", "text", "flipped", "encrypted"])
def test_corrupt_archives(tmp_path, damage):
    archive = tmp_path / "set.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as writer:
        writer.writestr("a.txt", np.random.default_rng(0).bytes(1000))
    content = bytearray(archive.read_bytes())
    if damage == "cut":
        content = content[:500]
    elif damage == "text":
        content = bytearray(b"<html>404</html>")
    elif damage == "encrypted":
        content[6] |= 1
        content[content.index(b"PK\1\2") + 8] |= 1
    else:
        content[300] ^= 255
    archive.write_bytes(content)
    with (
        pytest.raises(DataError, match=r"set\.zip"),
        unpacked(archive, tmp_path / "scratch"),
    ):
        pass
    assert os.listdir(tmp_path / "scratch") == []


def test_an_archive_is_there_while_it_is_used(tmp_path):
    archive = tmp_path / "set.zip"
    with zipfile.ZipFile(archive, "w") as writer:
        writer.writestr("set/a.txt", "1")
    with unpacked(archive, tmp_path / "scratch") as folder:
        assert (folder / "set" / "a.txt").read_text() == "1"
    assert os.listdir(tmp_path / "scratch") == []


@pytest.mark.parametrize(
    ("content", "dtype", "named"),
    [
        ("1, 2\n3, x\n", np.int64, "line 2: 'x'"),
        ("1, 2\n3, 2.5\n", np.int64, "line 2: '2.5'"),
        ("1\n2,3\n", np.float64, "line 2: 2 "),
        ("1.5\nabc\n", np.float64, "line 2: 'abc'"),
        ("1.5\nnan\n", np.float64, "line 2: 'nan'"),
        ("1.5\n\n-inf\n", np.float64, "line 3: '-inf'"),
        ("1.5\n1e39\n", np.float64, "line 2: '1e39'"),
        ("1,2\n3\n", np.float64, "line 2: 1 "),
        ("1,2\n,3\n", np.float64, "line 2: ''"),
    ],
)
def test_the_wrong_line_is_named(tmp_path, content, dtype, named):
    file = tmp_path / "numbers.txt"
    file.write_text(content)
    with pytest.raises(DataError) as found:
        read_numbers(file, dtype)
    assert f"{file}, {named}" in str(found.value)


def test_missing_numbers_are_allowed_where_they_are_expected(tmp_path):
    file = tmp_path / "labels.txt"
    file.write_text("1,,0\nnan,2,NA\n")
    values = read_numbers(file, np.float64, missing=True)
    assert np.isnan(values).tolist() == [[False, True, False], [True, False, True]]
    for content, word in (("1,,0\n1,0\n", "line 2: 2 "), ("1,inf\n", "'inf'")):
        file.write_text(content)
        with pytest.raises(DataError, match=word):
            read_numbers(file, np.float64, missing=True)


def test_a_column_is_one(tmp_path):
    file = tmp_path / "labels.txt"
    file.write_text("1\n2\n")
    assert read_column(file).tolist() == [1, 2]
    file.write_text("1,2\n3,4\n")
    with pytest.raises(DataError, match=r"labels\.txt, line 1"):
        read_column(file)


def test_digests_are_of_names_and_content(tmp_path):
    def folder(name, **files):
        (tmp_path / name).mkdir()
        for file, content in files.items():
            (tmp_path / name / file).write_text(content)
        return content_digest(tmp_path / name)

    first = folder("first", a="1", b="2")
    assert first == folder("second", b="2", a="1")
    assert first != folder("third", a="12", b="")
    assert first != folder("fourth", a="1", c="2")
    (tmp_path / "first" / "a").write_text("3")
    assert first != content_digest(tmp_path / "first")


def test_corrupt_and_missing_gz(tmp_path):
    file = tmp_path / "edge.csv.gz"
    with pytest.raises(DataError, match=r"edge\.csv\.gz"):
        read_numbers(file)
    file.write_bytes(gzip.compress(b"1,2\n" * 1000)[:-20])
    with pytest.raises(DataError, match=r"edge\.csv\.gz"):
        read_numbers(file)
    file.write_bytes(b"no gzip at all")
    with pytest.raises(DataError, match=r"edge\.csv\.gz"):
        read_numbers(file)


def test_a_stream_counts_its_lines(tmp_path):
    file = tmp_path / "numbers.csv.gz"
    file.write_bytes(gzip.compress(b"1,2\n3,4\n5,6\n7,8\n"))
    stream = NumberStream(file, 2)
    assert stream.take(1).tolist() == [[1, 2]]
    assert stream.take(0).shape == (0, 2)
    assert stream.take(2).tolist() == [[3, 4], [5, 6]]
    with pytest.raises(DataError, match="line 3: odd"):
        stream.check(np.array([True, False]), lambda row: "odd")
    with pytest.raises(DataError, match=" 3 "):
        stream.finish()
    stream = NumberStream(file, 2)
    with pytest.raises(DataError, match="line 4.*5"):
        stream.take(5)
    with pytest.raises(DataError, match="line 1: 2.*3"):
        NumberStream(file, 3).take(1)
    file.write_bytes(gzip.compress(b"1\n2\ninf\n"))
    stream = NumberStream(file, 1, np.float64)
    stream.take(1)
    with pytest.raises(DataError, match="line 3"):
        stream.take(2)
