"""A sampler's answer in place of a token: the sequence is complete and has nothing more to say."""

from __future__ import annotations


class SequenceEnd(Exception):
    """No mistake, in the way StopIteration is none: the sequence ends here with reason "stop".

    The grammar's value is whole, and what could follow is banned (EOS by `ignore_eos` or `min_tokens`, for example).
    """
