"""Supervised fine-tuning in one loop: batches of an effective batch, loss, step.

The loop of tasc/training/loop.py for all weights of a model, without adapters, checkpoints,
validation and processes. Usage: python examples/finetune.py MODEL DATA OUTPUT, where DATA has a
JSON object such as {"input": "…", "output": "…"} in each line.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch

from tasc.models.load import load_model
from tasc.tokenizer.loaded import load_tokenizer
from tasc.training.core.batch import collate, encode_examples, plan_epoch
from tasc.training.folder import save_model
from tasc.training.objectives.language import token_loss

EPOCHS, LEARNING_RATE, LONGEST = 3, 1e-4, 512
MICRO_BATCH, EFFECTIVE_BATCH = 4, 16  # examples of a forward; of a step
SEED = 0

model_folder, data, output = sys.argv[1:]
rows = [json.loads(line) for line in Path(data).read_text().splitlines()]
tokenizer = load_tokenizer(model_folder)
model = load_model(model_folder, "float32").train().requires_grad_(True)

# Prompt, output and end token of each row; the loss is on the last two.
prompts = [row["input"] + "\n" for row in rows]
examples = encode_examples(tokenizer, prompts, [row["output"] for row in rows], LONGEST)
optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.0)

torch.manual_seed(SEED)
for epoch in range(EPOCHS):
    steps = plan_epoch(examples.lengths, MICRO_BATCH, EFFECTIVE_BATCH, SEED, epoch)
    for number, micro_batches in enumerate(steps, start=1):
        # Divided once by all targets of the step, so its micro-batches change nothing.
        targets = sum(examples.targets_of(indices) for indices in micro_batches)
        total = 0.0
        for indices in micro_batches:
            batch = collate(examples, np.asarray(indices))
            loss = token_loss(model, batch) / targets
            torch.autograd.backward(loss)
            total += float(loss.detach())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"epoch {epoch + 1}, step {number} of {len(steps)}: {total:.3f} nats per token")

save_model(model.eval(), tokenizer, Path(output))
