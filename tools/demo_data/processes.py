# SPDX-License-Identifier: Apache-2.0
"""Starts the programs, waits until each says that it is ready, and stops them."""
import json
import os
import select
import signal
import subprocess
import sys
import time

READY_SECONDS = 180
STOP_SECONDS = 10


class StartError(Exception):
    """A program did not get ready, or failed; the message names its log."""


class Program:
    def __init__(self, name, argv, log):
        self.name = name
        self.log = log
        self.ready_fd, write_fd = os.pipe()
        with open(log, "wb") as out:
            self.process = subprocess.Popen(
                [*argv, "--ready-fd", str(write_fd)], stdin=subprocess.DEVNULL, stdout=out,
                stderr=out, pass_fds=[write_fd], start_new_session=True)
        os.close(write_fd)

    @property
    def pid(self):
        return self.process.pid

    def wait_ready(self):
        """What stands after `ready ` in the line that it writes."""
        got = b""
        deadline = time.monotonic() + READY_SECONDS
        while not got.endswith(b"\n"):
            left = max(deadline - time.monotonic(), 0)
            ready = select.select([self.ready_fd], [], [], left)[0]
            more = os.read(self.ready_fd, 4096) if ready else b""
            if not more:
                raise StartError(f"{self.name} did not get ready: see {self.log}\n{self.tail()}")
            got += more
        os.close(self.ready_fd)
        return got.decode().split(maxsplit=1)[1].strip()

    def tail(self):
        with open(self.log, "rb") as f:
            return b"\n".join(f.read().splitlines()[-10:]).decode(errors="replace")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        if self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            print(f"{self.name} did not end in {STOP_SECONDS} s: see {self.log}", file=sys.stderr)
            self.kill()


class System:
    """One kvd, and the engines on it."""

    def __init__(self, build, logs, model, runtime, kvd_options=("--pool-bytes", "1GiB"),
                 engine_options=()):
        self.build, self.logs, self.model, self.runtime = build, logs, model, runtime
        self.kvd_options, self.engine_options = kvd_options, engine_options
        self.socket = os.path.join(runtime, "kvd.sock")
        self.programs = []

    def start(self, name, program, *args):
        argv = [os.path.join(self.build, program), "--socket", self.socket, *args]
        started = Program(name, argv, os.path.join(self.logs, name + ".log"))
        self.programs.append(started)
        return started

    def start_kvd(self):
        kvd = self.start("kvd", "kvd/kvd", "--state-dir", os.path.join(self.runtime, "state"),
                         *self.kvd_options)
        kvd.wait_ready()
        return kvd

    def start_engine(self, name):
        """Not ready yet: several load their models side by side."""
        return self.start(name, "engine/kvengine", "--model", self.model, "--port", "0", "--name",
                          name, *self.engine_options)

    def kvctl(self, *args):
        argv = [os.path.join(self.build, "tools/kvctl/kvctl"), "--socket", self.socket, *args]
        out = subprocess.run(argv, capture_output=True, text=True, check=False)
        if out.returncode != 0:
            raise StartError(f"kvctl {' '.join(args)}: {out.stderr.strip()}")
        return out.stdout

    def kvctl_json(self, *args):
        return json.loads(self.kvctl(*args, "--json"))

    def stop(self):
        for program in reversed(self.programs):
            program.stop()


def mapped_memory(pid):
    """(inode, offset) -> bytes of every memory file that a process maps."""
    found = {}
    with open(f"/proc/{pid}/maps", encoding="utf-8") as f:
        for line in f:
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and fields[5].startswith("/memfd:"):
                start, end = (int(x, 16) for x in fields[0].split("-"))
                found[int(fields[4]), int(fields[2], 16)] = end - start
    return found


def shared_memory(pid_a, pid_b):
    """What both of them map: the same inode at the same offset."""
    b = mapped_memory(pid_b)
    return {key: size for key, size in mapped_memory(pid_a).items() if key in b}
