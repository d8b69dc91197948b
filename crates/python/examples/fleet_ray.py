"""Inspects captures on a cluster, by Ray Data: fleet_ray.py CAPTURES OUT CAPTURES_PER_CHUNK."""

import os
import sys

import ray
from iotoll import folders

source, out, per_chunk = sys.argv[1], os.path.abspath(sys.argv[2]), int(sys.argv[3])
# A chunk is tried again after an error, such as of a full disk. After its process was killed it is tried again in any case.
context = ray.data.DataContext.get_current()
context.retried_map_errors, context.max_map_retries = True, 2


def inspect(chunk):
    done = folders.inspect_into(out, chunk["item"].tolist())
    return {"rows": [done.rows], "errors": [done.errors]}


with folders.Fleet(out) as fleet:
    captures = fleet.unfinished(source)
    chunks = ray.data.from_items(captures, override_num_blocks=max(1, -(-len(captures) // per_chunk)))
    done = chunks.map_batches(inspect, batch_size=None).take_all()
print(sum(chunk["rows"] for chunk in done), "hosts,", sum(chunk["errors"] for chunk in done), "errors,", len(done), "chunks")
