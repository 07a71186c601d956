package cli

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// starter is the suite that assay init writes.
//
//go:embed all:starter
var starter embed.FS

// workflow is the workflow that assay init writes.
//
//go:embed workflow.yml
var workflow string

const workflowFile = ".github/workflows/assay.yml"

func newInit(x IO) *cobra.Command {
	return &cobra.Command{
		Use:   "init [DIR]",
		Short: "write a small suite to start from, and the workflow for pull requests",
		Long: `Write a suite with one case that runs at once and needs no key, into a folder that is not there yet,
and .github/workflows/assay.yml into the repository, unless it has one. Nothing is asked and nothing is
overwritten: agents on PATH and folders of skills that are found stand in suite.yaml as comments, ready
to be used.`,
		Example: "assay init evals",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := suiteArg(args)
			if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
				return usage(fmt.Errorf("%s is there already; name a folder that is not", dir))
			}
			top, err := topFor(dir)
			if err != nil {
				return usage(err)
			}
			hints, err := foundHere(x, top, dir)
			if err == nil {
				err = writeStarter(dir, hints)
			}
			if err != nil {
				return usage(err)
			}
			fmt.Fprintf(x.Out, "wrote %s; run it with: assay run %s\n", filepath.Join(dir, "suite.yaml"), dir)
			return writeWorkflow(x, top, dir)
		},
	}
}

// topFor is where the workflow of a suite belongs: the repository that the suite will be in, or without one the working
// folder, or the folder above a suite that is not in it.
func topFor(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	top := repositoryOf(filepath.Dir(abs))
	if _, err := os.Lstat(filepath.Join(top, ".git")); err == nil {
		return top, nil
	}
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	if rel, err := filepath.Rel(here, abs); err == nil && filepath.IsLocal(rel) {
		return here, nil
	}
	return filepath.Dir(abs), nil
}

// writeStarter writes the suite, with what was found at its end.
func writeStarter(dir, hints string) error {
	files, err := fs.Sub(starter, "starter")
	if err != nil {
		return err
	}
	if err := os.CopyFS(dir, files); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, "suite.yaml"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(hints)
	return errors.Join(err, f.Close())
}

// writeWorkflow writes the workflow for a suite, and says what is left to do. One that is there stays as it is.
func writeWorkflow(x IO, top, dir string) error {
	root, err := os.OpenRoot(top)
	if err != nil {
		return usage(err)
	}
	defer root.Close()
	if err := root.MkdirAll(path.Dir(workflowFile), 0o755); err != nil {
		return usage(err)
	}
	f, err := root.OpenFile(workflowFile, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		_, err := fmt.Fprintf(x.Out, "%s is there already and stays as it is\n", workflowFile)
		return err
	}
	if err != nil {
		return usage(err)
	}
	text, err := workflowFor(top, dir)
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return usage(err)
	}
	_, err = fmt.Fprintf(x.Out, "wrote %s; commit both, and each pull request is measured\n", workflowFile)
	return err
}

// workflowFor is the workflow that runs the suite in dir.
func workflowFor(top, dir string) (string, error) {
	rel, err := relativeTo(top, dir)
	if err != nil || rel == "evals" {
		return workflow, err
	}
	text := strings.Replace(workflow, "the suite in evals", "the suite in "+plainPath(rel), 1)
	return strings.TrimRight(text, "\n") + fmt.Sprintf("\n        with: {suite: %q}\n", rel), nil
}

// relativeTo is the slash path from one folder to another. Links on the way to the first one do not confuse it.
func relativeTo(top, dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	rel, err := filepath.Rel(top, abs)
	return filepath.ToSlash(rel), err
}

// agentsOnPath are the agents that init looks for: the program, and the harness that drives it.
var agentsOnPath = []struct{ program, harness string }{
	{"claude", "{id: claude, type: claude-code, models: [claude-sonnet-4-5]}"},
	{"codex", "{id: codex, type: codex, models: [gpt-5.5]}"},
	{"gemini", "{id: gemini, type: gemini, models: [gemini-2.5-pro]}"},
	{"opencode", "{id: opencode, type: opencode, models: [claude-sonnet-4-5]}"},
}

// maxSkills is how many skills init names.
const maxSkills = 10

// foundHere are comments for suite.yaml with the agents and skills that are here; empty when there are none.
func foundHere(x IO, top, dir string) (string, error) {
	var b strings.Builder
	for _, a := range agentsOnPath {
		if onPath(x, a.program) {
			fmt.Fprintf(&b, "#   - %s\n", a.harness)
		}
	}
	if b.Len() > 0 {
		b.WriteString("# They need the key of their model in the environment.\n")
		text := b.String()
		b.Reset()
		b.WriteString("\n# These agents are on PATH. To measure one, put its line under matrix.harnesses in place of the scripted one:\n" + text)
	}
	skills, err := skillsIn(top, dir)
	if err != nil || len(skills) == 0 {
		return b.String(), err
	}
	b.WriteString("\n# These skills are here. To measure one against none, put its line under matrix.conditions in place of with_hint:\n")
	for i, skill := range skills {
		if i == maxSkills {
			fmt.Fprintf(&b, "#   and %d more\n", len(skills)-i)
			break
		}
		fmt.Fprintf(&b, "#   - {id: with_%s, skills: [%s]}\n", path.Base(skill), skill)
	}
	return b.String(), nil
}

// onPath tells whether a program is in a folder of the call's PATH.
func onPath(x IO, program string) bool {
	for _, dir := range filepath.SplitList(x.getenv("PATH")) {
		info, err := os.Stat(filepath.Join(dir, program))
		if dir != "" && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return true
		}
	}
	return false
}

// skillsIn are the folders of skills of a repository, as paths from the suite in dir. A name that would need quotes is left
// out.
func skillsIn(top, dir string) ([]string, error) {
	var skills []string
	for _, folder := range []string{".claude/skills", "skills"} {
		found, err := filepath.Glob(filepath.Join(top, folder, "*", "SKILL.md"))
		if err != nil {
			return nil, err
		}
		for _, file := range found {
			abs, err := filepath.Abs(dir)
			if err != nil {
				return nil, err
			}
			rel, err := filepath.Rel(abs, filepath.Dir(file))
			if rel = filepath.ToSlash(rel); err == nil && rel == plainPath(rel) {
				skills = append(skills, rel)
			}
		}
	}
	return skills, nil
}

// plainPath is a path without the characters that mean something in YAML or a comment.
func plainPath(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r == '.' || r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return -1
	}, s)
}
