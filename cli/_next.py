"""The command to run next, on the same data."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tasc.analysis.options import AnalyzeOptions
    from tasc.benchmark.results.analysis import AnalysisResults
    from tasc.options.command import StepOptions
    from tasc.training.options import FinetuneOptions
    from tasc.vocab.report import AugmentReport
    from tasc.vocab.search.options import AugmentOptions

_MODEL = "MODEL"  # for the user to replace: only a tokenizer is known


def next_command(options: Any, folder: Path, report: Any) -> str:  # noqa: ANN401
    """Return the command line that continues from an artefact; empty if there is none."""
    match options.command:
        case "analyze":
            return _after_analyze(options, report)
        case "augment":
            return _after_augment(options, folder, report)
        case "finetune":
            return _after_finetune(options, folder)
    return ""


def _after_analyze(options: "AnalyzeOptions", report: "AnalysisResults") -> str:
    """Follow the verdict. Nothing follows "neither" and "too little data"."""
    choice, tokenizer = report.verdict.choice, options.tokenizer or options.model
    model = options.model or _model_of(options.tokenizer)
    if choice in ("neither", "too little data"):
        return ""
    if tokenizer is None:
        return _line("analyze", options, "--tokenizer", _MODEL)
    if not _has_test(options):
        return _line("init", options, "--model", model)
    if choice == "TASC-spec":
        assert report.drafting is not None
        methods = ("--method", "ar", "--method", report.drafting.best.method)
        return _line("bench", options, "--model", model, *methods)
    return _line("augment", options, "--tokenizer", tokenizer, "--new-tokens", "auto")


def _after_augment(options: "AugmentOptions", folder: Path, report: "AugmentReport") -> str:
    """Fine-tune the tokenizer's model with the new tokens, or compare it with the smaller one."""
    if not report.added:
        models = ("--model", options.tokenizer, "--model", str(folder))
        measured = (folder / "model").is_dir() and _has_test(options)
        return _line("bench", options, *models) if measured else ""
    model = _model_of(options.tokenizer)
    return _line("finetune", options, "--model", model, "--augmented", str(folder), "--merge")


def _after_finetune(options: "FinetuneOptions", folder: Path) -> str:
    """Measure the trained model, if there is a plain one, or the draft head."""
    if not _has_test(options):
        return ""
    if options.draft_head:
        head = ("--draft-head", str(folder), "--method", "ar", "--method", "eagle")
        return _line("bench", options, "--model", options.model, *head)
    if not options.merge:
        return ""
    methods = ("--method", "ar", "--method", "tasc-spec")
    return _line("bench", options, "--model", str(folder), *methods)


def _line(command: str, options: "StepOptions", *words: str) -> str:
    """Return a command line with the same data, columns and template."""
    written, named = options.source.written, list[str]()
    for field in sorted(written.keys() - {"path"}):
        if written[field] is not None:
            named += [f"--{field.replace('_', '-')}", str(written[field]).replace("\n", "\\n")]
    return shlex.join(["tasc", command, written["path"], *words, *named])


def _model_of(tokenizer: str | None) -> str:
    """Return a tokenizer if it comes with a model, as most on the Hub do; else MODEL."""
    folder = Path(tokenizer or "")
    has_model = not folder.exists() or (folder / "config.json").is_file()
    return tokenizer if tokenizer and has_model else _MODEL


def _has_test(options: "StepOptions") -> bool:
    """Return whether local data have a test split. Data on the Hub are assumed to have one."""
    from tasc.data.corpus import splits
    from tasc.data.local import is_local

    source = options.source.source()
    return not is_local(source.path) or "test" in splits(source)
