"""Load pipelines and transforms from Python files."""

import importlib.util
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Final, TypeVar

from flintmq.base.errors import ConfigurationError
from flintmq.spark.pipelines.definition import Flow, Pipeline, Table, Transform

Make = Callable[[], Iterable[Flow]]
T = TypeVar("T")
_PREFIX: Final = "flintmq_pipeline_"


class PipelineFunction:
    """A function marked with @pipeline. A call returns the pipeline, with the flows that the function returns."""

    def __init__(self, make: Make, pipeline: Callable[[tuple[Flow, ...], str], Pipeline]) -> None:
        self.__name__ = make.__name__
        self._make = make
        self._pipeline = pipeline

    def __call__(self) -> Pipeline:
        return self._pipeline(tuple(self._make()), self._make.__code__.co_filename)


def pipeline(
    name: str,
    *,
    checkpoints: str,
    broker: Mapping[str, str] | None = None,
    tables: Mapping[str, Table] | None = None,
    spark: Mapping[str, str] | None = None,
) -> Callable[[Make], PipelineFunction]:
    """Mark a function that returns or yields flows: `flintmq pipeline run file.py` finds it.

    A relative path of `checkpoints` is relative to the directory in which the command runs.
    """

    def mark(make: Make) -> PipelineFunction:
        def made(flows: tuple[Flow, ...], path: str) -> Pipeline:
            place = checkpoints if "://" in checkpoints else str(Path(checkpoints).expanduser().resolve())
            description = (make.__doc__ or "").strip()
            return Pipeline(name, flows, place, broker or {}, tables or {}, spark or {}, description, path)

        return PipelineFunction(make, made)

    return mark


def load_python(path: Path, function: str) -> Pipeline:
    """The pipeline of a file: that of the function with this name, or the only one for "".

    Raises ConfigurationError.
    """
    module = _module(path)
    found = {name: value for name, value in vars(module).items() if isinstance(value, PipelineFunction)}
    if not found:
        raise ConfigurationError(f"{path}: there is no function marked with @pipeline")
    if function and function not in found:
        raise ConfigurationError(f"{path}: there is no @pipeline {function}: known are {', '.join(found)}")
    if not function and len(found) > 1:
        raise ConfigurationError(
            f"{path}: there are several pipelines, {', '.join(found)}: say which, as {path}:{next(iter(found))}"
        )
    made = found[function or next(iter(found))]
    return _call_user_code(path, made)


def load_transform(text: str, base: Path) -> Transform:
    """The function that `file.py:function` names, relative to the directory `base`. Raises ConfigurationError."""
    name, colon, function = text.rpartition(":")
    if not colon or not name.endswith(".py"):
        raise ConfigurationError(f"{text!r} is not a transform: write file.py:function")
    found = getattr(_module(base / name), function, None)
    if not callable(found):
        raise ConfigurationError(f"there is no function {function} in {base / name}")
    transform: Transform = found
    return transform


def _module(path: Path) -> ModuleType:
    path = path.resolve()
    name = _PREFIX + path.stem
    if not path.is_file():
        raise ConfigurationError(f"{path} cannot be read: there is no such file")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    loader, module = spec.loader, importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    _call_user_code(path, lambda: loader.exec_module(module))
    _send_by_value(module)
    return module


def _call_user_code(path: Path, run: Callable[[], T]) -> T:
    """Call code of the user. Raises its errors as ConfigurationError with the file and the line."""
    try:
        return run()
    except ConfigurationError:
        raise
    except SyntaxError as error:
        raise ConfigurationError(f"{error.filename}:{error.lineno}: {error.msg}") from error
    except Exception as error:
        raise ConfigurationError(f"{path}:{_line_in(path, error)}: {type(error).__name__}: {error}") from error


def _line_in(path: Path, error: Exception) -> int:
    """The last line of this file in the error's traceback."""
    line = 0
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _send_by_value(module: ModuleType) -> None:
    """Pickle functions of the module by value, because executors cannot import a file from the command line."""
    try:
        from pyspark.cloudpickle import register_pickle_by_value  # noqa: PLC0415 - a definition is read without PySpark
    except ImportError:
        # The command that runs the pipeline reports that PySpark is missing.
        return
    register_pickle_by_value(module)  # type: ignore[no-untyped-call]
