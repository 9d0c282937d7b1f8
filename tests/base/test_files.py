"""No name and no kind of file makes a question about it raise, wait, or read without end."""

import errno
import gzip
import os
import re
import socket
import subprocess
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from bertc.base.diagnostics import BertcError, CannotWriteError, DataError, MissingInputError
from bertc.base.diagnostics.errors import as_data_error
from bertc.base.storage import durable, paths
from bertc.base.storage.encodings import controls_in, not_utf8
from bertc.base.storage.plain_file import read_bytes, read_json, read_text, size_bytes
from bertc.run.records.folder import RunFolder


def test_what_is_no_plain_file_is_refused_at_once(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"x")
    here = os.getcwd()
    os.chdir(tmp_path)  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    os.chdir(here)
    names = ("loop", "dangling", "folder", "pipe", "socket", "no", "x" * 300, "a\0b", "\ud800")
    places = {name: tmp_path / name for name in names} | {
        "device": Path("/dev/zero"),
        "below a file": tmp_path / "file" / "x",
        "no such user": paths.user_path("~nouser-of-bertc/x"),
    }
    for name, path in places.items():
        for read in (lambda p: read_bytes(p, 10), lambda p: read_json(p, 10), size_bytes):
            caught = pytest.raises(MissingInputError, read, path)
            assert caught.value.help.startswith("check the path"), name
            assert "Errno" not in caught.value.message, name
        assert not paths.is_file(path), name
        assert paths.is_folder(path) == (name == "folder")
        assert list(paths.files_matching(path)) == [], name
        assert paths.real_path(path)
        assert paths.existing_folder(path).is_dir()


def test_reading_is_bounded_and_text_is_utf8_with_the_ends_of_its_lines(tmp_path):
    path, text = tmp_path / "file", "a\r\n\x85é\n"
    path.write_bytes(text.encode())
    assert read_bytes(path, 8) == text.encode()
    assert read_text(path, 8) == text
    pytest.raises(DataError, read_bytes, path, 7).match("is larger than 7 bytes")
    path.write_bytes(b"a\nb\xe9")
    pytest.raises(DataError, read_text, path, 100).match(r"file:2: byte 0xe9 is not UTF-8")
    os.truncate(path, 2**40)  # sparse
    pytest.raises(DataError, read_text, path, 2**20).match("is larger than 1 MiB")


RUSSIAN = "Настоящая лицензия является свободной.\nОна даёт вам право вносить изменения.\n" * 9
GERMAN = "Für größere Flüsse braucht man Brücken.\nSchöne Häuser stehen an der Straße.\n" * 9
FRENCH = "Où être né à la forêt ?\n" * 999 + "L’œuvre d’art dépasse l’été.\n"


@pytest.mark.parametrize(("name", "text", "encoding", "said"), [
    ("a.txt", RUSSIAN, "utf-16", "it seems to be UTF-16$"),
    ("a.txt", RUSSIAN, "utf-32", "it seems to be UTF-32$"),
    ("a b.gz", FRENCH, "cp1252", "is not UTF-8$"), ("a.txt", GERMAN, "latin-1", "is not UTF-8$"),
])  # fmt: skip
def test_text_that_is_not_utf8_is_converted_by_the_help(
    name, text, encoding, said, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    raw = text.encode(encoding)
    wrong = pytest.raises(UnicodeDecodeError, raw.decode)
    error = not_utf8(Path(name), raw, wrong.value.start)
    assert re.search(said, error.message)
    pack, unpack = (gzip.compress, gzip.decompress) if name.endswith(".gz") else (bytes, bytes)
    Path(name).write_bytes(pack(raw))
    command, rest = error.help.split("; ", 1)
    assert rest.startswith("then move the old file away, or name the new one")
    subprocess.run(["sh", "-c", command], check=True)
    assert unpack(Path(f"utf8-{name}").read_bytes()).decode() == text


def test_few_wrong_bytes_are_dropped_and_signs_that_another_encoding_left_are_named(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    other = not_utf8("a", bytes(range(128, 256)) * 9, 0).help
    assert other.endswith(
        "; with the name of its encoding in place of CP1252, which `file -i` guesses"
    )
    alone = not_utf8("a.txt", GERMAN.encode() + b"\xe9", len(GERMAN.encode()))
    assert alone.help.startswith("to drop it: iconv -c -f UTF-8 -t UTF-8 a.txt > utf8-a.txt")
    half = GERMAN.encode() + RUSSIAN[:30].encode("cp1251")
    several = not_utf8("a.txt", half, len(GERMAN.encode()))
    assert several.help == "convert its lines that are in another encoding"
    assert not [*controls_in("a.txt", FRENCH)]
    spoilt = FRENCH.encode("cp1252").decode("latin-1")
    Path("a.txt").write_text(spoilt, encoding="utf-8")
    (remark,) = controls_in("a.txt", spoilt)
    assert " of U+0080 to U+009F, as in " in remark.message
    subprocess.run(["sh", "-c", remark.help.split(": ", 1)[1].split("; then")[0]], check=True)
    assert Path("utf8-a.txt").read_text(encoding="utf-8") == FRENCH
    (remark,) = controls_in("a.txt", "\x85 日")
    assert remark.help == "convert its source again, from the encoding that it is in"


def test_a_folder_that_was_removed_is_no_place_to_begin(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    pytest.raises(MissingInputError, paths.existing_folder, "x").match("was removed")


@pytest.mark.parametrize("error", [
    OSError(errno.ENOSPC, "No space left on device"),
    Exception("No space left on device (os error 28)"),  # as tokenizers says it
])  # fmt: skip
def test_a_full_disk_is_reported_the_same_for_every_library(tmp_path, error):
    refused = writing_fails(tmp_path / "x" / "y", error)
    assert re.search("disk is full .7 bytes needed, .* free", refused.message)
    assert refused.help == "make room, or name another folder"


def writing_fails(place: Path, error: Exception) -> CannotWriteError:
    with (
        pytest.raises(CannotWriteError) as refused,
        durable.writing(place, 7, elsewhere="name another folder"),
    ):
        raise error
    return refused.value


def test_a_disk_that_holds_no_more_files_is_said_to_be_one(tmp_path, monkeypatch):
    disk = SimpleNamespace(f_blocks=9, f_bfree=9, f_bavail=9, f_frsize=4096, f_files=9, f_favail=0)
    monkeypatch.setattr(os, "statvfs", lambda path: disk)
    refused = writing_fails(tmp_path / "x", OSError(errno.ENOSPC, "No space left on device"))
    assert "the disk holds no more files" in refused.message
    assert refused.help == "remove some, or name another folder"
    # What is no failure to write passes through.
    for error in (BertcError("full (os error 28)"), ValueError("x"), OSError(errno.ENOMEM, "x")):
        with pytest.raises(type(error)) as caught, durable.writing(tmp_path):
            raise error
        assert caught.value is error


def test_what_is_replaced_or_removed_may_be_anything_but_its_target(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to("kept")
    (tmp_path / ".tmp-link").mkdir()
    durable.replace(tmp_path / "link", b"new")
    assert (tmp_path / "link").read_bytes() == b"new"
    (tmp_path / "again").symlink_to("kept")
    for name in ("again", "link", "never"):
        durable.remove(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_half_a_character_in_json_is_refused(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(r'{"a": "\ud83d\ude00"}')
    assert read_json(path, 100) == {"a": "\U0001f600"}
    for half in (r'{"a": "\ud83d"}', r'{"\uDE00": 1}'):
        path.write_text(half)
        pytest.raises(DataError, read_json, path, 100).match("half of a surrogate pair")


def test_a_panic_of_another_language_is_reported_as_any_error():
    class PanicException(BaseException):  # as pyo3 raises it
        pass

    with pytest.raises(DataError, match="no text"), as_data_error("no text", "some text"):
        raise PanicException("likelihood is NAN")
    with pytest.raises(KeyboardInterrupt), as_data_error("no text", "some text"):
        raise KeyboardInterrupt


def test_a_disk_that_does_not_tell_its_size_is_written_to(tmp_path, monkeypatch):
    nothing = SimpleNamespace(total=0, used=0, free=0)  # as some network file systems say
    monkeypatch.setattr(durable.shutil, "disk_usage", lambda _: nothing)
    durable.replace(tmp_path / "file", b"x" * 10)
    assert (tmp_path / "file").read_bytes() == b"x" * 10


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_worked_on(tmp_path, monkeypatch, number):
    refuses = Mock(side_effect=OSError(number, os.strerror(number)))
    monkeypatch.setattr(durable.fcntl, "flock", refuses)
    with RunFolder(tmp_path / "run").claim():
        assert (tmp_path / "run").is_dir()
