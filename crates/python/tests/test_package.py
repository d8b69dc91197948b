"""The package itself: its version, and the examples of its documentation."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re

import iotoll
import pytest
from conftest import REPOSITORY

NEEDS = {"iotoll.hosts": ["pyarrow"], "iotoll.bench": ["pandas"], "iotoll.calibration": ["numpy", "scipy"]}


def test_the_version_is_that_of_the_workspace() -> None:
    version = re.search(r'^version = "(.+)"', (REPOSITORY / "Cargo.toml").read_text(), re.MULTILINE)
    assert version is not None and iotoll.__version__ == version[1]


@pytest.mark.parametrize("name", [module.name for module in pkgutil.iter_modules(iotoll.__path__, "iotoll.")])
def test_examples_of_a_module_are_right(name: str) -> None:
    for package in NEEDS.get(name, []):
        pytest.importorskip(package)
    module = iotoll if name == "iotoll._iotoll" else importlib.import_module(name)
    assert doctest.testmod(module).failed == 0


def test_public_functions_have_an_example() -> None:
    for name in iotoll.__all__:
        function = getattr(iotoll, name)
        if callable(function) and not isinstance(function, type):
            assert ">>>" in function.__doc__, name
