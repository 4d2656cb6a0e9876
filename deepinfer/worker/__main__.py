"""``python -m deepinfer.worker``: how worker processes of an engine are started; not for users."""

import sys

from deepinfer.engine.worker_main import worker_main

if __name__ == "__main__":
    worker_main(sys.argv[1:])
