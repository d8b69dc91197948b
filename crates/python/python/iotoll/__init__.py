"""Shows how each PCIe device's DMA reaches memory, what that costs per I/O, and the exact fix.

    inspect     one host: a capture, a folder, a text that somebody pasted, or this machine
    tables      many hosts as tables of pyarrow
    reproduce   published figures beside the models'
    model       simulations of machines, and fits of their parameters
    folders     results that many processes write; iotoll.dask distributes such work
    bench       measures on this machine; rows of measurements for pandas
    errors      what is raised

The functions are those of the program `iotoll`, and give the same documents. They let other threads run while they work, and Ctrl-C ends them.

>>> import iotoll
>>> host = iotoll.inspect("[    0.000000] Linux version 6.1.0-13-amd64 (x)\\n[    0.000000] DMAR: IOMMU enabled\\n")
>>> host["schema"], host["host"]["kernel_release"]
('iotoll.inspect/2', '6.1.0-13-amd64')
"""

from iotoll import bench, errors, folders, model
from iotoll._iotoll import __version__
from iotoll.errors import Error
from iotoll.hosts import NotLookedAt, inspect, tables
from iotoll.model import reproduce

__all__ = [
    "Error",
    "NotLookedAt",
    "__version__",
    "bench",
    "errors",
    "folders",
    "inspect",
    "model",
    "reproduce",
    "tables",
]
