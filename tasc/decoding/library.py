"""``tasc.generate``: speculative decoding of a transformers model."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
from tokenizers import Tokenizer
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tasc._native import NgramIndex
from tasc.decoding.adaptive import Adaptive, AdaptiveDrafter
from tasc.decoding.core.generation import PhaseTimer
from tasc.decoding.core.grammar import Grammar
from tasc.decoding.core.processors import Processor
from tasc.decoding.core.protocols import Verifier
from tasc.decoding.core.resources import DraftSource, end_ids
from tasc.decoding.core.sampling import Sampling
from tasc.decoding.core.settings import processors_of, settings_of
from tasc.decoding.core.stopping import StopStrings
from tasc.decoding.decode import Generation, Request, Timeline, TokenCallback, generate_all
from tasc.decoding.drafters import Factory, Method, Resources, default_method, parse
from tasc.decoding.verify import greedy, verifier
from tasc.errors import InputError
from tasc.models.cost import measured_cost
from tasc.models.folder.generation import APPLIED, IGNORED, SAMPLING, GenerationSettings
from tasc.models.inputs import common_prefix
from tasc.models.target import Target
from tasc.models.targets.borrowed import restore_model, target_from_model
from tasc.models.targets.fastest import Graphs
from tasc.options.constraint import read_constraint
from tasc.tokenizer.loaded import LoadedTokenizer
from tasc.tokenizer.output_text import OutputText
from tasc.tokenizer.token_bytes import token_speller

_REMEDIES = {"max_length": "max_new_tokens", "stop_strings": "stop"}
Prompt = str | Sequence[int] | np.ndarray
Known = Sequence[Prompt] | NgramIndex | None  # outputs of the task, to draft from


@dataclass(frozen=True)
class Completion:
    """The output of one prompt.

    ``text`` ends before the end token or a stop string. Special tokens inside it belong to it.
    """

    text: str
    generation: Generation

    @property
    def tokens(self) -> np.ndarray:
        """The tokens (T,) int32, including the end token and any stop string."""
        return self.generation.tokens

    @property
    def timeline(self) -> Timeline:
        """Seconds of the prefill, and of the draft, forward, verify and commit of every step."""
        return self.generation.timeline


class GenerationKeywords(TypedDict, total=False):
    """Settings of transformers' GenerationConfig that change logits.

    Each replaces the value in the model's generation_config.json, which applies by default.
    """

    repetition_penalty: float | None
    no_repeat_ngram_size: int | None
    encoder_repetition_penalty: float | None
    encoder_no_repeat_ngram_size: int | None
    bad_words_ids: list[list[int]] | None
    sequence_bias: list[Any] | dict[tuple[int, ...], float] | None
    suppress_tokens: list[int] | None
    begin_suppress_tokens: list[int] | None
    forced_bos_token_id: int | None
    forced_eos_token_id: int | list[int] | None
    min_length: int | None
    min_new_tokens: int | None
    exponential_decay_length_penalty: tuple[int, float] | None
    remove_invalid_values: bool | None
    renormalize_logits: bool | None


class GenerateOptions(GenerationKeywords, total=False):
    """Keyword arguments of ``generate``, besides those of GenerationKeywords.

    Attributes:
        max_new_tokens: maximum number of tokens per completion.
        sampling: how to sample; None is greedy. Each prompt has its own random numbers.
        verify: the verifier for sampling: "sampled" for any drafter, where the output depends only
            on the seed; "rejection" and "multi-branch" for drafters with probabilities.
        stop: strings that end a completion, as ``stop_strings`` in transformers.
        processors: logits processors of transformers, applied before verification and after those
            of the model's settings, of which they replace the ones of the same class.
        on_tokens: function called with the tokens (k,) int32 of each step once they are committed.
            A batch needs one function per prompt.
        batch_size: number of prompts decoded at a time. Outputs do not depend on it, except for
            rounding. Processors are shared, so in a batch they must be stateless.
        graphs: "auto" captures steps in CUDA graphs if the model is on a CUDA device. The first
            step of each shape takes longer, so it pays for many prompts.
        draft_model: draft model of slem, tli, slrs, union and standard; without it they draft with
            n-grams of the corpus' bytes, or of its tokens if there is a ``draft_tokenizer``.
        draft_tokenizer: the draft model's tokenizer.
        draft_head: folder of a trained head, for "mix", "eagle" and the other head methods.
        token_counts: folder of ``tasc analyze``; fr-spec and microspec use its counts.
        schema: JSON Schema, as a file or a dict, that every completion satisfies.
        grammar: file of a grammar in Lark that every completion satisfies.
        regex: regular expression that every completion matches.
    """

    max_new_tokens: int
    sampling: Sampling | None
    verify: str
    stop: Sequence[str]
    processors: Sequence[Processor]
    on_tokens: TokenCallback | Sequence[TokenCallback] | None
    batch_size: int
    graphs: Graphs
    draft_model: PreTrainedModel | None
    draft_tokenizer: PreTrainedTokenizerBase | None
    draft_head: Path | str | None
    token_counts: Path | str | None
    schema: Path | str | dict[str, Any] | None
    grammar: Path | str | None
    regex: str | None


_OWN = GenerateOptions.__annotations__.keys() - GenerationKeywords.__annotations__.keys()


def generate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Prompt],
    drafter: str | None = None,
    corpus: Known = None,
    **options: Unpack[GenerateOptions],
) -> list[Completion]:
    """Generate a completion of each prompt, and leave the models unchanged.

    Args:
        model: a causal language model of transformers.
        tokenizer: its tokenizer.
        prompts: texts, encoded with the tokenizer's defaults, or token ids.
        drafter: a method as in ``tasc bench --method``, such as ``tasc-spec:budget=20``. The
            default is ``mix`` with a ``draft_head``, otherwise ``tasc-spec``.
        corpus: outputs of the task to draft from: texts, token ids, or an index of them
            (``tasc.decoding.drafters.ngram.index.load_index``). Without it, the drafter knows only
            the prompt and the output so far.
        options: see GenerateOptions. Settings of transformers' ``generate`` without an effect,
            such as ``num_beams=1``, are accepted.

    Settings in the model's generation_config.json that change logits, such as a repetition penalty,
    apply as in transformers. How to sample is decided by ``sampling`` alone.

    Tokens with which all prompts begin are read once; the completions share that time evenly.

    Returns one completion per prompt. Raises InputError.
    """
    if isinstance(prompts, str):
        raise InputError("prompts is a single text: pass a list of texts or of token ids")
    settings = _settings(model, options)
    batch_size, limit = options.get("batch_size", 1), options.get("max_new_tokens", 256)
    ends = end_ids(model, tokenizer.eos_token_id)
    callbacks = _callbacks(options.get("on_tokens"), len(prompts), batch_size)
    encoded = [ids_of(prompt, tokenizer, special=True) for prompt in prompts]
    stops = _stops(options.get("stop", ()), tokenizer, encoded)
    method = parse(drafter or default_method(head=options.get("draft_head") is not None))
    if method.chooses:
        raise InputError(f"drafter {method.label!r} drafts nothing: call tasc.choose")
    draft, graphs = options.get("draft_model"), options.get("graphs", "off")
    resources = _resources(options, tokenizer, ends, corpus)
    verify = partial(chosen, options.get("verify", "sampled"), resources.sampling)
    given = options.get("processors", ())
    with restore_model(draft), target_from_model(model, graphs) as target:
        make = prepare(method, corpus, tokenizer, replace(resources, target=target))
        requests = []
        for i, (ids, stop, own) in enumerate(zip(encoded, stops, callbacks, strict=True)):
            processors = given
            if len(ids):  # an empty prompt is refused below
                processors = processors_of(settings, model, ids, (limit, ends), given)
            rules = stop, own, processors, resources.grammar
            requests.append(Request(ids, make, verify(i), *rules))
        limits = {"max_new_tokens": limit, "budget": method.budget}
        done = _decode(target, requests, end_ids=ends, batch_size=batch_size, **limits)
    text = OutputText.of(tokenizer, ends)
    pairs = zip(done, stops, strict=True)
    return [Completion(_text(made, stop, text), made) for made, stop in pairs]


def _settings(model: PreTrainedModel, options: GenerateOptions) -> GenerationSettings:
    """Return the model's settings with those of a call; InputError for what is not applied.

    Values without an effect are accepted. Raises TypeError for an unknown argument.
    """
    given: dict[str, Any] = {k: v for k, v in options.items() if k not in _OWN}
    if unknown := given.keys() - APPLIED.keys() - IGNORED.keys():
        raise TypeError(f"generate() got an unexpected keyword argument {min(unknown)!r}")
    for name, value in GenerationSettings.of(given).ignored.items():
        remedy = _REMEDIES.get(name, "sampling=tasc.Sampling(…)" if name in SAMPLING else "")
        advice = f"pass {remedy} instead" if remedy else "leave it out"
        raise InputError(f"tasc.generate does not apply {name}={value!r:.60}: {advice}")
    return settings_of(model, **{name: given[name] for name in given.keys() & APPLIED.keys()})


def _stops(
    strings: Sequence[str], tokenizer: PreTrainedTokenizerBase, prompts: Sequence[np.ndarray]
) -> Sequence[StopStrings | None]:
    """Return the stop rule of each prompt."""
    if not strings:
        return [None] * len(prompts)
    spell = speller_of(tokenizer)
    return [StopStrings(strings, spell, prompt) for prompt in prompts]


def _text(made: Generation, stop: StopStrings | None, text: OutputText) -> str:
    tokens = made.tokens.tolist()
    return text(tokens) if stop is None else stop.text(tokens, text)


def _decode(target: Target, requests: Sequence[Request], **limits: Any) -> list[Generation]:  # noqa: ANN401
    """Decode as ``generate_all``, but read the tokens with which all prompts begin once."""
    timer = PhaseTimer()
    target.share(common_prefix([request.prompt for request in requests]))
    timer.end("prefill")
    done = generate_all(target, requests, **limits)
    timer.add_prefill([one.timeline for one in done])
    return done


def _resources(
    options: GenerateOptions,
    tokenizer: PreTrainedTokenizerBase,
    ends: Sequence[int],
    corpus: Known,
) -> Resources:
    return Resources(
        (),
        ends[0] if ends else -1,
        draft=draft_source(options.get("draft_model"), options.get("draft_tokenizer")),
        sampling=options.get("sampling"),
        draft_head=options.get("draft_head"),
        token_counts=options.get("token_counts"),
        grammar=_grammar(options, tokenizer, ends, corpus),
    )


def _grammar(
    options: GenerateOptions,
    tokenizer: PreTrainedTokenizerBase,
    ends: Sequence[int],
    corpus: Known,
) -> Grammar | None:
    """Compile the constraint of a call, in the layout of the corpus' texts.

    Raises InputError without a fast tokenizer.
    """
    schema, grammar = options.get("schema"), options.get("grammar")
    schema = str(schema) if isinstance(schema, Path) else schema
    lark = None if grammar is None else str(grammar)
    constraint = read_constraint(schema, lark, options.get("regex"))
    if constraint is None:
        return None
    known = fast_tokenizer(tokenizer)
    if known is None:
        raise InputError("a constraint needs a fast tokenizer: pass one that AutoTokenizer loads")
    outputs = () if isinstance(corpus, NgramIndex | str) else corpus or ()
    texts = (output for output in outputs if isinstance(output, str))
    return Grammar(constraint.written_as(texts), known, ends)


def _callbacks(
    on_tokens: TokenCallback | Sequence[TokenCallback] | None, prompts: int, batch_size: int
) -> Sequence[TokenCallback | None]:
    if on_tokens is None or callable(on_tokens):
        if on_tokens is not None and batch_size > 1 and prompts > 1:
            raise InputError("a batch got one on_tokens: pass a list with one per prompt")
        return [on_tokens] * prompts
    if len(on_tokens) != prompts:
        raise InputError(f"got {prompts} prompts and {len(on_tokens)} on_tokens: pass one each")
    return on_tokens


def chosen(name: str, sampling: Sampling | None, sequence: int) -> Verifier:
    """Return the verifier ``name`` of one of many sequences, or greedy without sampling."""
    if sampling is None:
        return greedy
    # Each pair of integers seeds a different generator, whose first number seeds the verifier.
    seed = np.random.SeedSequence([sampling.seed, sequence]).generate_state(1, np.uint64)[0]
    return verifier(name, replace(sampling, seed=int(seed)))


def prepare(
    method: Method, corpus: Known, tokenizer: PreTrainedTokenizerBase | None, resources: Resources
) -> Factory:
    """Build the factory of the drafters of a call; ``resources`` lack only the corpus."""
    if isinstance(corpus, str):
        raise InputError("corpus is a single text: pass a list of texts or of token ids")
    # Without a corpus, an empty output marks where outputs begin.
    outputs: Sequence[np.ndarray] = [np.empty(0, np.int32)]
    if corpus is not None and not isinstance(corpus, NgramIndex):
        if resources.end < 0:
            raise InputError(
                "a corpus needs an end token, which ends each of its texts: set the tokenizer's "
                "eos_token, or leave out the corpus"
            )
        outputs = [ids_of(c, tokenizer) for c in corpus]
        if resources.target is not None:
            ended = np.concatenate([*outputs, [resources.end]])
            resources.target.check_ids(ended, "the corpus or its end token")
    needed = method.entry.needs in ("draft", "either") or resources.token_counts is not None
    known = fast_tokenizer(tokenizer) if tokenizer is not None and needed else None
    indexes = (corpus,) if isinstance(corpus, NgramIndex) else ()
    make = method.prepare(replace(resources, outputs=outputs, indexes=indexes, tokenizer=known))
    if not method.adaptive or resources.target is None:
        return make
    policy = Adaptive(measured_cost(resources.target))
    return lambda: AdaptiveDrafter(make(), policy)


def draft_source(
    model: PreTrainedModel | None, tokenizer: PreTrainedTokenizerBase | None
) -> DraftSource | None:
    """Return the draft source. Raises InputError for a model without a fast tokenizer."""
    known = None if tokenizer is None else fast_tokenizer(tokenizer)
    if known is None and (model is not None or tokenizer is not None):
        raise InputError("a draft model needs its own fast tokenizer: pass draft_tokenizer=")
    return None if known is None else DraftSource(known, model)


def fast_tokenizer(tokenizer: PreTrainedTokenizerBase) -> LoadedTokenizer | None:
    """Return a fast tokenizer in TASC's form, or None for a tokenizer in plain Python."""
    inner = getattr(tokenizer, "backend_tokenizer", None)
    if inner is None:
        return None
    config = json.dumps({"eos_token": str(tokenizer.eos_token)}).encode()
    own = Tokenizer.from_str(inner.to_str())  # the caller's may pad or truncate
    own.no_padding()
    own.no_truncation()
    return LoadedTokenizer(own, str(tokenizer.name_or_path), {"tokenizer_config.json": config})


def ids_of(
    text: Prompt, tokenizer: PreTrainedTokenizerBase | None, special: bool = False
) -> np.ndarray:
    """Return the ids (L,) int32 of a text, or the given ids."""
    if not isinstance(text, str):
        ids = np.asarray(text)
        if ids.ndim != 1 or (ids.size and (ids.dtype.kind not in "iu" or ids.max() >= 2**31)):
            raise InputError(
                f"token ids must be one row of integers below 2^31, got {ids.dtype} {ids.shape}: "
                "pass texts or lists of ids"
            )
        return ids.astype(np.int32)
    if tokenizer is None:
        raise InputError("a corpus of texts needs the tokenizer: pass tokenizer=, or token ids")
    found: Any = tokenizer(text, add_special_tokens=special)["input_ids"]
    return np.array(found, np.int32)


def speller_of(tokenizer: PreTrainedTokenizerBase) -> Callable[[int], bytes]:
    """Return a function from an id to the token's bytes in running text."""
    inner = getattr(tokenizer, "backend_tokenizer", None)
    if inner is not None:
        return token_speller(inner)
    base = tokenizer.tokenize("a")
    before = len(tokenizer.convert_tokens_to_string(base))

    @cache
    def bytes_of(token: int) -> bytes:
        text: str = tokenizer.convert_tokens_to_string(
            [*base, tokenizer.convert_ids_to_tokens(token)]
        )
        return text[before:].encode()

    return bytes_of
