"""What a worker process hears, with a pipe and no process."""

import threading
from multiprocessing import Pipe

from deepinfer.engine.command_queue import CommandQueue
from deepinfer.engine.wire import Wire
from deepinfer.engine.worker_command import WorkerCommand


def test_the_end_is_known_before_the_commands_in_front_of_it_are_taken():
    front, worker = map(Wire, Pipe())
    commands = CommandQueue(worker)
    front.send(WorkerCommand("wake", 1))
    assert not commands.is_closing(0.01)
    threading.Timer(0.05, front.send, [WorkerCommand("close")]).start()
    assert commands.is_closing(5.0)
    assert [command.kind for command in commands.take(wait=True)][:1] == ["wake"]
    assert commands.is_closing()
