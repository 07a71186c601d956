package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// A cache keeps trees that are dear to make. An entry is a folder: tree/ and the file list, which names every file of it
// with its sha256. Nothing in it is believed: an entry is compared with its list when a run first uses it, and each file
// with the sum of that time whenever it is copied. An entry that differs is set aside, kept for whoever wants to know
// what happened, and made again.
type cache struct {
	dir    string
	memory *budget

	mu     sync.Mutex
	locks  map[string]*sync.Mutex
	loaded map[string]*tree
	moving map[*tree][]*entry // see naming
}

func newCache(dir string, memory *budget) *cache {
	return &cache{dir: dir, memory: memory, locks: map[string]*sync.Mutex{}, loaded: map[string]*tree{}, moving: map[*tree][]*entry{}}
}

// A build that was killed leaves its folder. No build takes a day.
const (
	unfinished = ".new-"
	abandoned  = 24 * time.Hour
)

// sweep removes what killed runs left unfinished. What cannot be removed costs room and nothing else.
func (c *cache) sweep(now time.Time) {
	left, _ := filepath.Glob(filepath.Join(c.dir, unfinished+"*"))
	for _, dir := range left {
		if info, err := os.Lstat(dir); err == nil && now.Sub(info.ModTime()) > abandoned {
			_ = RemoveAll(dir)
		}
	}
}

// lock makes sure that an entry is made once, however many cells wait for it.
func (c *cache) lock(key string) (unlock func()) {
	c.mu.Lock()
	l := c.locks[key]
	if l == nil {
		l = new(sync.Mutex)
		c.locks[key] = l
	}
	c.mu.Unlock()
	l.Lock()
	return l.Unlock
}

func (c *cache) known(key string) *tree {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.loaded[key]
}

// forget makes the next load look at the disk again.
func (c *cache) forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.loaded, key)
}

// naming are the entries of a loaded tree that name the standard place, found once.
func (c *cache) naming(t *tree) []*entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	list, known := c.moving[t]
	if !known {
		list = t.naming(standardPlace)
		c.moving[t] = list
	}
	return list
}

// load returns the tree of an entry. A missing one is made by build, which fills an empty folder. prove, when given, must
// agree with every tree that is returned, a new one included.
func (c *cache) load(ctx context.Context, key string, r rules, prove func(*tree) error, build func(ctx context.Context, dir string) error) (*tree, []Finding, error) {
	defer c.lock(key)()
	if t := c.known(key); t != nil {
		return t, nil, nil
	}
	entry := filepath.Join(c.dir, key)
	var found []Finding
	t, err := c.read(entry, r, prove)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		aside, moved := setAside(entry)
		if moved != nil {
			return nil, nil, moved
		}
		found = append(found, Finding{Kind: FoundBadCache, Path: aside, Text: err.Error()})
	}
	if err != nil {
		if err := c.make(ctx, entry, r, build); err != nil {
			return nil, found, err
		}
		if t, err = c.read(entry, r, prove); err != nil {
			return nil, found, fmt.Errorf("cache entry %s is wrong though it was just made: %w", key, err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loaded[key] = t
	return t, found, nil
}

// read reads an entry and compares it with its list. The error is fs.ErrNotExist when there is none at all.
func (c *cache) read(entry string, r rules, prove func(*tree) error) (*tree, error) {
	if _, err := os.Lstat(entry); err != nil {
		return nil, err
	}
	t, err := readEntry(entry, r, c.memory)
	if err != nil {
		return nil, fmt.Errorf("unreadable: %s", err) // the text alone: a missing part is not a missing entry
	}
	want, err := readPath(entry, "list", sourceRules, nil)
	if err != nil {
		return nil, fmt.Errorf("no list: %s", err)
	}
	list, err := want.read(&want.entries[0])
	if err != nil {
		return nil, fmt.Errorf("no list: %s", err)
	}
	if !bytes.Equal(list, t.listing()) {
		return nil, errors.New("its files are not those of its list")
	}
	if prove != nil {
		if err := prove(t); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func readEntry(entry string, r rules, memory *budget) (*tree, error) {
	root, err := os.OpenRoot(filepath.Join(entry, "tree"))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return readTree(root, r, memory)
}

// make builds an entry beside its place and moves it there in one step, so that no run ever sees half of one.
func (c *cache) make(ctx context.Context, entry string, r rules, build func(context.Context, string) error) error {
	temp, err := os.MkdirTemp(c.dir, unfinished)
	if err != nil {
		return err
	}
	defer RemoveAll(temp)
	tree := filepath.Join(temp, "tree")
	if err := os.Mkdir(tree, 0o700); err != nil {
		return err
	}
	if err := build(ctx, tree); err != nil {
		return err
	}
	t, err := readEntry(temp, r, nil)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(temp, "list"), t.listing(), 0o600); err != nil {
		return err
	}
	return install(temp, entry)
}

// install moves a finished folder to its place. When another process was faster, its work is used.
func install(from, to string) error {
	err := os.Rename(from, to)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// setAside renames a bad entry to .bad-<n> and returns its new path.
func setAside(entry string) (string, error) {
	for n := 1; ; n++ {
		aside := fmt.Sprintf("%s.bad-%d", entry, n)
		if _, err := os.Lstat(aside); err == nil {
			continue
		}
		return aside, os.Rename(entry, aside)
	}
}
