"""Which of several failures is told, with pipes and no processes."""

import threading
from multiprocessing import Pipe

import pytest

from deepinfer.engine.wire import Wire
from deepinfer.engine.worker_failure import WorkerFailure
from deepinfer.engine.worker_pool import WorkerPool
from deepinfer.engine.worker_report import WorkerReport
from deepinfer.errors import ConfigError, PeerLostError, WorkerFailedError


class Worker:
    """A worker process's ends of its pipe."""

    def __init__(self, rank):
        ours, self.theirs = Pipe()
        self.rank, self.wire, self.is_killed = rank, Wire(ours), False

    def report(self, kind, value=None):
        Wire(self.theirs).send(WorkerReport(kind, value))

    def fail(self, error):
        try:
            raise error
        except Exception as raised:
            self.report("failed", WorkerFailure.of(self.rank, raised))

    def how_it_ended(self):
        return "its process was killed by signal 9 (SIGKILL)"

    def wait(self, seconds):
        pass

    def end(self):
        self.theirs.close()

    def kill(self):
        self.is_killed = True


def first_failure(*events):
    """What listeners hear when three workers go through `events`: (rank, exception, or None for a lost process)."""
    workers = [Worker(rank) for rank in range(3)]
    pool, heard, done = WorkerPool(workers), [], threading.Event()
    pool.listen(lambda rank, report: heard.append((rank, report.kind)), lambda f: (heard.append(f), done.set()))
    workers[0].report("outputs")
    for rank, error in events:
        if error is None:
            workers[rank].theirs.close()
        else:
            workers[rank].fail(error)
    assert done.wait(5.0)
    assert heard[0] == (0, "outputs") and all(worker.is_killed for worker in workers)
    return heard[-1].error()


def test_the_cause_is_told_and_not_what_came_of_it():
    lost = PeerLostError("a collective call failed")
    error = first_failure((0, lost), (2, lost), (1, None))
    assert error.rank == 1 and "killed by signal 9" in str(error)
    error = first_failure((1, lost), (0, ZeroDivisionError("division by zero")))
    assert error.rank == 0 and "ZeroDivisionError: division by zero" in str(error)
    assert "test_worker_pool.py" in error.__notes__[0]  # the worker's traceback
    error = first_failure((2, lost))
    assert error.rank == 2 and "collective call" in str(error)


def test_a_worker_that_hangs_is_ended_before_its_reports_are_waited_for():
    workers = [Worker(rank) for rank in range(2)]
    pool = WorkerPool(workers)
    pool.listen(lambda rank, report: None, lambda failure: None)
    thread, heard = pool._thread, []
    join = thread.join
    thread.join = lambda seconds: heard.append([worker.theirs.closed for worker in workers]) or join(seconds)
    pool.close()
    assert heard == [[True, True]] and not thread.is_alive() and all(worker.is_killed for worker in workers)


def test_a_mistake_at_the_start_is_raised_as_it_is():
    workers = [Worker(rank) for rank in range(2)]
    workers[0].report("ready", "fine")
    workers[1].fail(ConfigError("max_num_seqs = 0"))
    with pytest.raises(ConfigError, match="max_num_seqs = 0"):
        WorkerPool(workers).wait_until_ready()
    assert all(worker.is_killed for worker in workers)
    workers = [Worker(0)]
    workers[0].theirs.close()
    with pytest.raises(WorkerFailedError, match="worker rank 0"):
        WorkerPool(workers).wait_until_ready()


class Unreadable:
    """A value whose bytes cannot be read."""

    def __reduce__(self):
        return int, ("no number",)


def test_no_fault_of_the_front_end_leaves_calls_waiting():
    workers, done, heard = [Worker(rank) for rank in range(2)], threading.Event(), []
    WorkerPool(workers).listen(lambda rank, report: None, lambda f: (heard.append(f), done.set()))
    workers[1].report("answer", Unreadable())
    assert done.wait(5.0) and heard[0].rank == 1 and "no number" in heard[0].reason
    workers, done = [Worker(rank) for rank in range(2)], threading.Event()
    WorkerPool(workers).listen(lambda rank, report: 1 / 0, lambda f: (heard.append(f), done.set()))
    workers[1].report("outputs")
    assert done.wait(5.0) and heard[1].rank == 1 and "ZeroDivisionError" in heard[1].reason
