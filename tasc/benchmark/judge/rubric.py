"""What a judge is asked, and how its scores are read.

The rubric is that of "Task-Centric Acceleration" (appendix B.1, figure 9), which follows Kweon et
al. 2024; "clinical" and "discharge summary" are those of the task at hand.
"""

from collections.abc import Sequence
from dataclasses import dataclass

SCORES = (1, 2, 3, 4)
MOST_ANSWERS = 26  # each has a letter

_CRITERIA = """\
1. Unacceptable (1 point): The model's response includes any incorrect or irrelevant content. If \
the instruction was unanswerable, the model did not acknowledge this and outputs the wrong answer.
2. Poor (2 points): The model's response does not contain any incorrect or irrelevant content but \
omits significant or crucial content required by the instruction.
3. Satisfactory (3 points): The model's response does not contain any incorrect or irrelevant \
content but omits minor or insignificant required content.
4. Excellent (4 points): The model's response contains all necessary information. If the \
instruction was unanswerable, the model correctly acknowledged this."""


@dataclass(frozen=True)
class Question:
    """What is to be judged, but for the answers."""

    prompt: str  # that the models were given
    instruction: str  # what the task asks of them
    domain: str = ""  # of the task, as "clinical"; any where empty
    reference: str | None = None  # the expected output, if the judge is to know it

    def text(self, answers: Sequence[str]) -> str:
        """Return what the judge is asked about ``answers``, in their order."""
        number, of_domain = len(answers), f"{self.domain} " if self.domain else ""
        shown = [("Prompt", self.prompt), ("Instruction", self.instruction)]
        shown += [] if self.reference is None else [("Reference Answer", self.reference)]
        shown += [(f"Agent {chr(65 + i)}'s Answer", text) for i, text in enumerate(answers)]
        known = "" if self.reference is None else " The reference answer is a correct one."
        parts = [
            f"You are an intelligent {of_domain}language model.",
            *(f"[{name} Begin]\n{text}\n[{name} End]" for name, text in shown),
            "Above, we provide you with a prompt and the instruction that was given about the "
            f"prompt.{known} You are also provided with {number} corresponding responses from "
            f"{number} different {of_domain}models. Your task is to read the prompt and the "
            "instruction carefully, then find the answer to the instruction. Then, compare your "
            "answer with each model's response and evaluate the response based on the following "
            f"criteria. Criteria:\n{_CRITERIA}",
            "When evaluating each score, ensure that judgments are not affected by other model "
            "responses.",
            reminder(number),
        ]
        return "\n\n".join(parts)


def reminder(number: int) -> str:
    """Say what the first line of the judge's reply must be."""
    return (
        f"The first line must contain only {number} values, separated by spaces. Output scores "
        "without explanation."
    )


def parse(reply: str, number: int) -> tuple[int, ...] | None:
    """Return the scores in the first line of a reply; None where it holds anything else.

    Example: "4 2" and "4 2\\n\\nThe first answer…" are (4, 2) of two; "4, 2" and "A: 4" are None.
    """
    first = reply.lstrip().partition("\n")[0].split()
    digits = {str(score) for score in SCORES}
    if len(first) != number or not digits.issuperset(first):
        return None
    return tuple(map(int, first))
