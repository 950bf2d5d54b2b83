# SPDX-License-Identifier: Apache-2.0
"""The figures of the measured rounds, as a table for people and as JSON."""
import statistics

ROWS = ("engine A, cold", "engine B, another process", "engine A again")
LINE = "  {:28}{:>11}{:>9}{:>9}{:>11}{:>11}"


def median_ms(rounds, row):
    return statistics.median(answers[row].ttft_ms for answers in rounds)


def megabytes(count):
    return f"{count / 1e6:.1f} MB" if count else "0"


def bytes_per_token(system):
    formats = system.kvctl_json("formats")
    return formats[0]["block_bytes"] / formats[0]["page_tokens"] if formats else 0


def of_rounds(rounds, system):
    other = rounds[-1][1]
    return {
        "prompt_tokens": other.prompt_tokens,
        "cached_tokens": other.cached_tokens,
        "ttft_cold_ms": median_ms(rounds, 0),
        "ttft_other_process_ms": median_ms(rounds, 1),
        "ttft_same_process_ms": median_ms(rounds, 2),
        "kv_bytes_copied": sum(a.kvd["kv_bytes_copied"] for answers in rounds for a in answers),
        "tail_bytes_copied": other.kvd["tail_bytes_copied"],
        "memory_saved_bytes": int(other.cached_tokens * bytes_per_token(system)),
        "rounds": len(rounds),
    }


def table(rounds, figures):
    """Lines to print."""
    lines = [f"Time to the first token, median of {len(rounds)}:", "",
             LINE.format("", "TTFT", "prompt", "cached", "copied", "copied"),
             LINE.format("", "", "tokens", "tokens", "to share", "as a tail")]
    for row, name in enumerate(ROWS):
        answer = rounds[-1][row]
        lines.append(LINE.format(name, f"{median_ms(rounds, row):.1f} ms", answer.prompt_tokens,
                                 answer.cached_tokens, megabytes(answer.kvd["kv_bytes_copied"]),
                                 megabytes(answer.kvd["tail_bytes_copied"])))
    total, cached = figures["prompt_tokens"], figures["cached_tokens"]
    ratio = figures["ttft_other_process_ms"] / figures["ttft_cold_ms"]
    saved = megabytes(figures["memory_saved_bytes"])
    lines += ["", f"  B took {ratio:.1%} of the cold time; {(total - cached) / total:.1%} of its "
              "tokens were not in the cache.",
              f"  Memory saved, for a second copy of the prefix would take it: {saved}."]
    return lines
