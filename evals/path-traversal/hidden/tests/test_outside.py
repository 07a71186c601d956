import os
import tempfile
import unittest

from files.app import App


class OutsideTest(unittest.TestCase):
    """A public folder beside folders whose names begin alike, with links of every kind in it."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.top = temporary.name
        self.root = os.path.join(self.top, "public")
        for name in ("public/docs/a.txt", "public/..data/b.txt", "public-private/key.txt", "public2", "other/key.txt"):
            path = os.path.join(self.top, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(name)
        for link, target in {
            "inside.txt": "docs/a.txt",
            "inside": "docs",
            "leaving.txt": "../other/key.txt",
            "leaving": "../other",
            "sibling": "../public-private",
            "absolute.txt": os.path.join(self.top, "other/key.txt"),
            "chained.txt": "leaving.txt",
        }.items():
            os.symlink(target, os.path.join(self.root, link))

    def status(self, path, root=None):
        return int(App(root or self.root).answer("GET", path)[0][:3])

    def test_siblings_with_the_same_beginning(self):
        for path in ("/../public-private/key.txt", "/docs/../../public-private/key.txt", "/../public2", "/../public-private"):
            with self.subTest(path):
                self.assertEqual(self.status(path), 403)

    def test_links_that_leave(self):
        for path in ("/leaving.txt", "/leaving/key.txt", "/leaving", "/sibling/key.txt", "/absolute.txt", "/chained.txt"):
            with self.subTest(path):
                self.assertEqual(self.status(path), 403)

    def test_links_that_stay(self):
        for path in ("/inside.txt", "/inside/a.txt", "/inside"):
            with self.subTest(path):
                self.assertEqual(self.status(path), 200)

    def test_the_folder_itself_and_odd_names(self):
        self.assertEqual(self.status("/"), 200)
        self.assertEqual(self.status(""), 200)
        self.assertEqual(self.status("/..data/b.txt"), 200)
        self.assertEqual(self.status("/docs/missing.txt"), 404)

    def test_a_public_folder_that_is_reached_by_a_link(self):
        alias = os.path.join(self.top, "alias")
        os.symlink(self.root, alias)
        for root in (alias, self.root + "/", self.root + "/docs/.."):
            with self.subTest(root):
                self.assertEqual(self.status("/docs/a.txt", root), 200)
                self.assertEqual(self.status("/../other/key.txt", root), 403)

    def test_plain_ways_out(self):
        for path in ("/..", "/../other/key.txt", "/docs/../../other/key.txt", "//etc/passwd/../../.."):
            with self.subTest(path):
                self.assertIn(self.status(path), (403, 404))
