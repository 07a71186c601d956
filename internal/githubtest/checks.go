package githubtest

import (
	"cmp"
	"net/http"
	"slices"
	"time"
)

// Limits of GitHub, counted in bytes: which unit GitHub counts is not written down, and bytes are the safe side.
const (
	maxDescription = 140
	maxOutput      = 65535
	maxMessage     = 64 << 10
	maxTitle       = 255
)

func showStatus(st Status) object {
	return object{
		"id":          st.ID,
		"url":         api("/statuses/%s", st.SHA),
		"state":       st.State,
		"context":     st.Context,
		"description": st.Description,
		"target_url":  st.TargetURL,
		"created_at":  st.Created,
		"updated_at":  st.Created,
	}
}

func createStatus(c *call) answer {
	k, found := c.state.commits[c.params["sha"]]
	if !found {
		return noCommit(c.params["sha"])
	}
	in := decode[struct {
		State, Context, Description string
		TargetURL                   string `json:"target_url"`
	}](c)
	if len(in.Description) > maxDescription {
		return invalid("Status", "description", "description is too long (maximum is 140 characters)")
	}
	st := c.state.addStatus(Status{
		SHA: k.SHA, State: in.State, Context: in.Context, Description: in.Description, TargetURL: in.TargetURL, Creator: c.by,
	})
	return created(showFullStatus(st))
}

func showFullStatus(st Status) object {
	shown := showStatus(st)
	shown["creator"] = showUser(st.Creator)
	return shown
}

// statusesOf are those of a commit, newest first.
func (c *call) statusesOf() ([]Status, string, bool) {
	k, found := c.state.resolve(c.params["ref"])
	of := filter(c.state.statuses, func(st Status) bool { return st.SHA == k.SHA })
	slices.Reverse(of)
	return of, k.SHA, found
}

func listStatuses(c *call) answer {
	of, _, found := c.statusesOf()
	if !found {
		return notFound()
	}
	return paged(c, of, showFullStatus)
}

// getCombinedStatus takes the newest status of each context: one failure fails all, one that waits lets all wait.
func getCombinedStatus(c *call) answer {
	of, sha, found := c.statusesOf()
	if !found {
		return notFound()
	}
	seen := map[string]bool{}
	latest := filter(of, func(st Status) bool {
		first := !seen[st.Context]
		seen[st.Context] = true
		return first
	})
	has := func(states ...string) bool {
		return slices.ContainsFunc(latest, func(st Status) bool { return slices.Contains(states, st.State) })
	}
	state := "success"
	switch {
	case has("failure", "error"):
		state = "failure"
	case has("pending") || len(latest) == 0:
		state = "pending"
	}
	a := counted(c, "statuses", latest, showStatus)
	body := a.body.(object)
	body["state"], body["sha"], body["repository"] = state, sha, showRepository(repository)
	return a
}

func showCheckRun(r CheckRun) object {
	return object{
		"id":           r.ID,
		"name":         r.Name,
		"head_sha":     r.HeadSHA,
		"status":       r.Status,
		"conclusion":   orNull(r.Conclusion),
		"external_id":  r.ExternalID,
		"details_url":  r.DetailsURL,
		"html_url":     r.HTMLURL,
		"url":          api("/check-runs/%d", r.ID),
		"started_at":   r.Started,
		"completed_at": r.Completed,
		"output": object{
			"title":             orNull(r.Title),
			"summary":           orNull(r.Summary),
			"text":              orNull(r.Text),
			"annotations_count": len(r.Annotations),
			"annotations_url":   api("/check-runs/%d/annotations", r.ID),
		},
	}
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// A checkInput is the body that makes or changes a check run. A field that is not there changes nothing.
type checkInput struct {
	Name, Status, Conclusion *string
	HeadSHA                  string     `json:"head_sha"`
	DetailsURL               *string    `json:"details_url"`
	ExternalID               *string    `json:"external_id"`
	StartedAt                *time.Time `json:"started_at"`
	CompletedAt              *time.Time `json:"completed_at"`
	Output                   *struct {
		Title, Summary, Text *string
		Annotations          []struct {
			Path            string
			StartLine       int    `json:"start_line"`
			EndLine         int    `json:"end_line"`
			AnnotationLevel string `json:"annotation_level"`
			Title, Message  string
			RawDetails      string `json:"raw_details"`
		}
	}
}

// fill lays the input over a check run, or says what is wrong with it.
func (in checkInput) fill(r *CheckRun) (answer, bool) {
	set(&r.Name, in.Name)
	set(&r.Status, in.Status)
	set(&r.Conclusion, in.Conclusion)
	set(&r.DetailsURL, in.DetailsURL)
	set(&r.ExternalID, in.ExternalID)
	set(&r.Started, in.StartedAt)
	set(&r.Completed, in.CompletedAt)
	switch {
	case r.Name == "":
		return invalid("CheckRun", "name", "name can't be blank"), false
	case in.Status != nil && *in.Status == "completed" && in.Conclusion == nil:
		return invalid("CheckRun", "conclusion", "conclusion is required when the status is completed"), false
	case in.Status != nil && *in.Status != "completed":
		r.Conclusion, r.Completed = "", time.Time{}
	}
	if in.Output == nil {
		return answer{}, true
	}
	set(&r.Title, in.Output.Title)
	set(&r.Summary, in.Output.Summary)
	set(&r.Text, in.Output.Text)
	switch {
	case len(r.Title) > maxTitle:
		return invalid("CheckRun", "title", "title is too long (maximum is 255 characters)"), false
	case len(r.Summary) > maxOutput:
		return invalid("CheckRun", "summary", "summary exceeds a maximum bytesize of 65535"), false
	case len(r.Text) > maxOutput:
		return invalid("CheckRun", "text", "text exceeds a maximum bytesize of 65535"), false
	}
	r.Annotations = slices.Clone(r.Annotations)
	for _, a := range in.Output.Annotations {
		switch {
		case a.StartLine < 1 || a.EndLine < a.StartLine:
			return invalid("CheckAnnotation", "end_line", "lines must go up from 1"), false
		case len(a.Message) > maxMessage || len(a.RawDetails) > maxMessage:
			return invalid("CheckAnnotation", "message", "message exceeds a maximum bytesize of 65536"), false
		case len(a.Title) > maxTitle:
			return invalid("CheckAnnotation", "title", "title is too long (maximum is 255 characters)"), false
		}
		r.Annotations = append(r.Annotations, Annotation{
			Path: a.Path, StartLine: a.StartLine, EndLine: a.EndLine, Level: a.AnnotationLevel,
			Title: a.Title, Message: a.Message, RawDetails: a.RawDetails,
		})
	}
	return answer{}, true
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

func createCheckRun(c *call) answer {
	in := decode[checkInput](c)
	if _, found := c.state.commits[in.HeadSHA]; !found {
		return noCommit(in.HeadSHA)
	}
	r := CheckRun{HeadSHA: in.HeadSHA}
	if refusal, good := in.fill(&r); !good {
		return refusal
	}
	return created(showCheckRun(c.state.addCheckRun(r)))
}

func (c *call) checkRun() *CheckRun {
	id := c.id("check_run_id")
	return find(c.state.checks, func(r *CheckRun) bool { return r.ID == id })
}

func getCheckRun(c *call) answer {
	r := c.checkRun()
	if r == nil {
		return notFound()
	}
	return ok(showCheckRun(*r))
}

func editCheckRun(c *call) answer {
	r := c.checkRun()
	if r == nil {
		return notFound()
	}
	changed := *r
	if refusal, good := decode[checkInput](c).fill(&changed); !good {
		return refusal
	}
	if changed.Conclusion != "" {
		changed.Status = "completed"
		if changed.Completed.IsZero() {
			var id int64
			c.state.mint(&id, &changed.Completed)
		}
	}
	*r = changed
	return ok(showCheckRun(changed))
}

func listAnnotations(c *call) answer {
	r := c.checkRun()
	if r == nil {
		return notFound()
	}
	return paged(c, r.Annotations, func(a Annotation) object {
		return object{
			"path":             a.Path,
			"start_line":       a.StartLine,
			"end_line":         a.EndLine,
			"annotation_level": a.Level,
			"title":            orNull(a.Title),
			"message":          a.Message,
			"raw_details":      orNull(a.RawDetails),
		}
	})
}

// listCheckRuns answers newest first and, unless asked for all, only the newest of each name.
func listCheckRuns(c *call) answer {
	k, found := c.state.resolve(c.params["ref"])
	if !found {
		return refuse(http.StatusUnprocessableEntity, "No commit found for SHA: "+c.params["ref"])
	}
	runs := filter(c.state.checks, func(r CheckRun) bool {
		return r.HeadSHA == k.SHA &&
			cmp.Or(c.query.Get("check_name"), r.Name) == r.Name &&
			cmp.Or(c.query.Get("status"), r.Status) == r.Status
	})
	slices.Reverse(runs)
	if c.query.Get("filter") != "all" {
		seen := map[string]bool{}
		runs = filter(runs, func(r CheckRun) bool {
			first := !seen[r.Name]
			seen[r.Name] = true
			return first
		})
	}
	return counted(c, "check_runs", runs, showCheckRun)
}
