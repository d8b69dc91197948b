"""Clean roots to install packages into, and commands in them: with /proc, /sys and /dev of this host, and without a network."""

import pathlib
import shutil
import signal
import subprocess

# The oldest Debian that the archive still has; its glibc is 2.31.
SUITE = "bullseye"


def make(folder):
    """A minimal Debian, once; needs root and mmdebstrap."""
    if not (folder / "etc").is_dir():
        part = folder.with_name(folder.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        command = ["mmdebstrap", "--quiet", "--variant=essential", SUITE, part, "http://deb.debian.org/debian"]
        subprocess.run(command, check=True)
        part.rename(folder)
    return folder


def copy(base, folder):
    subprocess.run(["cp", "-a", "--reflink=auto", base, folder], check=True)
    return folder


def busybox(folder):
    """A root with a static shell and nothing else."""
    for name in ("bin", "proc", "sys", "dev", "tmp", "etc"):
        (folder / name).mkdir(parents=True)
    shutil.copy2(shutil.which("busybox"), folder / "bin/busybox")
    subprocess.run([folder / "bin/busybox", "--install", "-s", folder / "bin"], check=True)
    # The links lead to where busybox was started.
    for link in (folder / "bin").iterdir():
        if link.is_symlink():
            link.unlink()
            link.symlink_to("busybox")
    return folder


def heed_interrupts():
    """A shell that starts this in the background has it ignore Ctrl-C, by which commands without an end are ended here."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


MOUNTS = 'mount -t proc proc "$0/proc" && mount --rbind /sys "$0/sys" && mount --rbind /dev "$0/dev" && exec chroot "$0" /bin/sh -c "cd $1 && $2"'


def run(root, command, work, seconds=900):
    """Runs a shell command in a folder of a root; returns its exit status and all that it printed. Mounts end with it."""
    words = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", MOUNTS, root, work, command]
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8", "COLUMNS": "300"}
    done = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds, env=environment, preexec_fn=heed_interrupts
    )
    return done.returncode, done.stdout.decode(errors="replace")


def is_impossible():
    """Why no root can be made here; None if it can."""
    missing = [name for name in ("mmdebstrap", "unshare", "rpm", "busybox") if not shutil.which(name)]
    if missing:
        return f"not installed: {', '.join(missing)}"
    if pathlib.Path("/proc/self/uid_map").exists() and subprocess.run(["unshare", "--mount", "true"]).returncode != 0:
        return "mounts need root"
    return None
