"""Which files a package holds, and where."""

import dataclasses
import os
import pathlib
import subprocess
import tempfile

from archive import packed
from linked import ROOT

# Pages for users; studies and validation stay in the repository.
PAGES = ("docs/guide", "docs/reference", "experiments")
LIBRARY = "usr/lib/iotoll"


@dataclasses.dataclass(frozen=True)
class Entry:
    """A file of a package: its path from the root, what it holds, and its permissions."""

    path: str
    data: bytes
    mode: int = 0o644


@dataclasses.dataclass(frozen=True)
class Layout:
    """Folders that differ by kind of package, with the package's name as `{}`."""

    program: str
    manual: str
    bash: str
    zsh: str
    fish: str
    documents: str
    licences: str
    # Whether manual pages are compressed.
    packed: bool = True


DEBIAN = Layout(
    program="usr/bin",
    manual="usr/share/man/man1",
    bash="usr/share/bash-completion/completions",
    zsh="usr/share/zsh/vendor-completions",
    fish="usr/share/fish/vendor_completions.d",
    documents="usr/share/doc/{}",
    licences="usr/share/doc/{}",
)
REDHAT = dataclasses.replace(DEBIAN, zsh="usr/share/zsh/site-functions", licences="usr/share/licenses/{}")
# To unpack anywhere.
ARCHIVE = Layout(
    program="", manual="man", bash="completions", zsh="completions", fish="completions", documents="", licences="", packed=False
)


def join(folder, name):
    return f"{folder}/{name}" if folder else name


def printed(program, *words):
    return subprocess.run([program, *words], check=True, stdout=subprocess.PIPE, env={}).stdout


def manual_pages(program):
    with tempfile.TemporaryDirectory() as folder:
        printed(program, "man", folder)
        return {page.name: page.read_bytes() for page in sorted(pathlib.Path(folder).iterdir())}


def completions(program, layout):
    places = {"bash": join(layout.bash, "iotoll"), "zsh": join(layout.zsh, "_iotoll"), "fish": join(layout.fish, "iotoll.fish")}
    if layout is ARCHIVE:
        places["bash"] = join(layout.bash, "iotoll.bash")
    return [Entry(path, printed(program, "complete", shell)) for shell, path in places.items()]


def documents(folder):
    files = [ROOT / "README.md", ROOT / "SECURITY.md", *(file for page in PAGES for file in (ROOT / page).rglob("*"))]
    files += sorted((ROOT / "contrib").rglob("*.py"))
    return [Entry(join(folder, str(file.relative_to(ROOT))), file.read_bytes()) for file in files if file.is_file()]


def licences(folder):
    return [Entry(join(folder, name), (ROOT / name).read_bytes()) for name in ("LICENSE-APACHE", "LICENSE-MIT", "THIRD-PARTY.md")]


def program(built, layout, bill):
    """The package `iotoll`: the program at `built`, with what it prints of itself, and its bill of materials."""
    entries = [Entry(join(layout.program, "iotoll"), built.read_bytes(), 0o755)]
    for name, text in manual_pages(built).items():
        name, text = (name + ".gz", packed(text)) if layout.packed else (name, text)
        entries.append(Entry(join(layout.manual, name), text))
    documents_folder = layout.documents.format("iotoll")
    entries += completions(built, layout)
    entries += documents(documents_folder)
    entries += licences(layout.licences.format("iotoll"))
    entries.append(Entry(join(documents_folder, "iotoll.cdx.json"), bill))
    return ordered(entries)


def lab(built, layout, bill):
    """The package `iotoll-lab`: the plugins and the guest's program."""
    entries = [Entry(f"{LIBRARY}/{name}", path.read_bytes(), 0o644) for name, path in built.plugins.items()]
    entries.append(Entry(f"{LIBRARY}/lab-guest", built.guest.read_bytes(), 0o755))
    folder = layout.licences.format("iotoll-lab")
    entries += licences(folder)
    entries.append(Entry(join(folder, "LICENSE-GPL-2"), (ROOT / "crates/lab-plugin/LICENSE").read_bytes()))
    entries.append(Entry(join(layout.documents.format("iotoll-lab"), "iotoll-lab.cdx.json"), bill))
    return ordered(entries)


def image(built, bill):
    """What Containerfile copies."""
    entries = [Entry("iotoll", built.read_bytes(), 0o755), *licences("licences"), Entry("licences/iotoll.cdx.json", bill)]
    return ordered(entries)


def ordered(entries):
    """By path; two files at one path are an error of ours."""
    entries = sorted(entries, key=lambda entry: entry.path)
    for one, next_one in zip(entries, entries[1:]):
        assert one.path != next_one.path, one.path
    return entries


def write(entries, root, time):
    """Writes a package's files below a folder, all with the same time."""
    for entry in entries:
        path = root / entry.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(entry.data)
        path.chmod(entry.mode)
    # Folders after what is in them, which changes their time.
    for folder, _, names in os.walk(root, topdown=False):
        for name in names:
            os.utime(os.path.join(folder, name), (time, time))
        os.chmod(folder, 0o755)
        os.utime(folder, (time, time))
