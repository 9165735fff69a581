"""Where the figures of a training go while it runs: accelerate's trackers, in the first process."""

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
    """Called after each optimizer step and each evaluation."""

    def __call__(self, figures: Mapping[str, float], step: int) -> None:
        """Take what was measured; ``step`` steps are done."""


def nowhere(figures: Mapping[str, float], step: int) -> None:
    """Log nothing."""


def check(names: Sequence[Tracker]) -> None:
    """Raise UnavailableError where the package of a tracker is not installed."""
    if not names:
        return
    from accelerate.tracking import get_available_trackers

    there = {str(tracker) for tracker in get_available_trackers()}
    for name in (name for name in names if name not in there):
        raise UnavailableError(
            f"--log-to {name} needs the package {name}, which is not installed: install it with "
            f"pip install {name}"
        )


@contextmanager
def opened(options: TrainingOptions, work: Path) -> Iterator[Log]:
    """Open what ``options`` log to, and close it afterwards; nothing but in the first process.

    A run is named as its output, which ``work`` belongs to, or as the command. What files it
    leaves lie beside the output: that appears whole, at the end.

    Raises:
        InputError: logs would lie in the output.
        UnavailableError: a tracker does not work.
    """
    if not options.log_to or not processes.group().first:
        yield nowhere
        return
    output = output_of(work)
    run = output.name if output else options.command
    folder = Path(options.log_dir)
    if output and (folder / run).resolve().is_relative_to(output.resolve()):
        raise InputError(f"logs would lie in the output, {output}: name another --log-dir")
    with ExitStack() as stack:
        trackers = {}
        for name in dict.fromkeys(options.log_to):
            trackers[name] = stack.enter_context(_started(name, run, folder, options))

        def log(figures: Mapping[str, float], step: int) -> None:
            for name, tracker in trackers.items():
                with _told(name):
                    tracker.log(dict(figures), step=step)

        yield log


@contextmanager
def _started(name: Tracker, run: str, folder: Path, options: TrainingOptions) -> Iterator[Any]:
    """Yield one of accelerate's trackers, started, that knows the options."""
    from accelerate import tracking

    plain = (bool, int, float, str)  # what all of them take
    settings = {k: v if isinstance(v, plain) else str(v) for k, v in options.training.items()}
    with _told(name):
        folder.mkdir(parents=True, exist_ok=True)
        if name == "tensorboard":
            tracker = tracking.TensorBoardTracker(run, logging_dir=folder)
        elif name == "wandb":
            tracker = tracking.WandBTracker(_PROJECT, name=run, dir=folder)
        else:
            tracker = tracking.MLflowTracker(_PROJECT, run_name=run)
        tracker.start()
    try:
        with _told(name):
            tracker.store_init_configuration(settings)
        yield tracker
    finally:
        with _told(name):
            tracker.finish()


@contextmanager
def _told(name: Tracker) -> Iterator[None]:
    """Make one line of whatever a tracker raises."""
    try:
        yield
    except Exception as error:
        raise UnavailableError(
            f"--log-to {name}: {one_line(error)}: see to it, and go on with --resume, or leave out "
            f"--log-to {name}"
        ) from error
