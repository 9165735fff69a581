"""``tasc.generate``: speculative decoding of a transformers model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tasc._native import NgramIndex
from tasc.decoding.core.generation import PhaseTimer
from tasc.decoding.core.grammar import Grammar
from tasc.decoding.core.protocols import Verifier
from tasc.decoding.core.resources import DraftSource, end_ids
from tasc.decoding.core.sampling import Sampling
from tasc.decoding.core.settings import processors_of
from tasc.decoding.core.stopping import StopStrings
from tasc.decoding.decode import Generation, Request, Timeline, TokenCallback, generate_all
from tasc.decoding.drafters import Factory, Method, Resources, default_method, parse
from tasc.decoding.loaded import LoadedModel, plain_model, target_of
from tasc.decoding.options import GenerateOptions, call_settings
from tasc.decoding.policy import Policy
from tasc.decoding.tokenizers import Prompt, fast_tokenizer, ids_of, speller_of
from tasc.decoding.verify import greedy, verifier
from tasc.errors import InputError
from tasc.models.cost import measured_cost
from tasc.models.inputs import common_prefix
from tasc.models.target import Target
from tasc.models.targets.borrowed import restore_model
from tasc.options.constraint import read_constraint
from tasc.tokenizer.output_text import OutputText

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


def generate(
    model: PreTrainedModel | LoadedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Prompt],
    drafter: str | None = None,
    corpus: Known = None,
    **options: Unpack[GenerateOptions],
) -> list[Completion]:
    """Generate a completion of each prompt, and leave the models unchanged.

    Args:
        model: a model of ``tasc.load``, or a causal language model of transformers, whose own
            layers then run: slower on a CPU.
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
    if tokenizer is None:
        raise InputError("tokenizer is None: pass the model's tokenizer")
    plain = plain_model(model)
    settings = call_settings(plain, options)
    batch_size, limit = options.get("batch_size", 1), options.get("max_new_tokens", 256)
    ends = end_ids(plain, tokenizer.eos_token_id)
    callbacks = _callbacks(options.get("on_tokens"), len(prompts), batch_size)
    encoded = [ids_of(prompt, tokenizer, special=True) for prompt in prompts]
    stops = _stops(options.get("stop", ()), tokenizer, encoded)
    method = parse(drafter or default_method(head=options.get("draft_head") is not None))
    if method.chooses:
        raise InputError(f"drafter {method.label!r} drafts nothing: call tasc.choose")
    draft, graphs = options.get("draft_model"), options.get("graphs", "off")
    resources = _resources(options, tokenizer, ends, corpus)
    verify = partial(chosen, options.get("verify", "sampled"), resources.sampling)
    own_processors = options.get("processors", ())
    with restore_model(draft), target_of(model, graphs) as target:
        make = prepare(method, corpus, tokenizer, replace(resources, target=target))
        requests = [
            Request(
                ids,
                make,
                verify(i),
                stop=stop,
                on_tokens=callback,
                processors=processors_of(settings, plain, ids, limit, ends, own_processors),
                grammar=resources.grammar,
            )
            for i, (ids, stop, callback) in enumerate(zip(encoded, stops, callbacks, strict=True))
        ]
        done = _decode(
            target,
            requests,
            max_new_tokens=limit,
            end_ids=ends,
            budget=method.budget,
            batch_size=batch_size,
            policy=policy_of(method, target),
        )
    text = OutputText.of(tokenizer, ends)
    return [
        Completion(_text(generation, stop, text), generation)
        for generation, stop in zip(done, stops, strict=True)
    ]


def _stops(
    strings: Sequence[str], tokenizer: PreTrainedTokenizerBase, prompts: Sequence[np.ndarray]
) -> Sequence[StopStrings | None]:
    """Return the stop rule of each prompt."""
    if not strings:
        return [None] * len(prompts)
    spell = speller_of(tokenizer)
    return [StopStrings(strings, spell, prompt) for prompt in prompts]


def _text(generation: Generation, stop: StopStrings | None, text: OutputText) -> str:
    tokens = generation.tokens.tolist()
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
    fast = fast_tokenizer(tokenizer)
    if fast is None:
        raise InputError("a constraint needs a fast tokenizer: pass one that AutoTokenizer loads")
    outputs = () if isinstance(corpus, NgramIndex | str) else corpus or ()
    texts = (output for output in outputs if isinstance(output, str))
    return Grammar(constraint.written_as(texts), fast, ends)


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
    fast = fast_tokenizer(tokenizer) if tokenizer is not None and needed else None
    indexes = (corpus,) if isinstance(corpus, NgramIndex) else ()
    return method.prepare(replace(resources, outputs=outputs, indexes=indexes, tokenizer=fast))


def policy_of(method: Method, target: Target) -> Policy:
    """Return the policy of ``method``, which measures ``target`` if it is adaptive."""
    return Policy(measured_cost(target) if method.adaptive else None)


def draft_source(
    model: PreTrainedModel | None, tokenizer: PreTrainedTokenizerBase | None
) -> DraftSource | None:
    """Return the draft source. Raises InputError for a model without a fast tokenizer."""
    fast = None if tokenizer is None else fast_tokenizer(tokenizer)
    if fast is None and (model is not None or tokenizer is not None):
        raise InputError("a draft model needs its own fast tokenizer: pass draft_tokenizer=")
    return None if fast is None else DraftSource(fast, model)
