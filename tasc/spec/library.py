"""``tasc.generate``: speculative decoding of a transformers model, for a library's users."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tasc.errors import InputError
from tasc.models.borrow import borrowed
from tasc.models.target import Target
from tasc.spec import decode
from tasc.spec.decode import Generation, OnTokens, Timeline
from tasc.spec.drafters import Factory, Method, Resources, parse
from tasc.spec.processors import Processor
from tasc.spec.protocols import Verifier
from tasc.spec.sampling import Sampling
from tasc.spec.stopping import StopStrings
from tasc.spec.verify import greedy, verifier

Prompt = str | Sequence[int] | np.ndarray


@dataclass(frozen=True)
class Completion:
    """What was generated for one prompt. ``text`` ends before a stop string."""

    text: str
    generation: Generation

    @property
    def tokens(self) -> np.ndarray:
        """The tokens (T,) int32, the end token and what completed a stop string included."""
        return self.generation.tokens

    @property
    def timeline(self) -> Timeline:
        """Seconds of prefill, and of draft, forward, verify and commit at every step."""
        return self.generation.timeline


def generate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Prompt],
    drafter: str = "tasc-spec",
    corpus: Sequence[Prompt] | None = None,
    *,
    max_new_tokens: int = 256,
    sampling: Sampling | None = None,
    verify: str = "sampled",
    stop: Sequence[str] = (),
    processors: Sequence[Processor] = (),
    on_tokens: OnTokens | None = None,
    draft_head: Path | None = None,
) -> list[Completion]:
    """Generate a completion of each prompt; the model is given back as it was.

    Args:
        model: any causal language model of transformers.
        tokenizer: its tokenizer.
        prompts: texts, which are encoded as the tokenizer does by default, or token ids.
        drafter: a method as ``tasc bench --method`` takes it, such as ``tasc-spec:budget=20``.
        corpus: outputs of the task that drafts are made from, texts or token ids; without it, the
            drafter knows the prompt and the output so far.
        max_new_tokens: the most tokens a completion may have.
        sampling: how to sample; None is greedy. Each prompt has random numbers of its own.
        verify: the verifier when sampling: "sampled" for any drafter; "rejection" and
            "multi-branch" for drafters with probabilities.
        stop: strings that end a completion.
        processors: logits processors of transformers, applied before anything is decided.
        on_tokens: called with the tokens (k,) int32 of each step as soon as they are settled.
        draft_head: folder of a trained head, for drafters such as "eagle".

    Returns one completion a prompt. Raises InputError.
    """
    if isinstance(prompts, str):
        raise InputError("prompts must be a list of texts or of token ids, got one text")
    method = parse(drafter)
    ends = end_ids(model, tokenizer)
    rule = StopStrings(stop, lambda ids: _decode(tokenizer, ids)) if stop else None
    completions = []
    with borrowed(model) as target:
        end = ends[0] if ends else -1
        factory = prepare(method, corpus, tokenizer, end, target, draft_head)
        for i, prompt in enumerate(prompts):
            done = decode.generate(
                target,
                factory(),
                ids_of(prompt, tokenizer, special=True),
                max_new_tokens=max_new_tokens,
                end_ids=ends,
                budget=method.budget,
                verify=chosen(verify, sampling, i),
                stop=rule,
                on_tokens=on_tokens,
                processors=processors,
            )
            tokens = done.tokens.tolist()
            text = rule.text(tokens) if rule else _decode(tokenizer, tokens)
            completions.append(Completion(text, done))
    return completions


def chosen(name: str, sampling: Sampling | None, sequence: int) -> Verifier:
    """Return the verifier called ``name`` for one of many sequences, or greedy without sampling."""
    if sampling is None:
        return greedy
    # Any pair of integers seeds a generator of its own; its first number seeds the verifier.
    seed = np.random.SeedSequence([sampling.seed, sequence]).generate_state(1, np.uint64)[0]
    own = Sampling(sampling.temperature, sampling.top_k, sampling.top_p, int(seed))
    return verifier(name, own)


def prepare(
    method: Method,
    corpus: Sequence[Prompt] | None,
    tokenizer: PreTrainedTokenizerBase | None,
    end: int,
    target: Target,
    draft_head: Path | None = None,
) -> Factory:
    """Build what the drafters of a call share."""
    # Without a corpus an empty output stands in for it: all that it says is where outputs begin.
    outputs = [np.empty(0, np.int32)] if corpus is None else [ids_of(c, tokenizer) for c in corpus]
    return method.prepare(Resources(outputs, end, target=target, draft_head=draft_head))


def ids_of(
    text: Prompt, tokenizer: PreTrainedTokenizerBase | None, special: bool = False
) -> np.ndarray:
    """Return the ids (L,) int32 of a text, or ids as such."""
    if not isinstance(text, str):
        ids = np.asarray(text)
        if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
            raise InputError(
                f"token ids must be one row of integers, got {ids.dtype} {ids.shape}: "
                "give prompts and corpus as texts or as ids"
            )
        return ids.astype(np.int32)
    if tokenizer is None:
        raise InputError("a corpus of texts needs the tokenizer: pass tokenizer=, or token ids")
    found: Any = tokenizer(text, add_special_tokens=special)["input_ids"]
    return np.array(found, np.int32)


def end_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """Return the tokens that end an output: the model's own first, then the tokenizer's."""
    configured = getattr(model.generation_config, "eos_token_id", None)
    listed = configured if isinstance(configured, list) else [configured]
    known = [*listed, tokenizer.eos_token_id]
    return tuple(dict.fromkeys(int(i) for i in known if i is not None))


def _decode(tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> str:
    text: str = tokenizer.decode(ids, skip_special_tokens=True)
    return text
