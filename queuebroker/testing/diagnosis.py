"""`diagnose`: make a readable `Failure` from a run that failed.

The schedule is translated for `replay`, shortened within a limited number of tries, and
run once more with a recorder, for the story.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from queuebroker.testing.failure import Failure, FailureKind, Trouble, UncontrolledError
from queuebroker.testing.recorder import Notices, Recorder
from queuebroker.testing.search import Forced, Reduced
from queuebroker.testing.shorten import shortened, trimmed
from queuebroker.testing.story import tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queuebroker.testing.experiment import Experiment

__all__ = ["diagnose", "failure_of", "translate"]


def translate(experiment: Experiment, choices: Sequence[int]) -> list[int]:
    """Translate a schedule of an exhaustive search into one for `replay`.

    That search has no switch points after releases; all other runs have them.
    """
    strategy = Reduced(choices)
    experiment.run(strategy)
    return strategy.choices


def diagnose(
    experiment: Experiment, trouble: Trouble, schedule: Sequence[int], seed: str
) -> Failure:
    """Return the failure to raise for a schedule that ended in ``trouble``."""
    if trouble.hung or trouble.kind is FailureKind.NONDETERMINISTIC:
        # Another run would hang again, or take another course.
        return failure_of(experiment, trouble, None, schedule, seed)
    short = list(schedule)
    if trouble.kind is not FailureKind.UNCONTROLLED:
        short = shortened(experiment, trouble.kind, schedule)
    recorder = Recorder()
    outcome = experiment.run(Forced(short), recorder=recorder)
    if trouble.kind is FailureKind.UNCONTROLLED and outcome.trouble is None:
        # An object that the explorer does not control may behave differently each time.
        return failure_of(experiment, trouble, None, short, seed)
    if outcome.trouble is None or outcome.trouble.kind is not trouble.kind:
        again = f"in {outcome.trouble.kind}" if outcome.trouble else "well"
        trouble = Trouble(
            FailureKind.NONDETERMINISTIC,
            f"a schedule that ended in {trouble.kind} ({trouble.text}) ended {again}"
            " when it was run again: the program does not do the same each time",
            error=trouble.error,
        )
        return failure_of(experiment, trouble, None, short, seed)
    return failure_of(experiment, outcome.trouble, recorder, short, seed)


def failure_of(
    experiment: Experiment,
    trouble: Trouble,
    recorder: Recorder | None,
    schedule: Sequence[int],
    seed: str,
) -> Failure:
    """Return a failure with its story, and with the original exception as its cause."""
    schedule = trimmed(schedule)
    if trouble.kind is FailureKind.DEADLOCK and recorder is not None:
        trouble = _looked_into(experiment, trouble, recorder, schedule)
    extra = f", spurious={experiment.spurious}" if experiment.spurious else ""
    if experiment.modules:
        names = ", ".join(module.__name__ for module in experiment.modules)
        extra += f", modules=[{names}]"
    if experiment.bytecode is not None:
        extra += f", bytecode=[{', '.join(experiment.bytecode.names)}]"
    hint = [f"replay with: replay(program, {schedule}{extra})"]
    if seed:
        hint.append(f"seed: {seed}")
    story = tell(trouble, recorder or Recorder(), hint)
    if trouble.kind is FailureKind.UNCONTROLLED:
        failure: Failure = UncontrolledError(trouble.kind, story, schedule, seed)
    else:
        failure = Failure(trouble.kind, story, schedule, seed)
    failure.__cause__ = trouble.error
    return failure


def _looked_into(
    experiment: Experiment,
    trouble: Trouble,
    recorder: Recorder,
    schedule: Sequence[int],
) -> Trouble:
    """Classify a deadlock as a lost wake-up, if the run succeeds with that wake-up."""
    if not recorder.missed:
        return trouble
    keeping = Recorder(Notices(keeping=True))
    outcome = experiment.run(Forced(schedule, lenient=True), recorder=keeping)
    if outcome.trouble is not None:
        return trouble
    sleeper, notice = recorder.missed[0]
    return Trouble(
        FailureKind.LOST_WAKEUP,
        f"{sleeper} sleeps, {notice.task} notified it too early, and no thread will"
        " again",
    )
