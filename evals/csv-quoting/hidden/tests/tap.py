"""Runs the hidden checks and prints TAP: python3 tests/tap.py"""

import csv
import io
import sys
import traceback

sys.path.insert(0, ".")

from contacts.export import calls_csv, contacts_csv
from contacts.model import Call, Contact

HARD = ['5" pipes', 'the "Old Mill"', "two\nlines", "carriage\rreturn", 'all, of "it"\r\nat once', '"', '""', ",", "it's", ""]


def read(text):
    """What a reader that keeps to the standard sees."""
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


def contact_fields_survive():
    contacts = [Contact(f"n{n}", value, value) for n, value in enumerate(HARD)]
    assert read(contacts_csv(contacts))[1:] == [[c.name, c.company, c.city] for c in contacts]


def call_notes_survive():
    calls = [Call(f"2024-05-{n:02}", value) for n, value in enumerate(HARD, start=1)]
    assert read(calls_csv([Contact("Ann", "x", calls=calls)]))[1:] == [[c.day, "Ann", c.note] for c in calls]


def quotes_are_doubled():
    assert contacts_csv([Contact("A", 'the "Old Mill"')]).split("\r\n")[1] == 'A,"the ""Old Mill""",'


def plain_fields_stay_plain():
    assert contacts_csv([Contact("it's Ann", "Ek; AB", "Åre")]).split("\r\n")[1] == "it's Ann,Ek; AB,Åre"


CHECKS = [contact_fields_survive, call_notes_survive, quotes_are_doubled, plain_fields_stay_plain]


def main():
    failed = 0
    print("TAP version 13")
    print(f"1..{len(CHECKS)}")
    for number, check in enumerate(CHECKS, start=1):
        try:
            check()
            print(f"ok {number} - {check.__name__}")
        except Exception:
            failed += 1
            print(f"not ok {number} - {check.__name__}")
            print("".join("# " + line + "\n" for line in traceback.format_exc().splitlines()), end="")
    return 1 if failed else 0


sys.exit(main())
