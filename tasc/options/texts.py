"""The data splits that a command reads."""

import math
from dataclasses import dataclass

from tasc.data.corpus import Corpus, load, splits
from tasc.data.source import Source
from tasc.data.stream import Stream, open_stream
from tasc.data.table import choose_split
from tasc.errors import InputError
from tasc.options.command import StepOptions

MAIN = "main"
SHARE = 1 / 4  # of --limit: the most examples of another split that is read in part
_MOST_NAMES = 8  # columns in a line


@dataclass(frozen=True)
class Texts:
    """The splits that a command reads, if they exist."""

    corpora: dict[str, Corpus]  # in memory, by MAIN or the field of the other split
    stream: Stream | None = None  # the main split of a command that streams it
    chat_notes: tuple[str, ...] = ()  # lines on what the chat template does to the chats

    @property
    def corpus(self) -> Corpus:
        return self.corpora[MAIN]

    @property
    def recognised(self) -> str:
        """The format recognised by the data's columns, in a line; empty if columns were given."""
        read = self.stream or self.corpora.get(MAIN)
        if read is None or not read.recognised:
            return ""
        columns = " and ".join(dict.fromkeys((read.source.input_column, read.source.output_column)))
        return (
            f"{read.source.path}: read as {read.recognised} ({columns}); to read other columns, "
            "pass --input-column and --output-column"
        )

    @property
    def unread_marks(self) -> str:
        """The columns that may be marks of learnt rows and are not read, in a line, or nothing."""
        read = self.stream or self.corpora.get(MAIN)
        if read is None or read.source.chat or not read.source.mark_columns:
            return ""
        names, more = read.source.mark_columns[:_MOST_NAMES], read.source.mark_columns[_MOST_NAMES:]
        listed = ", ".join(map(repr, names)) + (f" and {len(more)} more" if more else "")
        return (
            f"{read.source.path}: marks of rows are read beside chats only, so every row is learnt "
            f"whatever these columns contain: {listed}"
        )

    @property
    def left_out(self) -> str:
        """The numbers of examples without an output, in a line; empty if there are none.

        A streamed split is not included: its numbers are known only after the run.
        """
        read = {corpus.split: corpus for corpus in self.corpora.values() if corpus.dropped}
        if not read:
            return ""
        counts = " and ".join(f"{corpus.dropped:,} of {name}" for name, corpus in read.items())
        source = next(iter(read.values())).source
        what = "examples with an empty output"
        if source.chat:
            what = "answers without text, and chats without an answer to learn"
        return f"{source.path}: skipped {what}: {counts}"

    @property
    def fingerprint(self) -> str:
        read = {name: corpus.fingerprint for name, corpus in self.corpora.items()}
        if self.stream:
            read = {MAIN: self.stream.fingerprint, **read}
        return " ".join(f"{name}={value}" for name, value in read.items())


def read_texts(options: StepOptions) -> Texts:
    """Read the splits of ``options``. ``limit`` bounds the main one, and others read in part."""
    if options.data is None:
        return Texts({})
    source, corpora, stream = options.data.source(), {}, None
    spec = options.spec
    if not spec.streamed:
        corpora[MAIN] = load(source, options.split, limit=options.limit, seed=options.seed)
    for name, other in spec.other_splits.items():
        split = getattr(options, name)
        main = None if other.may_be_main else options.split
        if split is not None and (options.must_exist(name) or _exists(source, split, main)):
            share = math.ceil(SHARE * options.limit) if options.limit else other.most
            most = other.most and share and min(other.most, share)
            corpora[name] = load(source, split, limit=most, seed=options.seed)
    if spec.streamed:
        stream = open_stream(source, options.split, limit=options.limit, seed=options.seed)
    return Texts(corpora, stream)


def _exists(source: Source, split: str, main: str | None) -> bool:
    existing = splits(source)
    try:
        chosen = choose_split(source.path, existing, split)
    except InputError:
        return False
    return main is None or chosen != choose_split(source.path, existing, main)
