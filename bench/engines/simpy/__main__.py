"""SimPy under the loads of the example `engines` of `des`, which says what they are told and print.

    python bench/engines/simpy phold PENDING EVENTS
    python bench/engines/simpy nic PARAMETERS FLOWS WARM_UP FRAMES SEED
"""

import sys

import nic
import phold

LOADS = {"phold": phold.main, "nic": nic.main}

_, load, *arguments = sys.argv
LOADS[load](*arguments)
