"""A small piece of agent work: compute, write files, look around, and try what an agent should not.

Run it in a sandbox:  ward run --code trusted -- python3 - < examples/agent.py
"""
import errno
import json
import os
import pathlib
import socket
import statistics


def work():
    primes = [n for n in range(2, 2000) if all(n % d for d in range(2, int(n ** 0.5) + 1))]
    gaps = [b - a for a, b in zip(primes, primes[1:])]
    return {"primes below 2000": len(primes), "largest gap": max(gaps), "mean gap": round(statistics.mean(gaps), 2)}


def attempt(action):
    try:
        return f"got through: {action()}"
    except OSError as e:
        return f"refused ({errno.errorcode.get(e.errno, e.errno)})"


def reach(address):
    with socket.create_connection(address, timeout=2):
        return address


result = work()
place = pathlib.Path("/tmp/report")
place.mkdir(exist_ok=True)
(place / "result.json").write_text(json.dumps(result))

print("result:       ", result)
print("my files:     ", sorted(os.listdir(place)))
print("processes:    ", sum(name.isdigit() for name in os.listdir("/proc")), "that I can see")
print("network:      ", attempt(lambda: reach(("192.0.2.1", 443))))
print("host loopback:", attempt(lambda: reach(("127.0.0.1", 22))))
print("/etc/shadow:  ", attempt(lambda: pathlib.Path("/etc/shadow").read_text()[:8]))
print("/root/.ssh:   ", attempt(lambda: os.listdir("/root/.ssh")))
print("the machine:  ", attempt(lambda: os.close(os.open("/dev/mem", os.O_RDONLY)) or "its memory can be read"))
