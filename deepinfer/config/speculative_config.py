"""Options of speculative decoding: how many drafts, how they are accepted, how sure the draft model really is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from os import PathLike, fsdecode
from typing import TYPE_CHECKING, Any, Literal

from deepinfer.config.cost_curves import CostCurves
from deepinfer.config.field_error import field_error
from deepinfer.config.field_reader import is_finite_number
from deepinfer.config.strict_json import read_json_object
from deepinfer.errors import ConfigError
from deepinfer.logging import get_logger
from deepinfer.shown_value import shown_value

if TYPE_CHECKING:
    from deepinfer.config.model_config import DeepSeekV41Config

logger = get_logger(__name__)

CurveName = Literal["measure", "guess", "auto"]

MAX_DRAFTS = 32
_CURVE_NAMES = ("measure", "guess", "auto")
_CURVES_SHOWN = ", ".join(map(repr, _CURVE_NAMES))
_CORRECTED = ("measure", "guess")
_MIN_TEMPERATURE = 1e-5
_CALIBRATION_KEYS = ("num_drafts", "temperatures", "varlen")


@dataclass(frozen=True, slots=True)
class SpeculativeConfig:
    """Speculative group of EngineConfig; made by `parse`, made definite by `resolve`.

    Attributes:
        enabled: None: when the checkpoint has draft stages; False: never.
        num_drafts: drafts per sequence and step, 1 .. 32; None: the block size the draft model was trained with.
        varlen: how many drafts are verified follows from a cost curve. "auto": if there is a `cost_curve`; True: with a
            measured one unless `cost_curve` names another; False: all drafts are verified.
        acceptance: "coupled": a draft counts when it equals the token that the sampler draws, so tokens are those
            without drafts. "rejection": rejection sampling, which accepts more drafts at temperatures above 0 and gives
            tokens of the same distribution. None: coupled where results do not depend on the batch, else rejection.
        temperatures: divisor of the confidence scores, one for all drafts or one per draft; None: 1.
        cost_curve: "measure": timed when the engine starts, a few seconds, and corrected while it runs; "guess": one
            that comes with the library, of a CPU's shape, scaled and corrected while the engine runs; "auto": the guess
            where it is of use (`resolve_curve`), else None; or a curve that is taken at its word; None: see `varlen`.
        cost_cache_dir: where a measured curve is kept for the next start; None: DEEPINFER_DECODE_PERF_CACHE_DIR, else
            nowhere.
        cost_cache_seconds: how long it is good; None: DEEPINFER_DECODE_PERF_CACHE_TTL_SEC, else an hour.
        report_confidences: whether `CompletionOutput.confidence` is filled.
    """

    enabled: bool | None = None
    num_drafts: int | None = None
    varlen: bool | str = "auto"
    acceptance: str | None = None
    temperatures: tuple[float, ...] | None = None
    cost_curve: CostCurves | CurveName | None = None
    cost_cache_dir: str | None = None
    cost_cache_seconds: float | None = None
    report_confidences: bool = False

    def __post_init__(self) -> None:
        if self.num_drafts is not None and (type(self.num_drafts) is not int or not 1 <= self.num_drafts <= MAX_DRAFTS):
            raise field_error("speculative.num_drafts", self.num_drafts, f"an integer from 1 to {MAX_DRAFTS}")
        if type(self.varlen) is not bool and not _is_word(self.varlen, "auto"):
            raise field_error("speculative.varlen", self.varlen, '"auto", True or False')
        if self.acceptance is not None and not _is_word(self.acceptance, "coupled", "rejection"):
            raise field_error("speculative.acceptance", self.acceptance, "None, 'coupled' or 'rejection'")
        if type(self.report_confidences) is not bool:
            raise field_error("speculative.report_confidences", self.report_confidences, "True or False")
        for value in self.temperatures or ():
            if not is_finite_number(value) or value <= 0:
                raise field_error("speculative.temperatures", value, "positive numbers")
        seconds = self.cost_cache_seconds
        if seconds is not None and not (is_finite_number(seconds) and seconds >= 0):
            raise field_error("speculative.cost_cache_seconds", seconds, "None or a number >= 0")
        if self.cost_cache_dir is not None and not (isinstance(self.cost_cache_dir, str) and self.cost_cache_dir):
            raise field_error("speculative.cost_cache_dir", self.cost_cache_dir, "None or a directory")
        curve = self.cost_curve
        if curve is not None and not isinstance(curve, CostCurves) and not _is_word(curve, *_CURVE_NAMES):
            raise field_error("speculative.cost_curve", curve, f"None, {_CURVES_SHOWN}, a path or a mapping")

    @property
    def curve_source(self) -> CostCurves | Literal["measure", "guess"] | None:
        """Where the cost curve comes from; None: every draft is verified. Of a config that is resolved."""
        if self.varlen is False or self.cost_curve == "auto":
            return None
        return "measure" if self.cost_curve is None and self.varlen is True else self.cost_curve

    @property
    def is_curve_corrected(self) -> bool:
        """Whether what steps take corrects the curve, so that they have to be timed."""
        return self.curve_source in _CORRECTED

    @classmethod
    def parse(cls, value: Any) -> SpeculativeConfig:
        """From None, "off", a mapping of the fields, or the path of a calibration file (JSON with the fields)."""
        if value is None:
            return cls(cost_curve="auto")
        if isinstance(value, str) and value == "off":
            return cls(enabled=False)
        if isinstance(value, (str, PathLike)):
            return cls.parse(_read_calibration(fsdecode(value)))
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            raise field_error("speculative", value, 'None, "off", a mapping or the path of a calibration file')
        known = {item.name for item in fields(cls)} - {"enabled"}
        options = dict(value)
        unknown = [name for name in options if name not in known]
        if unknown:
            wrong, names = shown_value(unknown[0]), ", ".join(sorted(known))
            raise ConfigError(f"speculative: unknown option {wrong}; expected {names}")
        if type(options.get("num_drafts")) is int and options["num_drafts"] == 0:
            return cls(enabled=False)
        if options.get("temperatures") is not None:
            options["temperatures"] = _as_tuple(options["temperatures"])
        options["cost_curve"] = _as_curve(options.get("cost_curve"))
        if isinstance(options.get("cost_cache_dir"), PathLike):
            options["cost_cache_dir"] = fsdecode(options["cost_cache_dir"])
        return cls(**options)

    def drafts_for(self, model: DeepSeekV41Config) -> int:
        """Drafts per step for a model: 0 when off or when the checkpoint has no draft stages."""
        if self.enabled is False:
            return 0
        if not model.num_nextn_predict_layers:
            if self.num_drafts is not None:
                logger.warning("speculative.num_drafts = %d, but the checkpoint has no draft stages", self.num_drafts)
            return 0
        number = self.num_drafts or min(model.dspark_block_size, MAX_DRAFTS)
        if number != model.dspark_block_size:
            logger.warning(
                "speculative.num_drafts = %d, but the draft model was trained with blocks of %d: drafts will be worse",
                number,
                model.dspark_block_size,
            )
        if self.temperatures is not None and len(self.temperatures) not in (1, number):
            expectation = f"one number, or one per draft ({number})"
            raise field_error("speculative.temperatures", self.temperatures, expectation)
        return number

    def resolve_acceptance(self, batch_invariant: bool) -> str:
        """The acceptance rule in force.

        Raises ConfigError for rejection sampling in a batch-invariant engine: how many drafts a step has follows from
        the batch, and the tokens that rejection sampling draws from the number of drafts.
        """
        if batch_invariant and self.acceptance == "rejection":
            raise ConfigError(
                "speculative.acceptance = 'rejection' with batch_invariant = True: the tokens of rejection sampling "
                "depend on how many drafts a step verifies, and that on the batch; use acceptance='coupled', or "
                "batch_invariant=False (True is the default on a CPU)"
            )
        return self.acceptance or ("coupled" if batch_invariant else "rejection")

    def resolve_curve(self, backend: str, acceptance: str) -> CostCurves | CurveName | None:
        """The cost curve in force: of "auto" the guess on backend "cpu", where all drafts seldom pay.

        Not with rejection sampling: its tokens would depend on the times that correct the curve.
        """
        if self.cost_curve != "auto":
            return self.cost_curve
        return "guess" if backend == "cpu" and acceptance == "coupled" else None

    def confidence_temperatures(self, num_drafts: int) -> tuple[float, ...]:
        """One temperature per draft position, at least 1e-5 each."""
        given = self.temperatures or (1.0,)
        values = given * num_drafts if len(given) == 1 else given
        return tuple(max(float(value), _MIN_TEMPERATURE) for value in values)


def _is_word(value: Any, *words: str) -> bool:
    return isinstance(value, str) and value in words


def _as_tuple(value: Any) -> tuple[Any, ...]:
    if is_finite_number(value):
        return (value,)
    if isinstance(value, (list, tuple)) and value:
        return tuple(value)
    raise field_error("speculative.temperatures", value, "a number or a list of numbers")


def _as_curve(value: Any) -> Any:
    if isinstance(value, Mapping):
        return CostCurves.parse(value, "speculative.cost_curve")
    if isinstance(value, PathLike) or (isinstance(value, str) and value not in _CURVE_NAMES):
        try:
            return CostCurves.read(fsdecode(value))
        except ConfigError as error:
            raise ConfigError(f"speculative.cost_curve: {error}") from error
    return value


def _read_calibration(path: str) -> Mapping[str, Any]:
    try:
        values = read_json_object(path)
    except ConfigError as error:
        expectation = 'expected None, "off", a mapping or the path of a calibration file'
        raise ConfigError(f"speculative: {error}; {expectation}") from error
    return {key: item for key, item in values.items() if key in _CALIBRATION_KEYS}
