"""Inspects captures on all cores of a machine, by joblib: fleet_joblib.py CAPTURES OUT CAPTURES_PER_CHUNK."""

import sys

from iotoll import folders
from joblib import Parallel, delayed

source, out, per_chunk = sys.argv[1], sys.argv[2], int(sys.argv[3])

with folders.Fleet(out) as fleet:
    captures = fleet.unfinished(source)
    chunks = [captures[first : first + per_chunk] for first in range(0, len(captures), per_chunk)]
    done = Parallel(n_jobs=-1, batch_size=1)(delayed(folders.inspect_into)(out, chunk) for chunk in chunks)
print(sum(chunk.rows for chunk in done), "hosts,", sum(chunk.errors for chunk in done), "errors,", len(done), "chunks")
