"""One JSON model of every noun: command line, server and client write and read the same.

`reading` turns nouns into the curator's own values, and `protocol` says what can be asked of any
curator; both need the whole library, so they are imported by name.
"""

from privod.wire.codec import decode, encode, to_text
from privod.wire.nouns import (
    Answer,
    AnswerListed,
    Budget,
    Charge,
    DataSet,
    Entry,
    Guarantee,
    Job,
    JobListed,
    JobState,
    Loss,
    NewToken,
    Parameter,
    Preview,
    Price,
    PricedCharge,
    Question,
    Registered,
    Role,
    Token,
    Verification,
    Visitor,
    answer_key,
    token_id,
)
from privod.wire.problems import Failure, Problem, kind_of, problem_of
from privod.wire.requests import Ask, AskPrice, MakeToken, OpenBudget, Verify

__all__ = [
    "Answer",
    "AnswerListed",
    "Ask",
    "AskPrice",
    "Budget",
    "Charge",
    "DataSet",
    "Entry",
    "Failure",
    "Guarantee",
    "Job",
    "JobListed",
    "JobState",
    "Loss",
    "MakeToken",
    "NewToken",
    "OpenBudget",
    "Parameter",
    "Preview",
    "Price",
    "PricedCharge",
    "Problem",
    "Question",
    "Registered",
    "Role",
    "Token",
    "Verification",
    "Verify",
    "Visitor",
    "answer_key",
    "decode",
    "encode",
    "kind_of",
    "problem_of",
    "to_text",
    "token_id",
]
