"""The notebooks of `examples` run from their first cell to the last, and are kept without what cells print. The guide has the text of programs."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest
from conftest import REPOSITORY, SECONDS_MAX

EXAMPLES = REPOSITORY / "crates/python/examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


@pytest.mark.parametrize("name", ["fleet_joblib.py", "fleet_ray.py"])
def test_the_guide_has_the_text_of_an_example(name: str) -> None:
    guide = (REPOSITORY / "docs/guide/python.md").read_text()
    assert f"```python\n{(EXAMPLES / name).read_text()}```\n" in guide


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_kept_without_outputs(notebook: Path) -> None:
    for cell in json.loads(notebook.read_text())["cells"]:
        assert not cell.get("outputs") and cell.get("execution_count") is None, cell["source"]


# Kernels of Jupyter warn of what their own packages do.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs_and_draws(notebook: Path, tmp_path: Path) -> None:
    for package in ("nbclient", "ipykernel", "matplotlib", "pandas"):
        pytest.importorskip(package)
    nbclient, nbformat = (importlib.import_module(name) for name in ("nbclient", "nbformat"))
    read = nbformat.read(notebook, as_version=4)
    nbclient.NotebookClient(read, timeout=SECONDS_MAX, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output.get("data", {}) for cell in read.cells for output in cell.get("outputs", [])]
    assert any("image/png" in data for data in outputs)
    assert "text/plain" in outputs[-1]
