// Command cut makes the testdata of githubtest: GitHub's description of its REST API, cut to the calls that Assay makes, and
// GitHub's examples of webhook payloads, cut to the events that Assay reads. It is run by hand when either is renewed:
//
//	npm pack @octokit/openapi@23.0.2 @octokit/webhooks-examples@7.6.1    # unpack the two, then
//	go run ./internal/githubtest/testdata/cut OPENAPI/package WEBHOOKS/package internal/githubtest/testdata
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// calls are the operations that are kept, by path.
var calls = map[string][]string{
	"/user":                 {"get"},
	"/repos/{owner}/{repo}": {"get"},
	"/repos/{owner}/{repo}/issues/{issue_number}/comments":                   {"get", "post"},
	"/repos/{owner}/{repo}/issues/comments/{comment_id}":                     {"get", "patch", "delete"},
	"/repos/{owner}/{repo}/issues/comments/{comment_id}/reactions":           {"get", "post"},
	"/repos/{owner}/{repo}/pulls":                                            {"get"},
	"/repos/{owner}/{repo}/pulls/{pull_number}":                              {"get"},
	"/repos/{owner}/{repo}/pulls/{pull_number}/files":                        {"get"},
	"/repos/{owner}/{repo}/pulls/{pull_number}/commits":                      {"get"},
	"/repos/{owner}/{repo}/pulls/{pull_number}/reviews":                      {"get", "post"},
	"/repos/{owner}/{repo}/pulls/{pull_number}/comments":                     {"get"},
	"/repos/{owner}/{repo}/statuses/{sha}":                                   {"post"},
	"/repos/{owner}/{repo}/commits":                                          {"get"},
	"/repos/{owner}/{repo}/commits/{ref}":                                    {"get"},
	"/repos/{owner}/{repo}/commits/{ref}/status":                             {"get"},
	"/repos/{owner}/{repo}/commits/{ref}/statuses":                           {"get"},
	"/repos/{owner}/{repo}/commits/{ref}/check-runs":                         {"get"},
	"/repos/{owner}/{repo}/check-runs":                                       {"post"},
	"/repos/{owner}/{repo}/check-runs/{check_run_id}":                        {"get", "patch"},
	"/repos/{owner}/{repo}/check-runs/{check_run_id}/annotations":            {"get"},
	"/repos/{owner}/{repo}/compare/{basehead}":                               {"get"},
	"/repos/{owner}/{repo}/contents/{path}":                                  {"get"},
	"/repos/{owner}/{repo}/collaborators/{username}/permission":              {"get"},
	"/repos/{owner}/{repo}/actions/runs/{run_id}":                            {"get"},
	"/repos/{owner}/{repo}/actions/runs/{run_id}/artifacts":                  {"get"},
	"/repos/{owner}/{repo}/actions/artifacts":                                {"get"},
	"/repos/{owner}/{repo}/actions/artifacts/{artifact_id}":                  {"get"},
	"/repos/{owner}/{repo}/actions/artifacts/{artifact_id}/{archive_format}": {"get"},
	"/repos/{owner}/{repo}/releases/latest":                                  {"get"},
	"/repos/{owner}/{repo}/releases/tags/{tag}":                              {"get"},
	"/repos/{owner}/{repo}/releases/assets/{asset_id}":                       {"get"},
}

// webhooks are the examples that are kept: event, number among the examples of that event, and the file's name.
var webhooks = []struct {
	event  string
	number int
	name   string
}{
	{"pull_request", 0, "pull_request-opened"},
	{"pull_request", 14, "pull_request-opened-2"},
	{"pull_request", 22, "pull_request-synchronize"},
	{"pull_request", 19, "pull_request-reopened"},
	{"pull_request", 17, "pull_request-ready_for_review"},
	{"pull_request", 7, "pull_request-converted_to_draft"},
	{"issue_comment", 0, "issue_comment-created"},
	{"issue_comment", 4, "issue_comment-created-2"},
	{"issue_comment", 8, "issue_comment-edited"},
	{"issue_comment", 6, "issue_comment-deleted"},
	{"pull_request_review", 0, "pull_request_review-submitted"},
	{"pull_request_review", 3, "pull_request_review-submitted-2"},
	{"pull_request_review", 1, "pull_request_review-dismissed"},
	{"workflow_run", 0, "workflow_run-completed"},
	{"workflow_run", 2, "workflow_run-completed-2"},
	{"workflow_run", 4, "workflow_run-requested"},
	{"workflow_dispatch", 0, "workflow_dispatch"},
	{"workflow_dispatch", 1, "workflow_dispatch-2"},
	{"push", 0, "push"},
	{"push", 1, "push-2"},
	{"push", 4, "push-3"},
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 4 {
		log.Fatal("usage: cut OPENAPI/package WEBHOOKS/package TESTDATA")
	}
	openapi, webhooks, out := os.Args[1], os.Args[2], os.Args[3]
	if err := cutDescription(openapi, out); err != nil {
		log.Fatal(err)
	}
	if err := cutWebhooks(webhooks, filepath.Join(out, "webhooks")); err != nil {
		log.Fatal(err)
	}
}

type object = map[string]any

func cutDescription(from, out string) error {
	var doc object
	if err := read(filepath.Join(from, "generated", "api.github.com.json"), &doc); err != nil {
		return err
	}
	paths := object{}
	for path, methods := range calls {
		item, ok := doc["paths"].(object)[path].(object)
		if !ok {
			return fmt.Errorf("the description has no path %s", path)
		}
		kept := object{}
		for _, method := range methods {
			if item[method] == nil {
				return fmt.Errorf("the description has no %s %s", method, path)
			}
			kept[method] = bare(item[method], false)
		}
		paths[path] = kept
	}
	components := object{}
	if err := gather(doc["components"].(object), components, paths); err != nil {
		return err
	}
	info := doc["info"].(object)
	cut := object{
		"openapi": doc["openapi"],
		"info": object{
			"title":       "GitHub's REST API, cut to the calls that Assay makes",
			"version":     info["version"],
			"description": "From the npm package @octokit/openapi; see LICENSE-openapi.",
			"license":     info["license"],
		},
		"paths":      paths,
		"components": components,
	}
	if err := write(filepath.Join(out, "openapi.json"), cut, 2); err != nil {
		return err
	}
	licence, err := os.ReadFile(filepath.Join(from, "LICENSE"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "LICENSE-openapi"), licence, 0o644)
}

// prose are the keys that only a reader of the documentation needs.
var prose = []string{"description", "summary", "title", "example", "examples", "externalDocs", "tags", "deprecated", "operationId"}

// bare is a part of the description without prose and extensions. In a map of names, such as the properties of a schema, each
// key is a name and stays.
func bare(v any, names bool) any {
	switch v := v.(type) {
	case object:
		kept := object{}
		for key, value := range v {
			if !names && (slices.Contains(prose, key) || strings.HasPrefix(key, "x-")) {
				continue
			}
			kept[key] = bare(value, !names && slices.Contains([]string{"properties", "headers", "content", "responses"}, key))
		}
		return kept
	case []any:
		kept := make([]any, len(v))
		for i, value := range v {
			kept[i] = bare(value, false)
		}
		return kept
	}
	return v
}

// gather copies every component that v refers to, and those that they refer to.
func gather(from, to object, v any) error {
	switch v := v.(type) {
	case object:
		if ref, ok := v["$ref"].(string); ok {
			kind, name, _ := strings.Cut(strings.TrimPrefix(ref, "#/components/"), "/")
			component, found := from[kind].(object)[name]
			if !found {
				return fmt.Errorf("the description has no %s", ref)
			}
			if to[kind] == nil {
				to[kind] = object{}
			}
			if _, done := to[kind].(object)[name]; done {
				return nil
			}
			component = bare(component, false)
			to[kind].(object)[name] = component
			return gather(from, to, component)
		}
		for _, value := range v {
			if err := gather(from, to, value); err != nil {
				return err
			}
		}
	case []any:
		for _, value := range v {
			if err := gather(from, to, value); err != nil {
				return err
			}
		}
	}
	return nil
}

func cutWebhooks(from, out string) error {
	var all []struct {
		Name     string
		Examples []object
	}
	if err := read(filepath.Join(from, "api.github.com", "index.json"), &all); err != nil {
		return err
	}
	examples := map[string][]object{}
	for _, event := range all {
		examples[event.Name] = event.Examples
	}
	for _, w := range webhooks {
		if w.number >= len(examples[w.event]) {
			return fmt.Errorf("there is no example %d of %s", w.number, w.event)
		}
		example := examples[w.event][w.number]
		if action, ok := example["action"].(string); ok && !strings.HasPrefix(w.name, w.event+"-"+action) {
			return fmt.Errorf("example %d of %s is now of action %s", w.number, w.event, action)
		}
		if err := write(filepath.Join(out, w.name+".json"), example, 0); err != nil {
			return err
		}
	}
	return nil
}

func read(name string, into any) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// write puts v down with one line for each entry of its first levels, sorted, so that a renewal reads well as a diff.
func write(name string, v object, levels int) error {
	var buf bytes.Buffer
	if err := lines(&buf, v, levels); err != nil {
		return err
	}
	buf.WriteByte('\n')
	return os.WriteFile(name, buf.Bytes(), 0o644)
}

func lines(buf *bytes.Buffer, v any, levels int) error {
	o, ok := v.(object)
	if !ok || levels < 0 {
		enc := json.NewEncoder(buf)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(v); err != nil {
			return err
		}
		buf.Truncate(buf.Len() - 1)
		return nil
	}
	buf.WriteString("{")
	for i, key := range slices.Sorted(maps.Keys(o)) {
		if i > 0 {
			buf.WriteString(",")
		}
		fmt.Fprintf(buf, "\n%q: ", key)
		if err := lines(buf, o[key], levels-1); err != nil {
			return err
		}
	}
	buf.WriteString("\n}")
	return nil
}
