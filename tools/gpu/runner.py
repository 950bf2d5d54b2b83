# SPDX-License-Identifier: Apache-2.0
"""Runs one step: its own process group, its own time limit, its output as it comes.

A step is a program. What it prints goes to the screen and is read for three kinds of lines:

    finding: WORDS               a sentence for the table
    figure NAME: VALUE [UNIT]    a number for the table
    not possible here: WHY       with exit status 77: the host forbids the whole step
    failed: WHY                  beside another exit status

Whatever a step leaves behind (its children may have made sessions of their own) is ended before the
next one begins: this process adopts orphans.
"""
import ctypes
import os
import re
import select
import signal
import subprocess
import time
from dataclasses import dataclass, field

OK, FAILED, IMPOSSIBLE, NOT_RUN = "ok", "FAILED", "not possible here", "NOT RUN"

EXIT_IMPOSSIBLE = 77
END_SECONDS = 3      # between the request to end and the kill
STUCK_SECONDS = 5    # after the kill: a process in the driver may not die
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36

FIGURE = re.compile(r"figure (.+?): (\S+)(?: (.*))?$")


@dataclass
class Result:
    step: str
    state: str = NOT_RUN
    seconds: float = 0.0
    why: str = ""
    findings: list = field(default_factory=list)
    figures: list = field(default_factory=list)  # (name, value, unit)
    impossible: list = field(default_factory=list)

    def read(self, line):
        figure = FIGURE.match(line)
        if figure:
            self.figures.append((figure[1], figure[2], figure[3] or ""))
        elif line.startswith("failed: "):
            self.why = line[8:]
        elif line.startswith("finding: "):
            self.findings.append(line[9:])
        elif line.startswith("not possible here: "):
            self.impossible.append(line[19:])


def adopt_orphans():
    """From now on the children of ended children are ours."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def begin_child():
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def children():
    found = []
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/children", encoding="ascii") as f:
                found += [int(pid) for pid in f.read().split()]
        except OSError:
            continue
    return found


def signal_group(pid, number):
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        pass


def reap(pid):
    """Whether the child is gone."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def end_orphans(say):
    """Ends what the step left; returns the processes that do not die."""
    deadline = time.monotonic() + STUCK_SECONDS
    while True:
        left = [pid for pid in children() if not reap(pid)]
        if not left or time.monotonic() > deadline:
            break
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    for pid in left:
        say(f"process {pid} does not die: it hangs in the driver")
    return left


def stream(process, deadline, result, say):
    """Output until its end or the deadline; whether the end came."""
    rest = b""
    fd = process.stdout.fileno()
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        if not select.select([fd], [], [], min(left, 0.2))[0]:
            if process.poll() is not None:
                return True  # a child of it holds the pipe
            continue
        more = os.read(fd, 65536)
        *lines, rest = (rest + more).split(b"\n")
        if not more and rest:
            lines.append(rest)
        for line in lines:
            text = line.decode(errors="replace").rstrip()
            result.read(text)
            say(text)
        if not more:
            return True


def end(process):
    """Asks, then kills. Whether it died."""
    for number, seconds in ((signal.SIGTERM, END_SECONDS), (signal.SIGKILL, STUCK_SECONDS)):
        signal_group(process.pid, number)
        try:
            process.wait(seconds)
            return True
        except subprocess.TimeoutExpired:
            continue
    return False


def judge(result, status):
    if status == 0:
        result.state, result.why = OK, ""
    elif status == EXIT_IMPOSSIBLE:
        result.state = IMPOSSIBLE
        result.why = result.impossible.pop() if result.impossible else "it does not say why"
    elif status < 0:
        result.state, result.why = FAILED, f"ended by {signal.Signals(-status).name}"
    else:
        result.state, result.why = FAILED, result.why or f"exit status {status}"


def run(name, argv, limit_s, say, env=None):
    """One step; never raises for what the step does."""
    result = Result(name)
    start = time.monotonic()
    if not os.access(argv[0], os.X_OK):
        result.state, result.why = FAILED, f"{argv[0]} was not built"
        say(result.why)
        return result
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, preexec_fn=begin_child, env=env)
    ended = stream(process, start + limit_s, result, say)
    if ended:
        try:
            judge(result, process.wait(max(start + limit_s - time.monotonic(), 1)))
        except subprocess.TimeoutExpired:
            ended = False
    if not ended:
        result.state, result.why = FAILED, f"hung: no end after {limit_s:.0f} s"
        if not end(process):
            result.why += "; it does not die"
    signal_group(process.pid, signal.SIGKILL)
    process.stdout.close()
    end_orphans(say)
    result.seconds = time.monotonic() - start
    return result
