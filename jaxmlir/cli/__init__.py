"""The command-line tools ``jaxmlir-opt``, ``jaxmlir-translate`` and ``jaxmlir-run``."""

import os

# JAX sets this when it is imported. The tools load jaxlib before that, which reads this when it is
# loaded, and would log at INFO.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
