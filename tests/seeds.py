"""The seed of every model that the tests train: no test may depend on what such a model writes."""

import os

SEED = int(os.environ.get("TASC_TEST_SEED", "0"))
