"""What a request will ask of the replica that gets it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RequestCost:
    """An estimate, fixed when the request is given away. Filled by the front end.

    Attributes:
        tokens: tokens still to be computed: the prompt's, and those expected to be generated for all its choices.
        cache_tokens: tokens whose entries it will hold in the cache at the same time.
        seats: sequences it will run (its choices).
    """

    tokens: int
    cache_tokens: int
    seats: int = 1

    def __post_init__(self) -> None:
        assert self.tokens >= 0 and self.cache_tokens >= 0 and self.seats >= 1, self

    @classmethod
    def of_request(cls, num_prompt_tokens: int, expected_new_tokens: int, num_choices: int = 1) -> RequestCost:
        """Of a request whose choices share the prompt: it is computed and held once.

        Args:
            num_prompt_tokens: tokens of the prompt.
            expected_new_tokens: tokens that a choice is expected to generate (`ExpectedLength.of`).
            num_choices: `SamplingParams.n`.
        """
        tokens = num_prompt_tokens + num_choices * expected_new_tokens
        return cls(tokens, tokens, num_choices)
