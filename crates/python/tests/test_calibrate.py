"""Fits: known values are found again, held-out figures have no influence, and a fit says what it does not know."""

from __future__ import annotations

import json
import math
import pickle
import sys
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, cast

import iotoll
import pytest
from iotoll import _predictions, _simulation, errors
from iotoll._least_squares import LeastSquares
from iotoll._parameter_space import ParameterSpace
from iotoll.model import Calibration, Figure, calibrate

# Reads of an engine, few and with one seed, so that a simulation takes milliseconds.
ENGINE = """what = "reads"
transfers = 2000
seeds = 1
[link]
generation = 3
lanes = 8
payload_bytes_max = 256
read_request_bytes_max = 512
completion_boundary_bytes = 64
overhead_share = 0.055
[engine]
operation = "read"
transfer_bytes = 64
alignment_bytes = 64
window_bytes = 8192
in_flight_max = 1
gap_ns = 16.0
path_ns = 540.0
copy_ps_per_byte = 143.0
"""
TRANSLATED = """[iommu]
entries = 64
ways = 2
page_bytes = 4096
walk_ns = 300.0
walk_gap_ns = 50.0
"""
PATH, COPY = "engine.path_ns", "engine.copy_ps_per_byte"
BOUNDS: dict[Any, tuple[float, float]] = {PATH: (300.0, 900.0), COPY: (10.0, 500.0)}
LATENCY, RATE = "engine.latency_mean_ns", "engine.transfers_per_second"


@pytest.fixture(autouse=True)
def simulate_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many fits here begin with the same points: each is simulated once for all tests."""
    pytest.importorskip("numpy")
    pytest.importorskip("scipy")
    monkeypatch.setattr(_predictions, "simulate", simulate)


@lru_cache(maxsize=None)
def simulate_json(text: str, file: str, changes: str) -> dict[str, Any]:
    document: dict[str, Any] = _simulation.simulate(text, file, json.loads(changes))
    return document


def simulate(text: str, file: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    return simulate_json(text, file, json.dumps(changes))


def figure(
    read: str = LATENCY,
    split: str = "calibration",
    text: str = ENGINE,
    factor: float = 1.0,
    changes: Mapping[str, Any] = MappingProxyType({}),
) -> Figure:
    """A figure that the model itself says, times a factor."""
    kind, name = read.split(".")
    value = iotoll.model.run(text, **changes)[kind][name]["mean"] * factor
    return Figure(value, read, "ns", "calculated by this test", dict(changes), split)


def latency(bytes_: int, split: str = "calibration", factor: float = 1.0) -> Figure:
    return figure(split=split, factor=factor, changes={"engine.transfer_bytes": bytes_})


def found(fit: Calibration, field: str) -> Any:
    """The parameter with a field."""
    return next(parameter for parameter in fit.parameters if field in parameter.fields)


def test_known_values_are_found_again() -> None:
    fit = calibrate(ENGINE, BOUNDS, [latency(64), latency(2048), latency(512, "held-out")])
    assert fit.values == pytest.approx({PATH: 540.0, COPY: 143.0}, rel=1e-3)
    assert fit.error < 1e-4 and fit.held_out_error is not None and fit.held_out_error < 1e-3
    assert fit.is_determined and not any(parameter.at_bound for parameter in fit.parameters)
    for parameter in fit.parameters:
        assert parameter.low < parameter.range_low < parameter.value < parameter.range_high < parameter.high
    assert fit.failed_simulations == 0 < fit.simulations
    assert [one.figure.split for one in fit.figures] == ["calibration", "calibration", "held-out"]
    assert iotoll.model.run(ENGINE, **fit.values)["engine"]["latency_mean_ns"]["mean"] == fit.figures[0].predicted
    assert fit.remarks == ["there are as many parameters as calibration figures: that those are met shows nothing"]


def test_least_squares_are_those_of_a_closed_form() -> None:
    """Latency is the path, a time for each byte, and the link's share: a line, which linear algebra fits to figures that no line meets."""
    numpy = pytest.importorskip("numpy")
    published = {64: 560.0, 256: 631.0, 1024: 858.0, 2048: 1144.0}
    figures = [
        Figure(value, LATENCY, "ns", "published: pcie-bench", {"engine.transfer_bytes": number})
        for number, value in published.items()
    ]
    fit = calibrate(ENGINE, BOUNDS, figures, without_held_out=True)
    values = numpy.array(list(published.values()))
    link = numpy.array([figure(changes=one.changes).value - 540.0 - 0.143 * number for one, number in zip(figures, published)])
    matrix = numpy.array([[1.0, number / 1000] for number in published])
    (path, copy), *_ = numpy.linalg.lstsq(matrix / values[:, None], (values - link) / values, rcond=None)
    assert fit.values == pytest.approx({PATH: path, COPY: copy}, rel=2e-3)
    residuals = matrix @ [path, copy] + link - values
    assert fit.error == pytest.approx(math.sqrt(((residuals / values) ** 2).mean()), rel=1e-3)
    assert "no prediction was tested: there is no held-out figure" in fit.remarks
    assert fit.held_out_error is None and "not tested on held-out" in str(fit)


def test_held_out_figures_have_no_influence() -> None:
    fitted = [latency(64, factor=1.01), latency(2048), latency(1024, factor=0.98)]
    alone = calibrate(ENGINE, BOUNDS, fitted, without_held_out=True)
    for others in ([latency(512, "held-out")], [latency(512, "held-out", 3.0), latency(256, "held-out", 0.1)]):
        for figures in (fitted + others, others + fitted):
            fit = calibrate(ENGINE, BOUNDS, figures)
            assert (fit.parameters, fit.error, fit.error_as_good) == (alone.parameters, alone.error, alone.error_as_good)
    assert fit.held_out_error is not None and fit.held_out_error > 1


def test_the_same_call_has_the_same_result() -> None:
    figures = [latency(64, factor=1.01), latency(2048), latency(512, "held-out")]
    one, many = (calibrate(ENGINE, BOUNDS, figures, seed=3, threads=threads) for threads in (1, 4))
    assert (one.parameters, one.simulations) == (many.parameters, many.simulations)
    other = calibrate(ENGINE, BOUNDS, figures, seed=4)
    assert other.seed == 4 and other.values == pytest.approx(one.values, rel=1e-3)
    assert pickle.loads(pickle.dumps(one)) == one


def test_a_parameter_without_influence_is_told() -> None:
    """With one read at a time, the engine never waits for the time between two."""
    bounds = {PATH: (300.0, 900.0), "engine.gap_ns": (1.0, 100.0)}
    fit = calibrate(ENGINE, bounds, [latency(64), latency(2048), latency(512, "held-out")])
    gap = found(fit, "engine.gap_ns")
    assert not fit.is_determined and (gap.range_low, gap.range_high) == (1.0, 100.0)
    assert found(fit, PATH).is_constrained and fit.values[PATH] == pytest.approx(540.0, rel=1e-3)
    assert "engine.gap_ns is not constrained: from 1.0 to 100.0 the calibration figures are met as well" in fit.remarks


def test_parameters_that_make_up_for_each_other_are_told() -> None:
    """Each alone changes both figures. But a longer path with fewer nanoseconds for each byte is the same for reads of one size."""
    changes = {"engine.transfer_bytes": 2048}
    figures = [figure(changes=changes), figure(RATE, changes=changes), latency(64, "held-out")]
    fit = calibrate(ENGINE, BOUNDS, figures)
    assert fit.error < 1e-3 and not fit.is_determined
    path, copy = found(fit, PATH), found(fit, COPY)
    # What 10 to 500 ps for each of 2048 bytes leave of the path.
    assert (path.range_low, path.range_high) == (pytest.approx(300.0), pytest.approx(540 + 0.133 * 2048, rel=0.01))
    assert (copy.range_low, copy.range_high) == (10.0, pytest.approx(143 + 240 / 2.048, rel=0.02))
    assert f"{PATH} is constrained to one side only: values to its bound 300.0 meet the calibration figures as well" in fit.remarks


def test_noise_widens_the_range() -> None:
    def width(noise: float) -> float:
        figures = [Figure(one.value, one.read, "ns", "this test", one.changes, noise=noise) for one in (latency(64), latency(2048))]
        path = found(calibrate(ENGINE, BOUNDS, figures, without_held_out=True), PATH)
        return float(path.range_high - path.range_low)

    # Both are off by at most the noise, so the path is by little more.
    assert 2 * 20 < width(20.0) < 2 * 40
    assert width(2.0) == pytest.approx(width(20.0) / 10, rel=0.2)


def test_whole_numbers_stay_whole() -> None:
    text = ENGINE + TRANSLATED
    fields = ("iommu.entries", "iommu.ways")
    same: dict[str, Any] = {"iommu.entries": 126, "iommu.ways": 126}
    windows = [dict(same, **{"engine.window_bytes": window << 10}) for window in (256, 1024, 4096, 2048)]
    made = [figure(text=text, changes=window) for window in windows]
    figures = [
        Figure(one.value, one.read, "ns", "this test", {"engine.window_bytes": one.changes["engine.window_bytes"]}, split)
        for one, split in zip(made, ["calibration"] * 3 + ["held-out"])
    ]
    bounds: dict[Any, tuple[float, float]] = {fields: (8, 512), "iommu.walk_ns": (50.0, 500.0)}
    fit = calibrate(text, bounds, figures)
    entries = found(fit, "iommu.ways")
    assert (entries.value, type(entries.value), entries.name) == (126, int, "iommu.entries = iommu.ways")
    assert isinstance(entries.range_low, int) and 120 < entries.range_low <= 126 <= entries.range_high < 132
    assert fit.values == {**same, "iommu.walk_ns": pytest.approx(300.0, rel=1e-3)}


def test_a_search_that_ends_beside_the_best_whole_number_goes_on() -> None:
    numpy = pytest.importorskip("numpy")

    class Line:
        """A model that says one more than its parameter."""

        def at(self, points: list[dict[str, int]]) -> list[list[_predictions.Prediction]]:
            return [[_predictions.Prediction(point["n"] + 1.0)] for point in points]

    space = ParameterSpace({"n": (0, 100)})
    search = LeastSquares(cast(Any, Line()), space, [58.0])
    for begin in (0.5, 0.6):
        assert space.values(search._fit_integers(numpy.array([begin]))) == {"n": 57}


def test_a_bound_is_told() -> None:
    for bounds, at, bound in (((300.0, 500.0), "high", 500.0), ((600.0, 900.0), "low", 600.0)):
        fit = calibrate(ENGINE, {PATH: bounds}, [latency(64), latency(512, "held-out")])
        path = found(fit, PATH)
        assert (path.at_bound, path.value) == (at, pytest.approx(bound, rel=0.01))
        assert not path.is_constrained and not fit.is_determined
        assert f"{PATH} ended at its bound {bound}: the figures may be met better beyond it" in fit.remarks
    fit = calibrate(ENGINE, {"link.lanes": (1, 4)}, [latency(64), latency(512, "held-out")])
    lanes = found(fit, "link.lanes")
    assert (lanes.value, lanes.at_bound, lanes.range_low) == (4, "high", 4)


def test_points_whose_simulation_fails_are_avoided_and_counted() -> None:
    """No link has more than 32 lanes."""
    figures = [latency(64), latency(2048), latency(512, "held-out")]
    fit = calibrate(ENGINE, {"link.lanes": (1, 64), PATH: (300.0, 900.0)}, figures)
    assert fit.values == {"link.lanes": 8, PATH: pytest.approx(540.0, rel=1e-3)}
    assert 0 < fit.failed_simulations < fit.simulations
    assert all("expected 1 to 32" in reason for reason in fit.failure_reasons)
    assert any(f"{fit.failed_simulations} of {fit.simulations} simulations failed: " in remark for remark in fit.remarks)


def test_if_all_simulations_fail_it_is_an_error() -> None:
    held_out = latency(512, "held-out")
    with pytest.raises(errors.ExperimentError, match="no simulation has a result .*unknown field `nothing`"):
        calibrate(ENGINE, {"engine.nothing": (1.0, 2.0)}, [latency(64), held_out])
    with pytest.raises(errors.ExperimentError, match="link.lanes is [0-9]+; expected 1 to 32") as raised:
        calibrate(ENGINE, {"link.lanes": (33, 99)}, [latency(64), held_out])
    assert raised.value.expected == "1 to 32"


def test_a_mistake_in_a_held_out_figure_is_told_before_the_search() -> None:
    held_out = Figure(1.0, LATENCY, "ns", "this test", {"engine.transfer": 512}, "held-out")
    with pytest.raises(errors.ExperimentError, match="held-out figure .*: .*unknown field `transfer`"):
        calibrate(ENGINE, BOUNDS, [latency(64), latency(2048), held_out])
    with pytest.raises(ValueError, match="the document of the simulation has no engine.latency: expected one of what, "):
        calibrate(ENGINE, BOUNDS, [latency(64), latency(2048), Figure(1.0, "engine.latency", "ns", "this test", {}, "held-out")])


def test_a_held_out_figure_without_a_prediction_is_told() -> None:
    held_out = Figure(1.0, lambda _: math.nan, "ns", "this test", {}, "held-out", name="of nothing")
    fit = calibrate(ENGINE, BOUNDS, [latency(64), latency(2048), held_out])
    assert fit.figures[-1].predicted is fit.figures[-1].error is fit.held_out_error is None
    assert "the held-out figure of nothing has no prediction: of nothing reads nan; expected a finite number" in fit.remarks
    assert "of nothing: expected 1 ns, no prediction" in str(fit)


def test_a_function_may_read_the_document_and_a_figure_may_have_a_parameter_of_its_own() -> None:
    def excess(document: dict[str, Any]) -> float:
        return float(document["engine"]["latency_mean_ns"]["mean"]) - 500.0

    read = Figure(figure().value - 500.0, excess, "ns", "this test")
    own = figure(changes={PATH: 700.0, "engine.transfer_bytes": 2048})
    fit = calibrate(ENGINE, BOUNDS, [read, own], without_held_out=True)
    assert fit.values == pytest.approx({PATH: 540.0, COPY: 143.0}, rel=1e-3)
    assert [one.figure.label for one in fit.figures] == ["excess", f"{LATENCY} with {PATH}=700.0, engine.transfer_bytes=2048"]


def test_a_prediction_has_the_interval_of_its_seeds() -> None:
    text = ENGINE + TRANSLATED
    several: dict[str, Any] = {"engine.window_bytes": 1 << 20, "seeds": 3}
    fit = calibrate(text, {"iommu.walk_ns": (50.0, 500.0)}, [figure(text=text, changes=several)], without_held_out=True)
    (one,) = fit.figures
    assert one.predicted is not None and one.low is not None and one.high is not None
    assert one.low < one.predicted < one.high
    chance = (one.high - one.low) / 2 / one.figure.value
    assert fit.error_as_good == pytest.approx(max(chance, 1e-3), rel=0.1)


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({}, "there is no parameter"),
        ({**BOUNDS, "engine.gap_ns": (1.0, 100.0)}, "2 different calibration figures can't determine 3 parameters"),
        ({PATH: (900.0, 300.0)}, "expected a lower and an upper one"),
        ({PATH: (300.0, math.inf)}, "expected a lower and an upper one"),
        ({PATH: (False, True)}, "expected a lower and an upper one"),
        ({PATH: (300.0,)}, "expected a lower and an upper one"),
        ({PATH: (300.0, 900.0), (PATH, COPY): (1.0, 2.0)}, "engine.path_ns is in several parameters"),
        ({"engine.transfer_bytes": (8, 4096)}, "all calibration figures change engine.transfer_bytes"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(bounds: dict[Any, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        calibrate(ENGINE, bounds, [latency(64), latency(2048), latency(512, "held-out")])


def test_figures_that_test_nothing_are_refused() -> None:
    fitted = [latency(64), latency(2048)]
    with pytest.raises(ValueError, match="without_held_out=True"):
        calibrate(ENGINE, BOUNDS, fitted)
    with pytest.raises(ValueError, match="1 held-out figures and without_held_out is True"):
        calibrate(ENGINE, BOUNDS, [*fitted, latency(512, "held-out")], without_held_out=True)
    with pytest.raises(ValueError, match="is a calibration figure, too"):
        calibrate(ENGINE, BOUNDS, [*fitted, latency(64, "held-out", 1.1)])
    with pytest.raises(ValueError, match="is a calibration figure, too"):
        calibrate(ENGINE, BOUNDS, [*fitted, Figure(1.0, LATENCY, "ns", "this test", {"engine.transfer_bytes": 64.0}, "held-out")])
    # Two values of one figure determine no more than one does.
    with pytest.raises(ValueError, match="1 different calibration figures can't determine 2"):
        calibrate(ENGINE, BOUNDS, [latency(64), latency(64, factor=1.1), latency(512, "held-out")])
    with pytest.raises(ValueError, match="reads .*; expected a number"):
        calibrate(ENGINE, BOUNDS, [*fitted, Figure(1.0, "engine.limit", "a part", "this test", {}, "held-out")])


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"value": 0.0}, "apart from 0"),
        ({"value": math.nan}, "apart from 0"),
        ({"split": "validation"}, "expected one of calibration, held-out"),
        ({"noise": -1.0}, "the noise -1.0"),
        ({"evidence": " "}, "no evidence"),
        ({"unit": ""}, "no evidence or no unit"),
    ],
)
def test_a_figure_has_a_value_a_unit_and_evidence(changed: dict[str, Any], expected: str) -> None:
    fields = {"value": 1.0, "read": LATENCY, "unit": "ns", "evidence": "this test", **changed}
    with pytest.raises(ValueError, match=expected):
        Figure(**fields)


def test_results_are_frames() -> None:
    pytest.importorskip("pandas")
    fit = calibrate(ENGINE, BOUNDS, [latency(64), latency(2048), latency(512, "held-out")])
    frame = fit.frame()
    assert list(frame["split"]) == ["calibration", "calibration", "held-out"]
    assert list(frame["error"]) == [one.error for one in fit.figures]
    parameters = fit.parameter_frame()
    assert list(parameters["parameter"]) == [PATH, COPY] and list(parameters["is_constrained"]) == [True, True]


def test_without_scipy_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    monkeypatch.delitem(sys.modules, "scipy.optimize", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'iotoll\[calibrate\]'"):
        calibrate(ENGINE, BOUNDS, [latency(64), latency(2048)], without_held_out=True)
