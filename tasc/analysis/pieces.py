"""Count a split in pieces that an executor distributes."""

from pathlib import Path

from tasc.analysis.counted import Counted
from tasc.analysis.counted_files import load_counted, save_counted
from tasc.analysis.options import AnalyzeOptions
from tasc.analysis.scan import count_rows
from tasc.data.stream import Stream, pieces
from tasc.execution.kept import Files, keep, read_files
from tasc.files.scratch import scratch
from tasc.progress import Progress, silent
from tasc.tokenizer.loaded import LoadedTokenizer


def count_pieces(
    stream: Stream,
    tokenizer: LoadedTokenizer | None,
    options: AnalyzeOptions,
    work: Path,
    *,
    resume: bool,
    progress: Progress = silent,
) -> list[Counted]:
    """Count a split in pieces, whose counts stay below ``work``; return them in order."""
    done: dict[int, Path] = {}
    folder = work / "counted"
    with options.start(tokenizer) as executor:
        for number, made in keep(executor, count_piece, pieces(stream), folder, resume=resume):
            done[number] = made
            progress("count pieces", len(done), 0)
    return [load_counted(done[number]) for number in sorted(done)]


def count_piece(tokenizer: LoadedTokenizer | None, piece: Stream) -> Files:
    """Count a piece in a worker; return the files of its counts."""
    with scratch() as folder:
        counted, made = folder / "counted", folder / "made"
        counted.mkdir()
        made.mkdir()
        save_counted(count_rows(piece, tokenizer, counted), made)
        return read_files(made)
