"""One scenario with Kazoo, told by key=value arguments; prints how many turns there were in how many nanoseconds."""
import os
import sys
import threading
import time

from kazoo.client import KazooClient

told = dict(a.split("=", 1) for a in sys.argv[1:])
lines = int(told["lines"])


def connect():
    client = KazooClient(hosts=told["addr"], timeout=30)
    client.start()
    return client


clients = [connect() for _ in range(int(told["clients"]))]
failed = []


def make(client, path):
    if told["kind"] == "permit":
        return client.Semaphore(path, "kazoo", max_leases=int(told["permits"]))
    return client.Lock(path, "kazoo")


def start(work, *args):
    def run():
        try:
            work(*args)
        except BaseException as e:
            failed.append(e)

    t = threading.Thread(target=run, daemon=True)
    t.start()
    return t


def say(turns, nanos):
    if failed:
        print(repr(failed[0]), file=sys.stderr)
        os._exit(1)
    print("turns %d nanos %d" % (turns, nanos), flush=True)
    os._exit(0)


def turns():
    stop = threading.Event()
    done = [0] * (len(clients) * int(told["workers"]))

    def work(seat):
        client = clients[seat % len(clients)]
        turn = 0
        while not stop.is_set():
            path = told["path"]
            if lines > 1:
                path += "-%d" % ((seat * 31 + turn * 17) % lines)
            turn += 1
            with make(client, path):
                pass
            done[seat] += 1

    for seat in range(len(done)):
        start(work, seat)
    time.sleep(int(told["warm"]) / 1000)
    before, since = sum(done), time.monotonic_ns()
    after = before
    while after == before and not failed:
        time.sleep(int(told["window"]) / 1000)
        after, until = sum(done), time.monotonic_ns()
    say(after - before, until - since)


def drain():
    n, client, path = int(told["workers"]), clients[0], told["path"]
    first = make(client, path)
    first.acquire()

    def work():
        with make(client, path):
            pass

    waiters = [start(work) for _ in range(n)]
    while len(client.get_children(path)) < n + 1 and not failed:
        time.sleep(0.02)
    time.sleep(0.5)
    since = time.monotonic_ns()
    first.release()
    for t in waiters:
        t.join()
    say(n, time.monotonic_ns() - since)


{"turns": turns, "drain": drain}[told["shape"]]()
