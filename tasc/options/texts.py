"""The texts a command works on: the splits that its options name."""

from dataclasses import dataclass

from tasc.data.corpus import Corpus, load, splits
from tasc.data.source import Source
from tasc.data.stream import Stream, open_stream, shard
from tasc.data.table import choose_split
from tasc.errors import InputError
from tasc.options.command import StepOptions

MAIN = "main"


@dataclass(frozen=True)
class Texts:
    """Splits that exist, in memory, by the field that names them; and the main one in passing."""

    corpora: dict[str, Corpus]
    stream: Stream | None = None  # the main split, where it is read in passing

    @property
    def corpus(self) -> Corpus:
        """The split the command works on."""
        return self.corpora[MAIN]

    @property
    def recognised(self) -> str:
        """How the columns are read that nobody named, in a line; empty where they were named."""
        read = self.stream or self.corpora.get(MAIN)
        if read is None or not read.recognised:
            return ""
        columns = " and ".join(dict.fromkeys((read.source.input_column, read.source.output_column)))
        return (
            f"{read.source.path}: read as {read.recognised} ({columns}); --input-column and "
            "--output-column name other columns"
        )

    @property
    def left_out(self) -> str:
        """How many examples are left out, in a line; empty where none are.

        Nothing is known of a main split that is read in passing: its result tells the number.
        """
        read = {corpus.split: corpus for corpus in self.corpora.values() if corpus.dropped}
        if not read:
            return ""
        counts = " and ".join(f"{corpus.dropped:,} of {name}" for name, corpus in read.items())
        path = next(iter(read.values())).source.path
        return f"{path}: examples with an empty output are left out: {counts}"

    @property
    def fingerprint(self) -> str:
        """What all of these hold."""
        read = {name: corpus.fingerprint for name, corpus in self.corpora.items()}
        if self.stream:
            read = {MAIN: self.stream.fingerprint, **read}
        return " ".join(f"{name}={held}" for name, held in read.items())


def read_texts(options: StepOptions) -> Texts:
    """Read every split that ``options`` name; none without data. The main one alone is limited."""
    if options.data is None:
        return Texts({})
    source, corpora, stream = options.data.source(), {}, None
    spec = options.spec
    if not spec.streamed:
        corpora[MAIN] = load(source, options.split, limit=options.limit, seed=options.seed)
    for name, other in spec.other_splits.items():
        split = getattr(options, name)
        if split is None:
            continue
        main = None if other.may_be_main else options.split
        if options.must_exist(name) or _exists(source, split, main):
            corpora[name] = load(source, split, limit=other.most, seed=options.seed)
    if spec.streamed:
        stream = open_stream(source, options.split, limit=options.limit, seed=options.seed)
        if options.part:
            return Texts({}, shard(stream, *options.part))
    return Texts(corpora, stream)


def _exists(source: Source, split: str, main: str | None) -> bool:
    """Whether a default split exists and, with ``main``, is a different one."""
    existing = splits(source)
    try:
        found = choose_split(source.path, existing, split)
    except InputError:
        return False
    return main is None or found != choose_split(source.path, existing, main)
