"""Who learns what in a joint run; the same table as docs/leakage.md, one sentence per cell."""

from __future__ import annotations

from privod.privacy import Secrecy

__all__ = ["secrecy_of"]

EACH = "each party"
HUB = "the aggregator"

_HORIZONTAL_SEALED = (
    (
        EACH,
        "which of its own records are suspects, the number of records in all, and for every slot of"
        " the keyed table how many records all parties have there, unless these are few (then 0) or"
        " many (then at least the limit); with them it can ask how crowded any place is, and where"
        " it has enough records itself it reads exactly how many the others have, even one or none;"
        " a dishonest party that sends false counts can locate isolated records of the others",
    ),
    (
        HUB,
        "the number of records in all and the counts of slots whose places it does not know",
    ),
)
_HORIZONTAL_NOISY = (
    (
        EACH,
        "which of its own records are suspects, the number of records in all, and a table of counts"
        " that is differentially private",
    ),
    (HUB, "the number of records in all and the same noisy counts, whose places it does not know"),
)
_VERTICAL_SEALED = (
    (EACH, "the row numbers of the suspects, the number of records, and who has which columns"),
    (
        "the first party with the second",
        "for every row and table whether its bin holds more than a crowd",
    ),
    (
        HUB,
        "the number of records, who has which columns, and for every table a list of nameless"
        " coarse records in a fresh order: in which slab of its own columns every party has each;"
        " for a party of one column nearly its column, though not whose value is whose; which small"
        " groups of records with a rare value return in the next table; how often each nameless"
        " record was in a crowd; with any party's help everything",
    ),
)
_HORIZONTAL_PAPER = (
    (
        EACH,
        "which of its own records are outlying, and the exact number of records of the others in"
        " every bin: enough to locate the others' isolated records",
    ),
    (HUB, "all of that as well, since the hash parameters are published"),
)
_VERTICAL_PAPER = (
    (
        "the first party",
        "all projections of the others' columns: their distances, often the columns themselves,"
        " and every value once a few records are known",
    ),
    ("each other party", "the row numbers of the outliers"),
    (HUB, "all projections of all columns"),
)


_VERIFIED = {
    "horizontal": (
        (
            EACH,
            "the values of all parties' suspects, by party, and which of them have a crowd; a"
            " dishonest party counts the others' records around any place, exactly",
        ),
        (
            HUB,
            "how many suspects every party has, and how many records lie near each, every party's"
            " part of them up to a crowd",
        ),
    ),
    "vertical": (
        (EACH, "which suspects have a crowd, and roughly how near it is to the limit"),
        (
            HUB,
            "how many suspects there are, and for every nameless one how many records, of a sample"
            " or of all, lie at which distance, in thousandths of a squared radius: enough to"
            " recognize a suspect whose values, and others', it knows",
        ),
    ),
}


def secrecy_of(
    partition: str, protocol: str, noise_colluders: int | None, *, verify: bool = False
) -> Secrecy:
    """Return the promise of a protocol in words; None colluders of the noise: there is no noise."""
    promised = _unverified(partition, protocol, noise_colluders)
    if not verify:
        return promised
    learns = (*promised.learns, *_VERIFIED[partition])
    # Not noisy even where the tables are: crowds of suspects are counted without noise.
    return Secrecy(f"{promised.protocol}, verified", learns, promised.colluders)


def _unverified(partition: str, protocol: str, noise_colluders: int | None) -> Secrecy:
    if protocol == "paper":
        learns = _HORIZONTAL_PAPER if partition == "horizontal" else _VERTICAL_PAPER
        return Secrecy(f"{partition}, as published", learns, 0)
    if partition == "vertical":
        return Secrecy("vertical, sealed", _VERTICAL_SEALED, 0)
    if noise_colluders is None:
        return Secrecy("horizontal, sealed", _HORIZONTAL_SEALED, 0)
    return Secrecy("horizontal, sealed, with noise", _HORIZONTAL_NOISY, noise_colluders, noisy=True)
