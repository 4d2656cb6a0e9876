"""Runs the engine of one replica in its worker process, by the front end's commands."""

from __future__ import annotations

from typing import Any

from deepinfer.engine.command_queue import CommandQueue
from deepinfer.engine.own_error import own_error
from deepinfer.engine.packed_request import PackedRequest
from deepinfer.engine.rank_tracer import RankTracer
from deepinfer.engine.runtime import EngineRuntime
from deepinfer.engine.step_outputs import StepOutputs
from deepinfer.engine.wire import Wire
from deepinfer.engine.worker_command import WorkerCommand
from deepinfer.engine.worker_report import WorkerReport
from deepinfer.errors import RequestError
from deepinfer.outputs import RequestDelta, RequestFailure


class ReplicaServer:
    """Steps while there are requests, and waits for a command while there are none."""

    def __init__(self, runtime: EngineRuntime, commands: CommandQueue, wire: Wire) -> None:
        self._engine = runtime.engine
        self._tracer = RankTracer(runtime)
        self._commands = commands
        self._wire = wire

    def run(self) -> None:
        """Serve until the front end closes. An exception of a step comes out and is the end of the whole engine."""
        engine = self._engine
        while True:
            for command in self._commands.take(wait=engine.is_idle):
                if command.kind == "close":
                    return
                self._obey(command)
            self._report(engine.flush() if engine.is_idle else engine.step())

    def _obey(self, command: WorkerCommand) -> None:
        if command.kind == "add":
            self._add(command)
        elif command.kind == "wake":
            self._engine.wake(command.value)
        elif command.kind == "abort":
            for request_id in command.value:
                self._engine.abort_request(request_id)
        else:
            self._wire.send(WorkerReport("answer", self._answer(command)))

    def _add(self, command: WorkerCommand) -> None:
        packed = command.request
        assert packed is not None
        place = command.prompt_index
        try:
            request = packed.unpacked(self._wire)
            self._engine.add_request(request, command.prompt, prompt_index=place, streaming=command.streaming)
        except Exception as refused:  # it is this request's alone
            self._refuse(command, packed, refused)

    def _refuse(self, command: WorkerCommand, request: PackedRequest, refused: Exception) -> None:
        error = own_error(refused, "the request cannot be started", "invalid_request")
        ids = request.prompt_token_ids.tolist()
        output = self._engine.refuse(request.request_id, error, command.prompt, ids)
        deltas = []
        if command.streaming:
            failure, place = RequestFailure.from_exception(error), command.prompt_index
            deltas = [RequestDelta(request.request_id, place, 0, "", [], finish_reason="error", error=failure)]
        self._wire.send(WorkerReport("outputs", deltas=deltas, finished=[output]))

    def _answer(self, question: WorkerCommand) -> Any:
        if question.value == "stats":
            return self._engine.stats()
        if question.value == "begin trace":
            return self._tracer.begin()
        if question.value == "end trace":
            return self._tracer.end()
        assert question.value == "grammar" and question.request is not None, question.value
        try:
            return self._engine.grammar_error(question.request.unpacked(self._wire))
        except RequestError as refused:
            return refused

    def _report(self, outputs: StepOutputs) -> None:
        """Send what a step gave; nothing is sent for a step that gave nothing to anybody."""
        if not outputs.deltas and not outputs.finished:
            return
        self._wire.send(
            WorkerReport("outputs", None, list(outputs.deltas), list(outputs.finished), dict(outputs.scores))
        )
        outputs.deltas.clear()
        outputs.finished.clear()
        outputs.scores.clear()
