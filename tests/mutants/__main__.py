"""``python -m tests.mutants [--quick] [ID ...]``."""
from __future__ import annotations
import argparse, os, sys, time, json
from collections import Counter
from tests.mutants.catalogue import load_faults
from tests.mutants.collected import Collected, Outcome
from tests.mutants.edit import MutantError
from tests.mutants.forks import Forks, Trial

def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("ids", nargs="*")
    parser.add_argument("--log")
    options = parser.parse_args(arguments)
    os.environ["TEST_DEEP"] = "1"
    os.environ["TEST_LIMIT_S"] = "5"
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    import compileall
    for each in ("queuebroker", "bus"): compileall.compile_dir(each, quiet=2)
    began = time.monotonic()
    faults = [f for f in load_faults() if not options.ids or f.id in options.ids]
    rows = {}
    base = {}
    log = open(options.log, "a") if options.log else sys.stdout
    def baseline(test, locked):
        if (test, locked) not in base:
            base[test, locked] = None
            out = yield Trial({}, (test,), 130, locked)
            base[test, locked] = out
            print("BASE", test, locked, out, file=log, flush=True)
        return base[test, locked]
    def judge(f):
        try:
            trees = f.trees()
        except MutantError as e:
            rows[f.id] = "TROUBLE"; print(f.id, "TROUBLE", e, file=log, flush=True); return
        b = yield from baseline(f.test, f.locked)
        t0 = time.monotonic()
        limit = 20 if b is None else 10 + 4 * sum(r.seconds for r in b.passed.values())
        out = yield Trial(trees, (f.test,), limit, f.locked)
        how = "swap"
        if not out.failed:
            print(f.id, "again", out.passed.keys(), out.trouble, file=log)
            how = "planted"
            out = yield Trial(trees, (f.test,), limit, f.locked, planted=True)
        rows[f.id] = how if out.failed else "LIVES"
        print(f.id, rows[f.id], "%.2f" % (time.monotonic() - t0), out, file=log, flush=True)
    def work(tests):
        print("collected", time.monotonic() - began, file=log, flush=True)
        forks = Forks(tests)
        print("ready", time.monotonic() - began, file=log, flush=True)
        try:
            forks.run(judge(f) for f in faults)
        finally:
            forks.close()
    print("loaded", time.monotonic() - began, len(faults))
    trouble = Collected(work).main(sorted({f.test.partition("::")[0] for f in faults}))
    print(trouble, Counter(rows.values()), time.monotonic() - began, file=log, flush=True)
    sys.stdout.flush()
    log.flush(); os._exit(0)
if __name__ == "__main__":
    main()
