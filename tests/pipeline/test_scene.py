"""A violation, drawn: each message of the scene from its send to its receives."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from bus.journal.rules import Verdict
from bus.journal.violation import Violation
from bus.pipeline.scene import draw_scene
from tests.pipeline.page import Page

VIOLATION = Violation(
    "Q3", Verdict.FAIL, "twice", "", flow=2, seq=3, sender="a", receiver="b"
)

# The drawing of message 3: its number on both lines, arrows, and marks.
SCENES = {
    "received": (["send", "receive"], 2, 1),
    "received twice": (["send", "receive", "receive"], 3, 2),
    "never received": (["send"], 1, 1),
    "from nowhere": (["receive"], 1, 1),
    "dropped": (["send", "drop"], 2, 1),
}


def records(*kinds: str, seq: int = 3) -> list[dict[str, Any]]:
    return [
        {"n": n, "kind": kind, "seq": seq, "mono": n, "journal": 1}
        for n, kind in enumerate(kinds)
    ]


@pytest.mark.parametrize("name", SCENES)
def test_a_message_is_drawn_from_its_send_to_each_receive(name: str) -> None:
    kinds, numbers, arrows = SCENES[name]

    figure = draw_scene("scene", VIOLATION, records(*kinds))

    page = Page(figure)
    assert page.problems == []
    words = page.text.split()
    assert words.count("3") == numbers
    assert words.count("?") == (name == "from nowhere")
    # The figure and its axes are patches, and so is each arrow.
    assert figure.count('id="scene-patch_') == 2 + arrows
    assert " ".join(words).count("from a") == " ".join(words).count("to b") == 1


def test_only_the_message_that_broke_the_rule_stands_out() -> None:
    among = [*records("send", "receive"), *records("send", "receive", seq=4)]

    alone = draw_scene("scene", VIOLATION, records("send", "receive"))
    both = draw_scene("scene", VIOLATION, among)
    other = draw_scene("scene", attrs.evolve(VIOLATION, seq=9), among)

    assert both.count("var(--series-2)") == alone.count("var(--series-2)") > 0
    assert other.count("var(--series-2)") == 0


def test_where_there_are_no_records_there_is_no_picture() -> None:
    assert draw_scene("scene", VIOLATION, []) == ""
