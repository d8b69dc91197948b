"""Packages that only some functions need."""

from __future__ import annotations

import importlib
from typing import Any


def require(module: str, extra: str) -> Any:
    """The module, or an ImportError that says how to install it. `extra` is the group of our optional dependencies that has it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise ImportError(
            f"this function needs the package {package}; expected it to be installed: pip install 'iotoll[{extra}]'",
            name=package,
        ) from error
