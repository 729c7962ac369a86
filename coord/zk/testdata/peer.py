"""Takes turns in a line with Kazoo: peer.py <servers> <path> <umpire> <lock|rw|writers> <workers> <turns>."""
import socket
import sys
import threading

from kazoo.client import KazooClient

servers, path, umpire, kind, workers, turns = sys.argv[1:]
host, port = umpire.rsplit(":", 1)
client = KazooClient(hosts=servers, timeout=10)
client.start()
failed = []


def work(number):
    try:
        talk = socket.create_connection((host, int(port))).makefile("rw")
        for turn in range(int(turns)):
            mode = "R" if kind == "rw" and (turn + number) % 2 else "W"
            make = client.Lock
            if kind != "lock":
                make = client.ReadLock if mode == "R" else client.WriteLock
            lock = make(path, "kazoo")
            with lock:
                for word in ("enter", "leave"):
                    talk.write("%s %s kazoo%d\n" % (word, mode, number))
                    talk.flush()
                    talk.readline()
    except BaseException as e:  # shown by the test
        failed.append(e)
        raise


threads = [threading.Thread(target=work, args=(n,)) for n in range(int(workers))]
for t in threads:
    t.start()
for t in threads:
    t.join()
client.stop()
client.close()
sys.exit(1 if failed else 0)
