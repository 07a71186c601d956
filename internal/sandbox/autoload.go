package sandbox

import (
	"bytes"
	"encoding/json"
	"path"
	"slices"
	"strings"
	"sync"
)

// autoloaded are names of files, and of folders, that common tools load without being asked, or that tell them what to load.
// An agent that writes one can make every test pass.
var autoloaded = []string{
	// Python: what pytest and its plugins read, and what the interpreter runs when it starts.
	"conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg", "noxfile.py", ".coveragerc",
	"sitecustomize", "sitecustomize.py", "usercustomize", "usercustomize.py", "*.pth",
	// JavaScript: runners, what they preload and mock, and the compilers that they pass every file through.
	"jest.config.*", "jest.setup.*", "vitest.config.*", "vitest.setup.*", "vitest.workspace.*", "setupTests.*", "__mocks__",
	".mocharc", ".mocharc.*", "mocha.opts", "ava.config.*", ".taprc", "jasmine.json", "karma.conf.*", "playwright.config.*",
	"cypress.config.*", "wdio.conf.*", "web-test-runner.config.*", ".nycrc", ".nycrc.*", "nyc.config.*", ".c8rc", ".c8rc.*",
	"vite.config.*", "babel.config.*", ".babelrc", ".babelrc.*", ".swcrc", "bunfig.toml",
	".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.*", ".pnp.*",
	// Ruby, PHP, Perl and Elixir.
	".rspec", ".rspec-local", "spec_helper.rb", "rails_helper.rb", "test_helper.rb", "test_helper.exs", ".proverc",
	"phpunit.xml", "phpunit.xml.dist", "phpunit.dist.xml",
	// Java and .NET: runners, and what a build loads of the folders around it.
	"junit-platform.properties", "testng.xml", ".mvn", "Directory.Build.*", "*.runsettings", "xunit.runner.json",
	// Rust and Go: another compiler, another program to run tests with, another module in the place of one.
	".cargo", "nextest.toml", "rust-toolchain", "rust-toolchain.toml", "go.work",
	// Shells.
	".envrc", ".bashrc", ".bash_profile", ".bash_login", ".profile", ".zshrc", ".zshenv", ".zprofile",
}

// isAutoloaded says whether a file is one of the autoloaded, or in a folder that is.
func isAutoloaded(name string) bool {
	if strings.Contains("/"+name, "/node_modules/.bin/") {
		return true
	}
	for part := range strings.SplitSeq(name, "/") {
		for _, pattern := range autoloaded {
			if ok, _ := path.Match(pattern, part); ok {
				return true
			}
		}
	}
	return false
}

// isBytecode says whether a file is compiled Python. It may say that it must not be compared with its source, and then it
// is run in the place of it, hidden tests included.
func isBytecode(name string) bool {
	return strings.HasSuffix(name, ".pyc") || strings.HasSuffix(name, ".pyo")
}

// shadowed are modules that Python finds at the top of the tree before those of its own library and of the test runners,
// since tests are run from there.
var shadowed = sync.OnceValue(func() map[string]bool {
	const runners = "pytest _pytest pluggy iniconfig xdist pytest_timeout nose nose2 hypothesis mock coverage tap "
	const library = "abc argparse ast asyncio atexit base64 bisect builtins calendar code codecs collections concurrent configparser " +
		"contextlib contextvars copy copyreg csv ctypes dataclasses datetime decimal difflib dis doctest email encodings enum " +
		"errno faulthandler fnmatch fractions functools gc genericpath getpass gettext glob gzip hashlib heapq hmac html http " +
		"importlib inspect io ipaddress itertools json keyword linecache locale logging math mimetypes multiprocessing ntpath " +
		"numbers opcode operator optparse os pathlib pdb pickle pkgutil platform posixpath pprint queue random re reprlib runpy " +
		"select selectors shlex shutil signal site socket ssl stat statistics string struct subprocess sys sysconfig tempfile " +
		"textwrap threading time timeit token tokenize tomllib traceback types typing unittest urllib uuid warnings weakref xml " +
		"zipfile zipimport zlib zoneinfo"
	names := map[string]bool{}
	for name := range strings.FieldsSeq(runners + library) {
		names[name] = true
	}
	return names
})

// isShadow says whether a file at the top of a tree, or in a folder there, is imported in the place of a module that tests
// and their runners rely on.
func isShadow(name string) bool {
	top, rest, inFolder := strings.Cut(name, "/")
	if inFolder {
		return shadowed()[top] && strings.HasSuffix(rest, ".py")
	}
	module, python := strings.CutSuffix(name, ".py")
	if compiled, ok := strings.CutSuffix(name, ".so"); ok {
		module, _, _ = strings.Cut(compiled, ".")
		python = true
	}
	return python && shadowed()[module]
}

// installed names the package that a file belongs to, when it lies among those that a package manager installed.
func installed(name string) (pkg string, ok bool) {
	for _, folder := range []string{"/node_modules/", "/site-packages/", "/dist-packages/"} {
		at := strings.LastIndex("/"+name, folder)
		if at < 0 {
			continue
		}
		rest := ("/" + name)[at+len(folder):]
		pkg, rest, _ = strings.Cut(rest, "/")
		if strings.HasPrefix(pkg, "@") {
			scoped, _, _ := strings.Cut(rest, "/")
			pkg += "/" + scoped
		}
		return folder + pkg, true
	}
	return "", false
}

// runnerParts are the members of a package.json that tell how tests are run.
var runnerParts = []string{"scripts", "jest", "vitest", "mocha", "ava", "tap", "nyc", "c8", "babel"}

// mergeRunners returns an agent's package.json with the parts that tell how tests are run as they were before; changed is
// false when they are so already. The error is one of the two that is no JSON object.
func mergeRunners(before, after []byte) (merged []byte, changed bool, err error) {
	was, names, err := membersOf(before)
	if err != nil {
		return nil, false, err
	}
	now, order, err := membersOf(after)
	if err != nil {
		return nil, false, err
	}
	for _, name := range names {
		if slices.Contains(runnerParts, name) && now[name] == nil {
			order = append(order, name)
		}
	}
	var b bytes.Buffer
	b.WriteByte('{')
	for _, name := range order {
		value := now[name]
		if slices.Contains(runnerParts, name) {
			value = was[name]
			changed = changed || !bytes.Equal(value, now[name])
		}
		if value == nil {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		key, err := json.Marshal(name)
		if err != nil {
			return nil, false, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	var indented bytes.Buffer
	err = json.Indent(&indented, b.Bytes(), "", "  ")
	indented.WriteByte('\n')
	return indented.Bytes(), changed, err
}

// membersOf reads a JSON object: its members without the blanks that do not matter, and their names in the order of the
// file. Of a name that stands there twice, the last counts, as it does for whoever loads the file.
func membersOf(text []byte) (members map[string][]byte, names []string, err error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, nil, err
	}
	members = map[string][]byte{}
	for name, value := range raw {
		var b bytes.Buffer
		if err := json.Compact(&b, value); err != nil {
			return nil, nil, err
		}
		members[name] = b.Bytes()
	}
	d := json.NewDecoder(bytes.NewReader(text))
	_, err = d.Token()
	for seen := map[string]bool{}; err == nil && d.More(); {
		var key json.Token
		var value json.RawMessage
		if key, err = d.Token(); err == nil {
			err = d.Decode(&value)
		}
		if name, ok := key.(string); ok && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return members, names, err
}
