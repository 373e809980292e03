"""The registry of questions, and the descriptions of ours: one module each."""

from privod.questions.registry import GROUP, Question, load, question, questions, register

__all__ = ["GROUP", "Question", "load", "question", "questions", "register"]
