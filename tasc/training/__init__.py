"""Training: QLoRA fine-tuning with new tokens, and small base models from scratch."""

import logging

# PEFT imports bitsandbytes, which then reports that an optional kernel download is not there.
logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)
