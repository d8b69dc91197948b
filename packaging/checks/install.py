"""Packages installed into clean roots, and their commands run there."""

import os
import pathlib
import shutil
import subprocess
import tarfile

from checks import examples, root
from linked import ROOT


def removed(before, after):
    """What of a package stays after its removal, besides the package manager's records and what commands wrote."""
    records = ("var/", "root/.rpmdb/", "tmp/.cache/", "etc/bash_completion.d/iotoll")
    return [f"left after removal: {path}" for path in sorted(after - before) if not path.startswith(records)]


def files_below(folder):
    # By find, which enters no folder twice and does not follow links.
    found = subprocess.run(["find", ".", "-xdev", "-not", "-type", "d", "-printf", "%P\n"], cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    return set(found.stdout.splitlines())


class Place:
    """Packages in `out`, with roots in a temporary folder. The clean Debian is kept, since it is fetched."""

    def __init__(self, out, temporary, kept):
        self.out, self.temporary, self.kept = out, temporary, kept

    def package(self, pattern):
        (path,) = self.out.glob(pattern)
        return path

    def debian(self, name):
        self.kept.mkdir(parents=True, exist_ok=True)
        return root.copy(root.make(self.kept / root.SUITE), self.temporary / name)

    def check_deb(self):
        if root.is_impossible():
            return None
        clean = self.debian("debian")
        before = files_below(clean)
        shutil.copy(self.package("iotoll_*.deb"), clean / "tmp/iotoll.deb")
        status, text = root.run(clean, "dpkg -i iotoll.deb", "/tmp")
        if status != 0:
            return [f"dpkg -i: {text}"]
        wrong = examples.check(clean)
        (clean / "tmp/iotoll.deb").unlink()
        status, text = root.run(clean, "dpkg -V iotoll && dpkg -P iotoll", "/tmp")
        shutil.rmtree(clean / "work")
        wrong += [] if status == 0 else [f"dpkg -V or -P: {text}"]
        return wrong + removed(before, files_below(clean))

    def check_rpm(self):
        if root.is_impossible():
            return None
        # glibc is there, but no package of RPM's that says so.
        clean = self.debian("rpm")
        before = files_below(clean)
        rpm = ["rpm", "--root", str(clean), "--nodeps", "--nosignature"]
        for pattern in ("iotoll-[0-9]*.rpm", "iotoll-lab-*.rpm"):
            subprocess.run([*rpm, "--install", self.package(pattern)], check=True)
        verified = subprocess.run([*rpm, "--verify", "iotoll", "iotoll-lab"], stdout=subprocess.PIPE, text=True)
        wrong = examples.check(clean) + ([verified.stdout] if verified.returncode != 0 else [])
        shutil.rmtree(clean / "work")
        subprocess.run([*rpm, "--erase", "iotoll", "iotoll-lab"], check=True)
        return wrong + removed(before, files_below(clean))

    def unpack_static(self, folder):
        path = self.package("iotoll-*-linux.tar.gz")
        with tarfile.open(path) as archive:
            archive.extractall(folder, filter="data")
        return folder / path.name.removesuffix(".tar.gz")

    def check_static(self):
        if root.is_impossible():
            return None
        clean = root.busybox(self.temporary / "busybox")
        shutil.copy2(self.unpack_static(self.temporary / "unpacked") / "iotoll", clean / "bin")
        return examples.check(clean)

    def check_image(self):
        """The image of the release and that of Containerfile: one entry point, one set of labels, the same files."""
        if not shutil.which("buildah"):
            return None
        folder = self.unpack_static(self.temporary / "context")
        store = ["--storage-driver", "vfs", "--root", self.temporary / "store", "--runroot", self.temporary / "run"]

        def buildah(*words):
            done = subprocess.run(["buildah", *store, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            if done.returncode != 0:
                raise SystemExit(f"buildah {words}: {done.stderr}")
            return done.stdout.strip()

        version = folder.name.split("-")[1]
        containerfile = ROOT / "packaging/Containerfile"
        buildah("build", "--isolation", "chroot", "--build-arg", f"VERSION={version}", "-f", containerfile, "-t", "described", folder)
        released = buildah("pull", f"oci-archive:{self.package('iotoll-*-image.tar')}")
        wrong, found = [], []
        for image in ("described", released):
            container = buildah("from", image)
            printed = buildah("run", "--isolation", "chroot", container, "--", "/iotoll", "--version")
            wrong += [] if printed == f"iotoll {version}" else [f"{image}: /iotoll --version printed {printed}"]
            mounted = pathlib.Path(buildah("mount", container))
            files = {name: (mounted / name).read_bytes() for name in files_below(mounted) if name.startswith(("iotoll", "licences"))}
            form = "{{.OCIv1.Config.Entrypoint}}\n{{range $name, $value := .OCIv1.Config.Labels}}{{$name}}={{$value}}\n{{end}}"
            about = buildah("inspect", "--type", "image", "--format", form, image)
            found.append((files, [line for line in about.splitlines() if "io.buildah" not in line]))
        if found[0] != found[1]:
            wrong.append(f"images differ: {found[0][1]} {found[1][1]}, {sorted(found[0][0])} {sorted(found[1][0])}")
        return wrong

    def check_guest(self):
        program = self.unpack_static(self.temporary / "guest") / "iotoll"
        command = ["cargo", "test", "--locked", "-p", "iotoll", "--features", "sweep,fleet", "--test", "static_guest"]
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, "IOTOLL_STATIC_PROGRAM": str(program)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if "SKIPPED" in done.stdout:
            return None
        return [done.stdout] if done.returncode != 0 else []

    def check_python(self):
        """The program of the same build, static, is what tests compare with."""
        program = self.unpack_static(self.temporary / "python") / "iotoll"
        command = [ROOT / "crates/python/check", "published", self.out]
        environment = {**os.environ, "IOTOLL_PROGRAM": str(program), "CARGO_TARGET_DIR": str(self.kept.parent)}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        print(done.stdout, flush=True)
        if "SKIPPED crates/python" in done.stdout:
            return None
        return [f"crates/python/check published: {done.stdout[-2000:]}"] if done.returncode != 0 else []
