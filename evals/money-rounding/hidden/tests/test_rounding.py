import unittest
from decimal import Decimal

from invoice.lines import Line, discount
from invoice.money import percent_of
from invoice.totals import totals


def tax(cents, rate):
    return Line("x", 1, cents, Decimal(rate)).tax


class RoundingTest(unittest.TestCase):
    def test_half_a_cent_goes_away_from_zero(self):
        for cents, rate, want in (
            (50, "7", 4),  # 3.5
            (150, "7", 11),  # 10.5
            (250, "19", 48),  # 47.5
            (350, "19", 67),  # 66.5
            (1, "50", 1),
            (3, "50", 2),
            (1000, "5.25", 53),  # 52.5
        ):
            with self.subTest(cents=cents, rate=rate):
                self.assertEqual(tax(cents, rate), want)
                self.assertEqual(tax(-cents, rate), -want)

    def test_less_or_more_than_half_goes_to_the_nearest(self):
        for cents, rate, want in ((149, "7", 10), (151, "7", 11), (64, "7", 4), (65, "7", 5), (0, "19", 0), (49, "1", 0)):
            with self.subTest(cents=cents, rate=rate):
                self.assertEqual(tax(cents, rate), want)
                self.assertEqual(tax(-cents, rate), -want)

    def test_large_amounts_are_exact(self):
        self.assertEqual(percent_of(9_007_199_254_740_993_50, Decimal("1")), 9_007_199_254_740_994)

    def test_discounts_round_alike(self):
        book = Line("book", 1, 150, Decimal("19"))
        self.assertEqual(discount(book, Decimal("7")).net, -11)

    def test_a_credit_note_takes_back_the_whole_invoice(self):
        lines = [Line("a", 3, 50, Decimal("7")), Line("b", 1, 350, Decimal("19"))]
        credit = [Line(line.text, -line.quantity, line.cents, line.rate) for line in lines]
        self.assertEqual(totals(lines + credit).gross, 0)

    def test_results_are_whole_numbers(self):
        self.assertIs(type(percent_of(150, Decimal("7"))), int)
