"""A daemon for a test: `ward serve` on a port of its own, in a state directory of its own."""
import os
import re
import signal
import subprocess
import time

from wardtest import BINARY

STOP_S = 20


class Daemon:
    def __init__(self, state, *options, tier="container", log=None, binary=BINARY):
        self.state, self.options, self.tier, self.binary = state, options, tier, binary
        self.log_path = log or state.parent / "serve.log"
        self.process = self.url = self.port = None

    def start(self):
        self.log = open(self.log_path, "ab")
        at = self.log.tell()
        tier = ("--tier", self.tier) if self.tier else ()
        self.process = subprocess.Popen([self.binary, "--state-dir", self.state, "serve", *tier, "--listen", "127.0.0.1:0", *self.options],
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True)
        end = time.monotonic() + 30
        while time.monotonic() < end:
            text = self.log_path.read_bytes()[at:].decode(errors="replace")
            found = re.search(r"at=daemon.listen .*?port=(\d+)", text)
            if found and "at=daemon.ready" in text:
                self.port = int(found[1])
                self.url = f"http://127.0.0.1:{self.port}"
                return self
            assert self.process.poll() is None, text
            time.sleep(0.02)
        raise AssertionError(f"no daemon after 30 s:\n{text}")

    def ward(self, *args, **options):
        return subprocess.run([BINARY, "--state-dir", self.state, *args], capture_output=True, text=True, **options)

    def key(self, name, tenant=None):
        done = self.ward("key", "create", name, *(("--tenant", tenant) if tenant else ()))
        assert done.returncode == 0, done
        return done.stdout.strip()

    def kill(self):
        """As if it had crashed."""
        self.process.kill()
        self.process.wait()

    def stop(self, sandboxes=True):
        if self.process and self.process.poll() is None:
            if sandboxes:
                for row in self.ids():
                    self.ward("kill", row)
            self.process.send_signal(signal.SIGTERM)
            assert self.process.wait(timeout=STOP_S) in (0, -signal.SIGTERM), self.log_path.read_text()[-4000:]
        self.log.close()

    def ids(self):
        import json
        done = self.ward("ls", "--json")
        return [row["id"] for row in json.loads(done.stdout)] if done.returncode == 0 else []

    def memory_kb(self):
        """What the daemon holds now."""
        with open(f"/proc/{self.process.pid}/status") as status:
            return int(re.search(r"VmRSS:\s+(\d+)", status.read())[1])

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))
