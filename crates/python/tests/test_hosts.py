"""Inspections: the same documents and rows as the program's, and what people who asked in public had found out."""

from __future__ import annotations

import pickle
import shutil
import sys
from pathlib import Path
from typing import Any

import iotoll
import pytest
from conftest import REPOSITORY, Program, unpack
from iotoll import folders

LOG = "[    0.000000] Linux version 6.1.0-13-amd64 (x)\n[    0.000000] DMAR: IOMMU enabled\n"
# All of them are tested in Rust.
POSTS = [
    "amd970-lazy-swiotlb-line",
    "amdgpu-44-bit-mask-overflow",
    "brix-rtl8821ae-bounce",
    "e810-strict-since-a-regression",
    "ehl-stmmac-32bit-bounce",
]
TABLES = ["hosts", "adapters", "findings", "unseen", "errors"]


def archives(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.tar.gz"))


def test_documents_are_those_of_the_program(captures: Path, program: Program) -> None:
    for capture in archives(captures):
        assert iotoll.inspect(capture) == program("inspect", "--json", "--from", str(capture))
        assert iotoll.inspect(str(capture)) == iotoll.inspect(capture)


def test_a_pasted_text_is_a_host(program: Program) -> None:
    theirs = program("inspect", "--json", "--from", "-", text=LOG)
    ours = iotoll.inspect(LOG, name="standard input")
    assert ours.pop("source") != theirs.pop("source")
    assert ours == theirs
    assert iotoll.inspect(LOG.encode())["host"]["kernel_release"] == "6.1.0-13-amd64"
    assert iotoll.inspect(LOG.encode(), name="a post")["kernel_log"]["file"] == "a post"


def test_bytes_are_an_archive(captures: Path) -> None:
    archive = archives(captures)[0]
    ours = iotoll.inspect(archive.read_bytes(), name=str(archive))
    assert ours == iotoll.inspect(archive)


def test_this_machine_is_inspected_without_a_source() -> None:
    release = Path("/proc/sys/kernel/osrelease").read_text().strip()
    assert iotoll.inspect()["host"]["kernel_release"] == release


@pytest.mark.parametrize("post", POSTS)
def test_a_post_has_the_paths_and_findings_that_its_people_found(post: str, tmp_path: Path) -> None:
    expected, folder = unpack(REPOSITORY / f"crates/host/tests/field/{post}.txtar", tmp_path)
    document = iotoll.inspect(folder)
    paths = {adapter["address"]: adapter["dma_path"] for adapter in document["adapters"]}
    findings = {(finding["id"], finding["address"]) for finding in document["findings"]}
    for kind, *words in expected:
        if kind == "dma-path:":
            assert paths[words[0]] in words[1].split("|"), words
        elif kind == "finding:":
            assert (words[0], None if words[1] == "host" else words[1]) in findings, words


def test_what_is_no_host_is_an_error(tmp_path: Path) -> None:
    empty = tmp_path / "empty.txt"
    empty.write_text("nothing\nof a host\n")
    for source in (empty, tmp_path / "absent"):
        with pytest.raises(iotoll.errors.InputError) as raised:
            iotoll.inspect(source)
        assert raised.value.file == str(source)
        assert str(raised.value).startswith(f"{source}: ")
        assert isinstance(raised.value, iotoll.Error)
        copy = pickle.loads(pickle.dumps(raised.value))
        assert (type(copy), str(copy), copy.file) == (type(raised.value), str(raised.value), str(source))
    with pytest.raises(iotoll.errors.InputError, match="pasted text: .*no line of it was understood"):
        iotoll.inspect("nothing\nof a host\n")
    no_sources: tuple[Any, ...] = (7, [str(empty)])
    for no_source in no_sources:
        with pytest.raises(TypeError, match="expected str, bytes or os.PathLike object, not "):
            iotoll.inspect(no_source)
    with pytest.raises(ValueError, match="expected a path, not an empty text"):
        iotoll.inspect("")


def test_no_text_from_outside_controls_a_terminal(tmp_path: Path) -> None:
    deep = tmp_path / "a\x1b]0;b\x07\u202e" / "/".join("d" * 20)
    deep.mkdir(parents=True)
    with pytest.warns(iotoll.NotLookedAt) as warned:
        assert folders.Fleet(tmp_path / "out").unfinished([tmp_path / "gone\x1b[31m", deep.parents[18]]) == []
    assert all(str(one.message).replace("\ufffd", "").isprintable() for one in warned), warned
    with pytest.raises(iotoll.errors.InputError) as raised:
        iotoll.inspect(tmp_path / "gone\x1b[31m")
    assert raised.value.file == str(tmp_path / "gone\x1b[31m")
    assert str(raised.value) == f"{tmp_path}/gone\ufffd[31m: No such file or directory (os error 2)"
    with pytest.raises(iotoll.errors.ExperimentError) as unknown:
        iotoll.model.run('"\\u001b[31mfoo" = 1\n')
    assert "\x1b" not in str(unknown.value)
    with pytest.raises(iotoll.errors.ExperimentError, match=r"^/nope\.toml: No such file or directory$"):
        iotoll.model.run("/nope.toml")


def test_rows_are_those_of_the_program(captures: Path, program: Program, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    fleet = tmp_path / "captures"
    shutil.copytree(captures, fleet)
    (fleet / "poisoned.tar.gz").write_bytes(b"\x1f\x8b" + b"\xff" * 999)
    program("fleet", "--json", str(fleet), "--out", str(tmp_path / "out"))
    ours = iotoll.tables(fleet)
    assert list(ours) == TABLES
    for name, table in ours.items():
        theirs = parquet.read_table(tmp_path / "out" / name)
        assert table.schema.equals(theirs.schema), name
        key = lambda row: repr(sorted(row.items()))  # noqa: E731
        assert sorted(table.to_pylist(), key=key) == sorted(theirs.to_pylist(), key=key), name
    assert ours["hosts"].num_rows == len(archives(captures))
    assert ours["errors"].column("input").to_pylist() == [str(fleet / "poisoned.tar.gz")]


def test_rows_do_not_depend_on_threads(captures: Path) -> None:
    pytest.importorskip("pyarrow")
    one, many = iotoll.tables(captures, threads=1), iotoll.tables(archives(captures), threads=16)
    assert all(one[name].equals(many[name]) for name in TABLES)
    for wrong in (0, -1, 10**30):
        with pytest.raises(ValueError, match=f"threads is {wrong}; expected 1 to 65535"):
            iotoll.tables(captures, threads=wrong)


def test_a_path_that_is_not_there_is_a_warning(captures: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    absent = tmp_path / "absent"
    with pytest.warns(iotoll.NotLookedAt, match=f"{absent}: No such file"):
        found = iotoll.tables([absent, archives(captures)[0]])
    assert found["hosts"].num_rows == 1


def test_without_pyarrow_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, captures: Path) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'iotoll\[arrow\]'") as raised:
        iotoll.tables(captures)
    assert raised.value.name == "pyarrow"
