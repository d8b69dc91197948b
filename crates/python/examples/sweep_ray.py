"""Runs the points of a plan on a cluster, by Ray Data: sweep_ray.py PLAN OUT POINTS_PER_CHUNK."""

import os
import sys

import ray
from iotoll import folders

source, out, per_chunk = sys.argv[1], os.path.abspath(sys.argv[2]), int(sys.argv[3])
# A chunk is tried again after an error, such as of a full disk. After its process was killed it is tried again in any case.
context = ray.data.DataContext.get_current()
context.retried_map_errors, context.max_map_retries = True, 2

with folders.Sweep(source, out) as sweep:
    plan, places = sweep.plan, sweep.unfinished()

    def run(chunk):
        done = folders.run_points(plan, out, chunk["item"].tolist())
        return {"rows": [done.rows], "errors": [done.errors]}

    chunks = ray.data.from_items(places, override_num_blocks=max(1, -(-len(places) // per_chunk)))
    done = chunks.map_batches(run, batch_size=None).take_all()
print(sum(chunk["rows"] for chunk in done), "points,", sum(chunk["errors"] for chunk in done), "errors,", len(done), "chunks")
