"""Log losses to accelerate's trackers during training, in the first process."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

from tasc.data.foreign import one_line
from tasc.errors import InputError, UnavailableError
from tasc.files.resume import output_of
from tasc.training import processes
from tasc.training.options import Tracker, TrainingOptions

_PROJECT = "tasc"  # by which Weights & Biases and MLflow group runs


class Log(Protocol):
    """Called with measurements after each optimizer step and each evaluation."""

    def __call__(self, figures: Mapping[str, float], step: int) -> None: ...


def nowhere(figures: Mapping[str, float], step: int) -> None:
    """Log nothing."""


def check(names: Sequence[Tracker]) -> None:
    """Raise UnavailableError if the package of a tracker is not installed."""
    if not names:
        return
    from accelerate.tracking import get_available_trackers

    installed = {str(tracker) for tracker in get_available_trackers()}
    for name in names:
        if name not in installed:
            raise UnavailableError(
                f"--log-to {name} needs the package {name}, which is not installed: install it "
                f"with pip install {name}"
            )


@contextmanager
def opened(options: TrainingOptions, work: Path) -> Iterator[Log]:
    """Open the trackers in ``options`` for the block, in the first process only.

    A run is named after the output that ``work`` belongs to, or the command. Log files are outside
    the output, which appears only when it is complete.

    Raises:
        InputError: the log folder is in the output.
        UnavailableError: a tracker failed.
    """
    if not options.log_to or not processes.group().first:
        yield nowhere
        return
    output = output_of(work)
    run = output.name if output else options.command
    folder = Path(options.log_dir)
    if output and (folder / run).resolve().is_relative_to(output.resolve()):
        raise InputError(f"the log folder is in the output {output}: choose another --log-dir")
    with ExitStack() as stack:
        trackers = {}
        for name in dict.fromkeys(options.log_to):
            trackers[name] = stack.enter_context(_started(name, run, folder, options))

        def log(figures: Mapping[str, float], step: int) -> None:
            for name, tracker in trackers.items():
                with _one_line_errors(name):
                    tracker.log(dict(figures), step=step)

        yield log


@contextmanager
def _started(name: Tracker, run: str, folder: Path, options: TrainingOptions) -> Iterator[Any]:
    """Start one of accelerate's trackers and give it the options."""
    from accelerate import tracking

    plain = (bool, int, float, str)  # types that all trackers accept
    settings = {k: v if isinstance(v, plain) else str(v) for k, v in options.training.items()}
    with _one_line_errors(name):
        folder.mkdir(parents=True, exist_ok=True)
        if name == "tensorboard":
            tracker = tracking.TensorBoardTracker(run, logging_dir=folder)
        elif name == "wandb":
            tracker = tracking.WandBTracker(_PROJECT, name=run, dir=folder)
        else:
            tracker = tracking.MLflowTracker(_PROJECT, run_name=run)
        tracker.start()
    try:
        with _one_line_errors(name):
            tracker.store_init_configuration(settings)
        yield tracker
    finally:
        with _one_line_errors(name):
            tracker.finish()


@contextmanager
def _one_line_errors(name: Tracker) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise UnavailableError(
            f"--log-to {name}: {one_line(error)}: fix the cause, and continue with --resume, or "
            f"leave out --log-to {name}"
        ) from error
