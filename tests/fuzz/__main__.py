"""Many seeds: `python -m tests.fuzz COUNT [FIRST]`. What fails is named by its seed, and the run goes on."""

import sys
import time
import traceback

from tests.fuzz.seeds import run

_TELL_SECONDS = 10.0


def main(count: int, first: int) -> int:
    failed = []
    told = time.monotonic()
    for seed in range(first, first + count):
        started = time.monotonic()
        try:
            run(seed)
        except Exception:  # noqa: BLE001 - any kind is what is looked for
            failed.append(seed)
            print(f"seed {seed}:", file=sys.stderr)
            traceback.print_exc()
        if started - told > _TELL_SECONDS:
            told = started
            print(f"{seed - first} of {count}, {len(failed)} failed", flush=True)
    print(f"{count} seeds from {first}: " + (f"failed: {failed}" if failed else "all hold"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0))
