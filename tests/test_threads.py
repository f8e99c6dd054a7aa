"""Work on several threads: in order, no further than needed, and after a fork."""

import subprocess
import sys
import threading
import time

import pytest

from fastmosaic.threads import map_in_order, num_threads

either_way = pytest.mark.parametrize("use_threads", [True, False])


@either_way
def test_results_come_in_order(use_threads):
    def slow_at_first(number):
        time.sleep(0.002 * (5 - number % 5))
        return number * number

    assert list(map_in_order(slow_at_first, range(30), use_threads)) == [n * n for n in range(30)]
    assert list(map_in_order(slow_at_first, [], use_threads)) == []


def test_without_threads_work_is_done_here():
    names = set(map_in_order(lambda _: threading.get_ident(), range(10), use_threads=False))
    assert names == {threading.get_ident()}


@either_way
def test_only_a_few_are_under_way_at_once(use_threads):
    taken = []

    def items():
        for number in range(1000):
            taken.append(number)
            yield number

    results = map_in_order(str, items(), use_threads)
    assert taken == []
    assert next(results) == "0"
    assert len(taken) <= 2 * num_threads() + 1
    results.close()


@either_way
def test_an_error_arrives_and_nothing_runs_on(use_threads):
    done = []

    def fail_at_three(number):
        if number == 3:
            raise ValueError("three")
        time.sleep(0.005)
        done.append(number)
        return number

    results = map_in_order(fail_at_three, range(1000), use_threads)
    arrived = []
    with pytest.raises(ValueError, match="three"):
        arrived.extend(results)
    count = len(done)
    time.sleep(0.05)
    assert len(done) == count < 100
    # The pool is as good as before.
    assert list(map_in_order(str, range(3), use_threads)) == ["0", "1", "2"]


@either_way
def test_an_error_of_the_items_arrives(use_threads):
    def items():
        yield 1
        raise KeyError("no more")

    with pytest.raises(KeyError, match="no more"):
        list(map_in_order(str, items(), use_threads))


def test_results_that_nobody_takes_are_not_worked_out():
    done = []

    def work(number):
        time.sleep(0.005)
        done.append(number)

    results = map_in_order(work, range(1000))
    next(results)
    results.close()
    count = len(done)
    time.sleep(0.05)
    assert len(done) == count < 100


FORK = """
import os
from fastmosaic.threads import map_in_order

assert list(map_in_order(str, range(20))) == list(map(str, range(20)))
child = os.fork()
assert list(map_in_order(str, range(20))) == list(map(str, range(20)))
if child == 0:
    os._exit(7)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 7
"""


def test_a_forked_process_has_threads_of_its_own():
    # From 3.12 on, Python warns of forks of a process with threads.
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], check=True)
