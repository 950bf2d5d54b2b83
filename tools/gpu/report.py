# SPDX-License-Identifier: Apache-2.0
"""The one table at the end, and the same as JSON."""
import json
import textwrap
from collections import Counter

WIDTH = 100
NAME = 22
INDENT = " " * (NAME + 30)


def row(name, state, seconds, text):
    head = f"{name:{NAME}}  {state:17}  {seconds:>6.1f} s  "
    lines = textwrap.wrap(text, WIDTH - len(INDENT)) or [""]
    return "\n".join([head + lines[0], *(INDENT + line for line in lines[1:])]).rstrip()


def note(text):
    return textwrap.indent("\n".join(textwrap.wrap(text, WIDTH - 6)), " " * 6)


def table(results):
    """Lines."""
    out = ["", f"{'step':{NAME}}  {'result':17}  {'time':>8}", "-" * WIDTH]
    for r in results:
        out.append(row(r.step, r.state, r.seconds, r.why))
        out += [note(f) for f in r.findings]
        out += [note(f"not possible here: {f}") for f in r.impossible]
        out += [f"      {name:44} {value:>14} {unit}".rstrip() for name, value, unit in r.figures]
    count = Counter(r.state for r in results)
    out += ["-" * WIDTH, ", ".join(f"{n} {state}" for state, n in count.items())]
    return out


def number(value):
    try:
        return float(value)
    except ValueError:
        return value


def as_json(results, seconds):
    steps = [{"step": r.step, "result": r.state, "seconds": round(r.seconds, 3), "why": r.why,
              "findings": r.findings, "impossible": r.impossible,
              "figures": [{"name": n, "value": number(v), "unit": u} for n, v, u in r.figures]}
             for r in results]
    return json.dumps({"seconds": round(seconds, 1), "steps": steps}, indent=2) + "\n"
