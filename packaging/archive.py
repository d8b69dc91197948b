"""A `.tar.gz` with the same bytes for the same files: sorted, owned by root, all with one time."""

import gzip
import io
import tarfile


def tar(entries, time, top=""):
    """The tar archive of files, in folders below `top`."""
    buffer = io.BytesIO()
    made = set()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for entry in entries:
            path = f"{top}/{entry.path}" if top else entry.path
            names = path.split("/")
            for depth in range(1, len(names)):
                folder = "/".join(names[:depth])
                if folder not in made:
                    made.add(folder)
                    archive.addfile(member(folder, time, 0o755, tarfile.DIRTYPE))
            one = member(path, time, entry.mode, tarfile.REGTYPE)
            one.size = len(entry.data)
            archive.addfile(one, io.BytesIO(entry.data))
    return buffer.getvalue()


def member(path, time, mode, kind):
    one = tarfile.TarInfo(path)
    one.mtime, one.mode, one.type = time, mode, kind
    one.uname = one.gname = "root"
    return one


def packed(data, quick=False):
    return gzip.compress(data, compresslevel=1 if quick else 9, mtime=0)
