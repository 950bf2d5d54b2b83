#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/gpu-check's runner: a bad step ends alone, and leaves nothing."""
import os
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "gpu"))

import report  # noqa: E402
import runner  # noqa: E402

SHELL = "/bin/sh"


class Runner(unittest.TestCase):
    def run_step(self, command, limit_s=20.0):
        self.said = []
        return runner.run("step", [SHELL, "-c", command], limit_s, self.said.append)

    def test_lines(self):
        r = self.run_step("echo hello; echo 'finding: it holds'; echo 'figure a b: 1.5 ms, of 3';"
                          "echo 'figure count: 7'; echo 'not possible here: a part'; printf end")
        self.assertEqual((r.state, r.findings), (runner.OK, ["it holds"]))
        self.assertEqual(r.figures, [("a b", "1.5", "ms, of 3"), ("count", "7", "")])
        self.assertEqual(r.impossible, ["a part"])
        self.assertEqual((self.said[0], self.said[-1]), ("hello", "end"))

    def test_statuses(self):
        self.assertEqual(self.run_step("exit 1").why, "exit status 1")
        r = self.run_step("echo 'failed: wrong bytes'; exit 1")
        self.assertEqual((r.state, r.why), (runner.FAILED, "wrong bytes"))
        r = self.run_step("echo 'not possible here: no GPU'; exit 77")
        self.assertEqual((r.state, r.why), (runner.IMPOSSIBLE, "no GPU"))
        r = self.run_step("kill -SEGV $$")
        self.assertEqual((r.state, r.why), (runner.FAILED, "ended by SIGSEGV"))

    def test_output_comes_while_it_runs(self):
        times = []
        runner.run("step", [SHELL, "-c", "echo first; sleep 0.5; echo second"], 20,
                   lambda _: times.append(time.monotonic()))
        self.assertGreater(times[1] - times[0], 0.3)

    def test_hang(self):
        r = self.run_step("echo begun; trap '' TERM; while :; do sleep 0.1; done", 0.5)
        self.assertEqual(r.state, runner.FAILED)
        self.assertTrue(r.why.startswith("hung"))
        self.assertEqual(self.said, ["begun"])

    def test_asked_to_end_first(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "tidied")
            self.run_step(f"trap 'touch {file}; exit 0' TERM; while :; do sleep 0.05; done", 0.5)
            self.assertTrue(os.path.exists(file))

    def test_not_built(self):
        r = runner.run("step", ["/nonexistent/program"], 1, lambda _: None)
        self.assertEqual(r.state, runner.FAILED)
        self.assertIn("was not built", r.why)

    def test_nothing_is_left(self):
        """A child with a session of its own, as a daemon makes it, ends with its step."""
        r = self.run_step("setsid sleep 1000 >/dev/null 2>&1 & echo 'finding: '$!")
        self.assertEqual(r.state, runner.OK)
        self.assertEqual(runner.children(), [])
        self.assertFalse(os.path.isdir(f"/proc/{r.findings[0].strip()}"))


class Report(unittest.TestCase):
    def test_table(self):
        results = [runner.Result("good", runner.OK, 1.0, figures=[("speed", "12", "GB/s")]),
                   runner.Result("bad", runner.FAILED, 2.0, "exit status 1", ["words " * 40])]
        text = "\n".join(report.table(results))
        for part in ("good", "FAILED", "exit status 1", "speed", "12 GB/s", "1 ok, 1 FAILED"):
            self.assertIn(part, text)
        self.assertLessEqual(max(len(line) for line in text.splitlines()), report.WIDTH)
        self.assertIn('"value": 12.0', report.as_json(results, 3))


if __name__ == "__main__":
    runner.adopt_orphans()
    unittest.main()
