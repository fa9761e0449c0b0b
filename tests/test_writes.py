"""The writer of run folders: whole files, appended logs, no link followed, no room left."""

from __future__ import annotations

import errno
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from coldness import files
from coldness.cli.main import main
from coldness.files import (
    BadFile,
    FullDisk,
    append,
    remove,
    shorten,
    sweep,
    write_atomically,
    write_together,
)
from coldness.runs.checkpoints import saved
from coldness.runs.folder import FolderError, RunFolder
from coldness.runs.log import MetricsLog
from coldness.trainer import carry_out
from coldness.training.recipe import Recipe
from small import read

BRIEF = (
    "--iterations=20", "--checkpoint_every=10", "--energy.net.widths=[4]", "--batch_size=8",
    "--sources.0.steps=1", "--evaluation.ais=null", "--compile=never",
)  # fmt: skip


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return read("mixture2d", *BRIEF)


def content(text: str) -> Callable[[BinaryIO], int]:
    return lambda file: file.write(text.encode())


def test_a_link_in_the_place_of_a_file_or_of_its_temporary_is_not_followed(tmp_path: Path) -> None:
    """0.9 wrote through report.html.partial into the file that it led to."""
    victim, page = tmp_path / "victim", tmp_path / "report.html"
    victim.write_text("precious")
    page.symlink_to(victim)
    page.with_name("report.html.partial").symlink_to(victim)
    write_atomically(page, content("new"))
    assert victim.read_text() == "precious"
    assert page.read_text() == "new"
    assert not page.is_symlink()


def test_logs_are_not_written_through_links(tmp_path: Path) -> None:
    victim, log = tmp_path / "victim", tmp_path / "metrics.csv"
    victim.write_text("iteration,d\n0,1\n1,2\n")
    log.symlink_to(victim)
    for write in (lambda: append(log, b"2,3\n"), lambda: MetricsLog(log, keep_until=1)):
        with pytest.raises(BadFile, match="symbolic link"):
            write()
    assert victim.read_text() == "iteration,d\n0,1\n1,2\n"
    MetricsLog(log)  # of a new run: replaced
    assert victim.read_text() == "iteration,d\n0,1\n1,2\n"


def test_a_log_is_cut_in_place_and_a_linked_copy_stays(tmp_path: Path) -> None:
    log, copy = tmp_path / "log", tmp_path / "copy"
    log.write_text("a\nb\nc\n")
    place = log.stat().st_ino
    shorten(log, b"a\nb\n")
    assert log.read_text() == "a\nb\n"
    assert log.stat().st_ino == place
    os.link(log, copy)
    shorten(log, b"a\n")
    assert (log.read_text(), copy.read_text()) == ("a\n", "a\nb\n")


def test_killed_while_a_log_is_cut_no_row_is_lost(tmp_path: Path) -> None:
    """0.9 emptied metrics.csv first: 40 of 60 rows remained."""
    log = tmp_path / "metrics.csv"
    log.write_text("iteration,d\n" + "".join(f"{k},1\n" for k in range(60)))

    def killed(point: str, path: Path) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if not child:
        files.reached = killed  # type: ignore[assignment]
        MetricsLog(log, keep_until=50)
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    MetricsLog(log, keep_until=50)
    assert log.read_text().splitlines()[1:] == [f"{k},1" for k in range(50)]


def test_temporaries_of_killed_writers_are_removed_and_a_folder_of_them_is_empty(
    tmp_path: Path, recipe: Recipe
) -> None:
    """0.9 refused the folder of a run that was killed while it wrote config.yaml."""
    out = tmp_path / "run"
    out.mkdir()
    left = out / f".config.yaml.{'0' * 16}.partial"
    left.write_text("# a ru")
    with pytest.raises(FolderError, match="no run to resume"):
        RunFolder(out).check_for(resume=True, overwrite=False)
    carry_out(recipe, out=out)
    assert not list(out.rglob("*.partial"))
    sweep(tmp_path / "nothing")
    (out / "notes.txt.partial").touch()  # not ours
    sweep(out)
    assert (out / "notes.txt.partial").exists()


def test_folders_within_a_run_are_no_links(tmp_path: Path, recipe: Recipe) -> None:
    """0.9 deleted half of such a run and stopped."""
    out, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    carry_out(recipe, out=out)
    (out / "checkpoints").rename(elsewhere)
    (out / "checkpoints").symlink_to(elsewhere)
    before = sorted(path.name for path in elsewhere.iterdir())
    with pytest.raises(FolderError, match=r"checkpoints is a symbolic link"):
        carry_out(recipe, out=out, resume=True)
    carry_out(recipe, out=out, overwrite=True)
    assert sorted(path.name for path in elsewhere.iterdir()) == before
    assert not (out / "checkpoints").is_symlink()
    assert saved(out / "checkpoints")


@pytest.mark.parametrize("name", ["metrics.csv", "events.jsonl"])
def test_a_run_whose_log_is_a_link_keeps_its_checkpoints(
    name: str, tmp_path: Path, recipe: Recipe
) -> None:
    """Resuming from an older checkpoint removes later ones; not if it is refused."""
    out, victim = tmp_path / "run", tmp_path / "victim"
    carry_out(recipe, out=out)
    before = [path.name for path in saved(out / "checkpoints")]
    victim.write_text("precious")
    (out / name).unlink(missing_ok=True)
    (out / name).symlink_to(victim)
    with pytest.raises(FolderError, match=f"{name} is a symbolic link"):
        carry_out(recipe, out=out, resume_from=10)
    assert [path.name for path in saved(out / "checkpoints")] == before
    assert victim.read_text() == "precious"


def test_killed_while_it_is_overwritten_a_run_can_be_overwritten_again(
    tmp_path: Path, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    carry_out(recipe, out=out)

    class Killed(BaseException):
        pass

    def killed(point: str, path: Path) -> None:
        if (point, path.name) == ("remove", "metrics.csv"):
            raise Killed

    monkeypatch.setattr(files, "reached", killed)
    with pytest.raises(Killed):
        RunFolder(out).open(overwrite=True)
    monkeypatch.undo()
    with pytest.raises(FolderError, match="checkpoints are gone"):
        carry_out(recipe, out=out, resume=True)
    carry_out(recipe, out=out, overwrite=True)
    assert saved(out / "checkpoints")


def test_removing_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    remove(tmp_path / "link")
    remove(tmp_path / "missing")
    assert (tmp_path / "kept" / "file").exists()


# No room.


def test_a_half_written_row_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, write = tmp_path / "log", os.write
    append(log, b"1\n")
    room = [3]

    def full(descriptor: int, rows: memoryview) -> int:
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, rows[: room.pop()])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(FullDisk, match="log"):
        append(log, b"2\n3\n4\n")
    monkeypatch.undo()
    assert log.read_bytes() == b"1\n"


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
@pytest.mark.parametrize(
    "place",
    ["write config.yaml", "sync iteration-10.ckpt", "append metrics.csv", "open model.yaml"],
)
def test_without_room_one_line_says_so_and_the_run_goes_on(
    error: int,
    place: str,
    tmp_path: Path,
    recipe: Recipe,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out, name = tmp_path / "run", place.split()[1]

    def full(point: str, path: Path) -> None:
        if f"{point} {path.name}" == place:
            raise OSError(error, os.strerror(error))

    monkeypatch.setattr(files, "reached", full)
    with pytest.raises(FullDisk, match=name) as caught:
        carry_out(recipe, out=out)
    assert caught.value.exit_code == 4
    assert ("--resume" in str(caught.value)) == (name != "config.yaml")
    assert not list(out.rglob("*.partial"))
    monkeypatch.undo()
    carry_out(recipe, out=out, resume=(out / "config.yaml").exists())
    assert saved(out / "checkpoints")[-1].name == "iteration-20.ckpt"


def test_what_cannot_be_written_cannot_be_closed_either(tmp_path: Path) -> None:
    """What the buffer still holds fails once more when the file is closed."""
    child = os.fork()
    if not child:
        code = 1
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
            write_together([(tmp_path / name, content("x" * 1000)) for name in "ab"])
        except FullDisk as error:
            code = 0 if str(tmp_path) in str(error) and not list(tmp_path.iterdir()) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_several_files_take_their_places_in_order_once_all_are_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, said, sync = tmp_path / "log", [], os.fsync
    log.write_text("row")
    monkeypatch.setattr(files, "reached", lambda point, path: said.append(f"{point} {path.name}"))
    monkeypatch.setattr(os, "fsync", lambda place: (said.append("on disk"), sync(place))[1])
    write_together([(tmp_path / name, content(name)) for name in "ab"], [log])
    assert said == [
        *("open a", "write a", "sync a", "open b", "write b", "sync b"),
        *("on disk", "on disk", "on disk"),
        *("replace a", "replaced a", "replace b", "replaced b", "on disk"),
    ]
    assert [(tmp_path / name).read_text() for name in "ab"] == ["a", "b"]
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b", "log"}


def test_the_command_ends_with_the_code_of_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(point: str, path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files, "reached", full)
    assert main(["train", "mixture2d", f"--out={tmp_path / 'run'}", *BRIEF]) == 4
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if "coldness: there is no room to write" in line] == lines[-1:]
