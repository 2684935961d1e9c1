"""`throughput.compare_command`: two programs, run one after the other."""

from __future__ import annotations

from inner import Project

# A rate that is played, so that the machine decides nothing.
PROGRAM = """
    import sys, time
    for step in range(1, 10_000):
        time.sleep(0.16)
        print(f"step {step} throughput: {(1 + (step % 3 - 1) / 100) * float(sys.argv[1]):.3f} examples/s")
"""

TESTS = """
import sys

def test_slower(throughput, on):
    a, b = ([sys.executable, "program.py", rate] for rate in ("100", "80"))
    found = throughput.compare_command(a, b, names=("old", "new"), on=on, tolerance=0.05)
    assert [side.workload.id for side in (found.a, found.b)] == ["old", "new"]
    print("the body came to its end")
"""


def test_a_slower_program_fails_its_test_and_both_names_are_shown(project: Project) -> None:
    project.write("program.py", PROGRAM)
    project.tests(TESTS)
    session = project.run("-o", "tfperf_steps=1")
    assert (session.kinds, session.status) == ({"test_slower": "failure"}, 1), session.text
    assert "the body came to its end" in session.text
    assert "slower than old" in session.text
