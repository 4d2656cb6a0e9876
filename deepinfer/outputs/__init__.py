"""What a user gets back: results, deltas, log-probabilities and metrics."""

from deepinfer.outputs.completion_output import CompletionOutput
from deepinfer.outputs.draft_confidence import DraftConfidence
from deepinfer.outputs.logprob import Logprob
from deepinfer.outputs.prompt_logprob_list import PromptLogprobList
from deepinfer.outputs.request_delta import RequestDelta
from deepinfer.outputs.request_failure import RequestFailure
from deepinfer.outputs.request_metrics import RequestMetrics
from deepinfer.outputs.request_output import RequestOutput
from deepinfer.outputs.token_logprobs import TokenLogprobs
from deepinfer.outputs.tool_call import ToolCall
from deepinfer.outputs.tool_call_delta import ToolCallDelta

__all__ = [
    "CompletionOutput",
    "DraftConfidence",
    "Logprob",
    "PromptLogprobList",
    "RequestDelta",
    "RequestFailure",
    "RequestMetrics",
    "RequestOutput",
    "TokenLogprobs",
    "ToolCall",
    "ToolCallDelta",
]
