"""Speculative decoding in one loop: draft, score, verify, keep, observe.

The loop of tasc/decoding/decode.py for one sequence, without stop rules, batches and a policy.
Usage: python examples/decode.py MODEL PROMPT OUTPUTS, where OUTPUTS is a text file with an output
of the task in each line.
"""

import sys
from pathlib import Path

import numpy as np

from tasc.decoding.drafters import Resources, parse
from tasc.decoding.loaded import load_ready
from tasc.decoding.verify import greedy
from tasc.models.packed import native_threads

NEW_TOKENS, NODES = 64, 12  # of the output; of a draft

model, prompt_text, outputs_file = sys.argv[1:]
ready = load_ready(model, "auto", "cpu")
target, end = ready.target, ready.end_ids[0]
(prompt,) = ready.encode([prompt_text])
known_outputs = ready.encode(Path(outputs_file).read_text().splitlines())

# A factory shares one index of the known outputs; a drafter serves one sequence.
method = parse("tasc-spec:logits=false")
drafter = method.prepare(Resources(known_outputs, end))()
drafter.start(prompt)

tokens: list[int] = []
forwards = 1
with native_threads(target.model):
    logits = target.prefill(prompt, NEW_TOKENS + NODES + 1)  # (1, V)
    tokens.append(int(logits[0].argmax()))
    drafter.observe(np.array(tokens, np.int32))
    while tokens[-1] != end and len(tokens) < NEW_TOKENS:
        # A tree in two arrays; the parent of a node stands before it, -1 is the last token.
        draft = drafter.draft(min(NODES, NEW_TOKENS - len(tokens) - 1))

        # One forward over the last token and the tree: (1, n + 1, V).
        logits = target.score([tokens[-1]], [(draft.tokens, draft.parents)])
        forwards += 1

        # The longest path of the tree that the model would have written, and one token more.
        path, bonus = greedy(draft, logits[0])

        # Keys and values of the accepted nodes move behind those of the last token.
        target.keep([path])

        committed = [*draft.tokens[path].tolist(), bonus]
        if end in committed:
            committed = committed[: committed.index(end) + 1]
        tokens += committed
        drafter.observe(np.array(committed, np.int32))

print(ready.text(tokens))
print(f"{len(tokens)} tokens in {forwards} forwards", file=sys.stderr)
