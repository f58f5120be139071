"""Files are written whole or not at all: whoever writes at the same time, whoever is killed, whatever lies in the folder."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from taddaa import InputError
from taddaa.files import STALE_SECONDS, refuse_unwritable, whole_file, write_whole

OLD = STALE_SECONDS + 10
BIG = 300_000


def test_four_threads_and_a_reader_on_one_path(tmp_path):
    """Every read is one writer's whole text, and no write fails."""
    path, texts = tmp_path / "report.json", [letter * BIG for letter in "abcd"]
    write_whole(path, texts[0])
    failed: list[Exception] = []

    def write(text):
        try:
            for _ in range(40):
                write_whole(path, text)
        except Exception as error:
            failed.append(error)

    writers = [threading.Thread(target=write, args=(text,)) for text in texts]
    for writer in writers:
        writer.start()
    reads = 0
    while any(writer.is_alive() for writer in writers):
        assert path.read_text() in texts
        reads += 1
    assert not failed
    assert reads > 50
    assert list(tmp_path.iterdir()) == [path]


def test_two_processes_of_one_id_do_not_share_a_partial_file(tmp_path, monkeypatch):
    """As in two containers, in each of which the process has id 1."""
    monkeypatch.setattr(os, "getpid", lambda: 1)
    path = tmp_path / "report.json"
    with whole_file(path) as one, whole_file(path) as other:
        one.write(b"one")
        other.write(b"the other")
        assert len(list(tmp_path.iterdir())) == 2
    assert path.read_bytes() == b"one"  # closed last


def test_a_planted_link_is_not_followed(tmp_path, monkeypatch):
    victim, path = tmp_path / "victim", tmp_path / "report.json"
    victim.write_text("precious")
    monkeypatch.setattr("secrets.token_hex", lambda _: "guessed")
    for planted in (".taddaa-guessed.partial", f".report.json.{os.getpid()}.partial"):
        (tmp_path / planted).symlink_to(victim)
    with pytest.raises(InputError, match="cannot be written: File exists"):
        write_whole(path, "text")
    monkeypatch.undo()
    write_whole(path, "text")
    assert (victim.read_text(), path.read_text()) == ("precious", "text")


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_the_mode_is_kept(tmp_path, mode):
    path = tmp_path / "report.json"
    path.write_text("old")
    path.chmod(mode)
    write_whole(path, "new")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", mode)


def test_a_new_file_has_the_mode_that_any_program_would_give_it(tmp_path):
    (tmp_path / "usual").touch()
    write_whole(tmp_path / "ours", "new")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_file_and_folder_are_synced_in_order(tmp_path, monkeypatch):
    done: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda handle: done.append("folder" if os.path.isdir(f"/dev/fd/{handle}") else "file"))  # noqa: PTH112
    replace = Path.replace
    monkeypatch.setattr(Path, "replace", lambda self, path: done.append("replaced") or replace(self, path))
    write_whole(tmp_path / "report.json", "text")
    assert done == ["file", "replaced", "folder"]


WRITER = """
import sys, time
from pathlib import Path
from taddaa.files import STALE_SECONDS, refuse_unwritable, whole_file, write_whole
with whole_file(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    time.sleep(60)
"""


def test_what_killed_writers_left_is_swept_and_a_living_writers_is_not(tmp_path):
    path = tmp_path / "report.json"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
    assert writer.stdout.readline() == b"writing\n"
    (left,) = tmp_path.iterdir()
    os.utime(left, (0, os.stat(left).st_mtime - OLD))  # noqa: PTH116
    write_whole(path, "ours")
    assert left.exists()  # slow, or stopped, but alive
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    assert left.exists()
    write_whole(path, "ours")
    assert list(tmp_path.iterdir()) == [path]
    left.write_text("just begun")  # and on a file system without locks
    write_whole(path, "ours")
    assert left.exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (".", "it is a folder; name a file in it"),
        ("n" * 300, "File name too long"),
        ("a\0b", "embedded null"),
        ("no folder/report.json", "No such file or directory"),
    ],
)
def test_paths_that_cannot_be_written_are_one_sentence(tmp_path, name, message):
    for refuse in (lambda path: write_whole(path, "text"), refuse_unwritable):
        with pytest.raises(InputError, match=message):
            refuse(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_ring_of_links(tmp_path):
    ring = tmp_path / "ring"
    ring.symlink_to(ring)
    with pytest.raises(InputError, match=r"ring.* cannot be written"):
        write_whole(ring, "text")


def test_a_long_name_that_the_system_takes_is_written(tmp_path):
    write_whole(tmp_path / ("n" * 250), "text")
    assert len(list(tmp_path.iterdir())) == 1


def test_the_users_own_links_and_devices_are_written_through(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "new"
    write_whole(Path("/dev/null"), "text")
    with pytest.raises(InputError, match="/dev/full cannot be written: No space left"):
        write_whole(Path("/dev/full"), "text")
