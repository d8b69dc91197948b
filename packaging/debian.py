"""Debian's packages, by dpkg-deb."""

import datetime
import email.utils
import hashlib
import pathlib
import subprocess
import tempfile
import textwrap

import layout
from archive import packed
from layout import Entry

# What lintian says of our packages that is meant, each with the reason.
OVERRIDES = {
    "iotoll": [("initial-upload-closes-no-bugs", "it was not uploaded to Debian")],
    "iotoll-lab": [
        ("initial-upload-closes-no-bugs", "it was not uploaded to Debian"),
        ("unstripped-binary-or-object", "functions of lab-guest are looked up in its symbol table"),
        ("hardening-no-pie", "marks of lab-guest are at fixed addresses"),
    ],
}


def copyright_text(about):
    mit = (layout.ROOT / "LICENSE-MIT").read_text()
    owner = next(line for line in mit.splitlines() if line.startswith("Copyright"))
    indented = "\n".join(f" {line}" if line else " ." for line in mit.split(owner)[1].strip().splitlines())
    owner_name = owner.removeprefix("Copyright (c)").strip()
    plugin = f"Files: usr/lib/iotoll/liblab_plugin*\nCopyright: {owner_name}\nLicense: GPL-2.0-or-later\n On Debian its text is in /usr/share/common-licenses/GPL-2.\n\n"
    return f"""Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: iotoll
Comment: Works of others that are linked into the program, and their terms, are listed in THIRD-PARTY.md beside this file.

Files: *
Copyright: {owner_name}
License: MIT or Apache-2.0

{plugin if "GPL" in about["licence"] else ""}License: MIT
{indented}

License: Apache-2.0
 On Debian its text is in /usr/share/common-licenses/Apache-2.0.
"""


def changelog(name, version, maintainer, time):
    date = email.utils.format_datetime(datetime.datetime.fromtimestamp(time, datetime.timezone.utc))
    return f"{name} ({version}) unstable; urgency=medium\n\n  * Release {version.split('-')[0]}; CHANGELOG.md says what changed.\n\n -- {maintainer}  {date}\n"


def wrapped(text):
    """The further lines of a description, short enough for a terminal."""
    return "\n".join(f" {line}" for line in textwrap.wrap(" ".join(text.split()), 78))


def needed_packages(programs):
    """What programs need of shared libraries, as dpkg-shlibdeps says it; nothing of static ones."""
    with tempfile.TemporaryDirectory() as folder:
        control = pathlib.Path(folder) / "debian/control"
        control.parent.mkdir()
        control.write_text("Source: iotoll\n\nPackage: iotoll\nArchitecture: amd64\n")
        words = [word for program in programs for word in ("-e", program)]
        # Of the plugin it warns that QEMU's functions are in no library.
        command = ["dpkg-shlibdeps", "-O", "--warnings=0", *words]
        said = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout
    return said.strip().removeprefix("shlibs:Depends=")


def control(name, about, version, maintainer, homepage, depends, size):
    fields = {
        "Package": name,
        "Version": version,
        "Architecture": "amd64",
        "Maintainer": maintainer,
        "Installed-Size": str(size),
        "Depends": depends,
        "Recommends": ", ".join(about["recommends"]),
        "Section": "admin",
        "Priority": "optional",
        "Homepage": homepage,
        "Description": f"{about['summary']}\n{wrapped(about['description'])}",
    }
    return "".join(f"{field}: {value}\n" for field, value in fields.items() if value)


def build(name, entries, package, version, time, out, quick):
    """Writes a package into `out` and returns its path. A quick one is larger."""
    about, maintainer = package[name], package["maintainer"]
    folder = f"usr/share/doc/{name}"
    version = f"{version}-1"
    overrides = "".join(f"# {reason}\n{name}: {tag}\n" for tag, reason in OVERRIDES[name])
    entries = [
        *entries,
        Entry(f"{folder}/copyright", copyright_text(about).encode()),
        Entry(f"{folder}/changelog.gz", packed((layout.ROOT / "CHANGELOG.md").read_bytes())),
        Entry(f"{folder}/changelog.Debian.gz", packed(changelog(name, version, maintainer, time).encode())),
        Entry(f"usr/share/lintian/overrides/{name}", overrides.encode()),
    ]
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary) / "root"
        layout.write(entries, root, time)
        programs = [root / entry.path for entry in entries if entry.data.startswith(b"\x7fELF")]
        depends = [needed_packages(programs)] + ([f"iotoll (= {version})"] if name != "iotoll" else [])
        size = sum(-(-len(entry.data) // 1024) for entry in entries)
        text = control(name, about, version, maintainer, package["homepage"], ", ".join(filter(None, depends)), size)
        sums = "".join(f"{hashlib.md5(entry.data).hexdigest()}  {entry.path}\n" for entry in layout.ordered(entries))
        layout.write([Entry("control", text.encode()), Entry("md5sums", sums.encode())], root / "DEBIAN", time)
        path = out / f"{name}_{version}_amd64.deb"
        compression = ["-Zgzip", "-z1"] if quick else ["-Zxz"]
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "SOURCE_DATE_EPOCH": str(time)}
        command = ["dpkg-deb", "--root-owner-group", *compression, "--build", root, path]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return path
