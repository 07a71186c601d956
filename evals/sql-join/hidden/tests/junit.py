"""Runs the hidden checks and writes their results to junit.xml: python3 tests/junit.py"""

import sys
import xml.etree.ElementTree as xml

sys.path.insert(0, ".")

from shop.db import connect
from shop.reports import parcels, revenue, waiting

CUSTOMERS = "INSERT INTO customers VALUES (1, 'Ann'), (2, 'Bo'), (3, 'Cy');"


def ask(report, orders, lines, shipments):
    """The rows of a report over a database with the given rows."""
    connection = connect()
    connection.executescript(CUSTOMERS)
    connection.executemany("INSERT INTO orders VALUES (?, ?, ?)", orders)
    connection.executemany("INSERT INTO lines VALUES (?, ?, ?, ?)", lines)
    connection.executemany("INSERT INTO shipments VALUES (?, ?, ?)", shipments)
    try:
        return report(connection)
    finally:
        connection.close()


def parcels_of(order, count):
    return [(order, "2024-05-02", f"P{order}-{n}") for n in range(count)]


def same(got, want):
    assert got == want, f"got {got}, want {want}"


def several_parcels_count_once():
    lines = [(1, "nut", 10, 5), (1, "bolt", 2, 30)]
    same(ask(revenue, [(1, 1, "2024-05-01")], lines, parcels_of(1, 3)), [("Ann", 110)])


def equal_lines_count_each():
    lines = [(1, "nut", 10, 5), (1, "nut", 10, 5), (1, "bolt", 5, 10)]
    same(ask(revenue, [(1, 1, "2024-05-01")], lines, parcels_of(1, 2)), [("Ann", 150)])


def equal_orders_count_each():
    orders = [(1, 1, "2024-05-01"), (2, 1, "2024-05-01")]
    lines = [(1, "nut", 1, 700), (2, "nut", 1, 700)]
    same(ask(revenue, orders, lines, parcels_of(1, 2) + parcels_of(2, 1)), [("Ann", 1400)])


def unsent_orders_do_not_count():
    orders = [(1, 1, "2024-05-01"), (2, 1, "2024-05-03"), (3, 2, "2024-05-03")]
    lines = [(1, "nut", 1, 5), (2, "gear", 1, 900), (3, "gear", 1, 900)]
    same(ask(revenue, orders, lines, parcels_of(1, 1)), [("Ann", 5)])


def the_largest_comes_first():
    orders = [(1, 1, "2024-05-01"), (2, 2, "2024-05-01"), (3, 3, "2024-05-01")]
    lines = [(1, "nut", 1, 300), (2, "gear", 1, 500), (3, "nut", 1, 300)]
    sent = parcels_of(1, 4) + parcels_of(2, 1) + parcels_of(3, 1)
    same(ask(revenue, orders, lines, sent), [("Bo", 500), ("Ann", 300), ("Cy", 300)])


def the_other_reports_are_as_before():
    orders = [(1, 1, "2024-05-01"), (2, 2, "2024-05-02")]
    same(ask(parcels, orders, [], parcels_of(1, 3)), [("Ann", 3)])
    same(ask(waiting, orders, [], parcels_of(1, 3)), [(2, "Bo", "2024-05-02")])


CHECKS = [
    several_parcels_count_once,
    equal_lines_count_each,
    equal_orders_count_each,
    unsent_orders_do_not_count,
    the_largest_comes_first,
    the_other_reports_are_as_before,
]


def main():
    suite = xml.Element("testsuite", name="hidden")
    failures = 0
    for check in CHECKS:
        case = xml.SubElement(suite, "testcase", classname="reports", name=check.__name__)
        try:
            check()
        except Exception as error:
            failures += 1
            xml.SubElement(case, "failure", message=str(error))
    suite.set("tests", str(len(CHECKS)))
    suite.set("failures", str(failures))
    xml.ElementTree(suite).write("junit.xml", encoding="utf-8", xml_declaration=True)
    return 1 if failures else 0


sys.exit(main())
