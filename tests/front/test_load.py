"""Many at once, for a short time: everything is answered, and afterwards nothing of it is left."""
import concurrent.futures
import json
import os
import re
import subprocess
import threading
import time
import urllib.request

SANITIZED = "WARD_SANITIZED" in os.environ
GROWTH_KB = 300_000 if SANITIZED else 30_000


def call(daemon, key, method, path, body=None):
    request = urllib.request.Request(daemon.url + path, method=method, data=body, headers={"X-API-KEY": key, "Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return answer.status, answer.read()


def one_life(daemon, key):
    made = json.loads(call(daemon, key, "POST", "/v2/sandboxes", b'{"templateID":"base","timeout":120}')[1])["sandboxID"]
    assert call(daemon, key, "GET", "/sandboxes/" + made)[0] == 200
    assert call(daemon, key, "DELETE", "/sandboxes/" + made)[0] == 204


def test_reads_beside_lives(daemon, keys):
    """h2load and wrk read as fast as they can while sandboxes come and go."""
    one_life(daemon, keys[0])  # what is made once is made
    lives, memory, descriptors = daemon.ids(), daemon.memory_kb(), daemon.descriptors()
    over = threading.Event()

    def live():
        count = 0
        while not over.is_set() or not count:
            one_life(daemon, keys[0])
            count += 1
        return count

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(live) for _ in range(4)]
        try:
            list_url, health = daemon.url + "/v2/sandboxes", daemon.url + "/health"
            n = 500 if SANITIZED else 3000
            for extra in ((), ("--h1",)):
                done = subprocess.run(["h2load", *extra, "-n", str(n), "-c", "20", "-m", "10", "-H", f"X-API-KEY: {keys[0]}", list_url],
                                      capture_output=True, text=True, timeout=300)
                assert f"{n} succeeded, 0 failed, 0 errored, 0 timeout" in done.stdout and f"{n} 2xx, 0 3xx, 0 4xx, 0 5xx" in done.stdout, done
            done = subprocess.run(["wrk", "-t1", "-c50", "-d1s", health], capture_output=True, text=True, timeout=60)
            assert int(re.search(r"(\d+) requests in", done.stdout)[1]) > 0 and "Non-2xx" not in done.stdout, done
        finally:
            over.set()
        assert all(w.result(timeout=120) > 0 for w in waiting)
    assert daemon.ids() == lives
    deadline = time.monotonic() + 30
    while daemon.descriptors() > descriptors + 4 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert daemon.descriptors() <= descriptors + 4
    assert daemon.memory_kb() < memory + GROWTH_KB
    assert daemon.process.poll() is None
