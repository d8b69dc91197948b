"""What iotoll raises. All are `Error`; arguments that make no sense raise `ValueError` or `TypeError`."""

from __future__ import annotations

from typing import Optional

from iotoll._printable import printable

__all__ = [
    "Error",
    "ExperimentError",
    "FolderError",
    "InputError",
    "MeasurementError",
    "SimulationError",
    "StudyError",
]


class Error(Exception):
    """Something that iotoll could not do. Its text is the message with all causes, in which U+FFFD replaces all that `str.isprintable` refuses, but line feeds.

    `file`, `line` (from 1) and `expected` say where the mistake is and what belongs there; each is None where that is not known.

    >>> error = Error("host.toml:3: lanes is 0; expected 1 to 32", "host.toml", 3, "1 to 32")
    >>> str(error), error.line, error.expected
    ('host.toml:3: lanes is 0; expected 1 to 32', 3, '1 to 32')
    """

    def __init__(
        self,
        message: str,
        file: Optional[str] = None,
        line: Optional[int] = None,
        expected: Optional[str] = None,
    ) -> None:
        super().__init__(printable(message))
        self.file = file
        self.line = line
        self.expected = expected


class InputError(Error):
    """A capture or text that can't be read, or that tells of no host. `file` is its path."""


class ExperimentError(Error):
    """A description of a machine, or a plan, with a mistake; or a simulation that fails."""


class SimulationError(ExperimentError):
    """A simulation without a result: no window of it was steady, for example."""


class FolderError(Error):
    """A folder of results that can't be read or written, or that another process writes. `file` is its path."""


class StudyError(Error):
    """A study that does not exist or can't be reproduced."""


class MeasurementError(Error):
    """A measurement that failed: an allocator is faulty, or threads could not be started."""
