package githubtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// A call is one that was checked and may be done.
type call struct {
	r      *http.Request
	params map[string]string // of the path
	query  url.Values
	body   []byte
	by     User   // who calls; no login without a token
	blobs  string // base address of the blob store
	state  *state
}

// An operation does one kind of call.
type operation struct {
	do    func(*call) answer
	query []string // the parts of the query that it understands
}

// list is an operation that answers page by page.
func list(do func(*call) answer, query ...string) operation {
	return operation{do: do, query: append(query, "page", "per_page")}
}

// lacks finds a part of the query that the operation would ignore.
func (o operation) lacks(query url.Values) (string, bool) {
	for name := range query {
		if !slices.Contains(o.query, name) {
			return name, true
		}
	}
	return "", false
}

const inRepo = "/repos/{owner}/{repo}"

// operations are all calls that the server knows: those of the description.
var operations = map[string]operation{
	"GET /user":     {do: getUser},
	"GET " + inRepo: {do: getRepository},

	"GET " + inRepo + "/issues/{issue_number}/comments":          list(listComments, "since"),
	"POST " + inRepo + "/issues/{issue_number}/comments":         {do: createComment},
	"GET " + inRepo + "/issues/comments/{comment_id}":            {do: getComment},
	"PATCH " + inRepo + "/issues/comments/{comment_id}":          {do: editComment},
	"DELETE " + inRepo + "/issues/comments/{comment_id}":         {do: deleteComment},
	"GET " + inRepo + "/issues/comments/{comment_id}/reactions":  list(listReactions, "content"),
	"POST " + inRepo + "/issues/comments/{comment_id}/reactions": {do: createReaction},

	"GET " + inRepo + "/pulls":                        list(listPulls, "state", "head", "base", "direction"),
	"GET " + inRepo + "/pulls/{pull_number}":          {do: getPull},
	"GET " + inRepo + "/pulls/{pull_number}/files":    list(listFiles),
	"GET " + inRepo + "/pulls/{pull_number}/commits":  list(listPullCommits),
	"GET " + inRepo + "/pulls/{pull_number}/reviews":  list(listReviews),
	"POST " + inRepo + "/pulls/{pull_number}/reviews": {do: createReview},
	"GET " + inRepo + "/pulls/{pull_number}/comments": list(listReviewComments),

	"POST " + inRepo + "/statuses/{sha}":                       {do: createStatus},
	"GET " + inRepo + "/commits/{ref}/statuses":                list(listStatuses),
	"GET " + inRepo + "/commits/{ref}/status":                  list(getCombinedStatus),
	"POST " + inRepo + "/check-runs":                           {do: createCheckRun},
	"GET " + inRepo + "/check-runs/{check_run_id}":             {do: getCheckRun},
	"PATCH " + inRepo + "/check-runs/{check_run_id}":           {do: editCheckRun},
	"GET " + inRepo + "/check-runs/{check_run_id}/annotations": list(listAnnotations),
	"GET " + inRepo + "/commits/{ref}/check-runs":              list(listCheckRuns, "check_name", "status", "filter"),

	"GET " + inRepo + "/commits":            list(listCommits, "sha"),
	"GET " + inRepo + "/commits/{ref:.+}":   list(getCommit),
	"GET " + inRepo + "/compare/{basehead}": list(compareCommits),
	"GET " + inRepo + "/contents/{path:.*}": {do: getContents, query: []string{"ref"}},

	"GET " + inRepo + "/collaborators/{username}/permission":              {do: getPermission},
	"GET " + inRepo + "/actions/runs/{run_id}":                            {do: getRun},
	"GET " + inRepo + "/actions/runs/{run_id}/artifacts":                  list(listArtifacts, "name"),
	"GET " + inRepo + "/actions/artifacts":                                list(listArtifacts, "name"),
	"GET " + inRepo + "/actions/artifacts/{artifact_id}":                  {do: getArtifact},
	"GET " + inRepo + "/actions/artifacts/{artifact_id}/{archive_format}": {do: downloadArtifact},

	"GET " + inRepo + "/releases/latest":            {do: getLatestRelease},
	"GET " + inRepo + "/releases/tags/{tag:.+}":     {do: getReleaseByTag},
	"GET " + inRepo + "/releases/assets/{asset_id}": {do: getAsset},
}

const (
	jsonType = "application/json; charset=utf-8"
	rawType  = "application/vnd.github.raw; charset=utf-8"

	maxPage = 100
)

func ok(body any) answer      { return answer{status: http.StatusOK, body: body} }
func created(body any) answer { return answer{status: http.StatusCreated, body: body} }

func notFound() answer { return refuse(http.StatusNotFound, "Not Found") }

// invalid is 422 about one field.
func invalid(resource, field, message string) answer {
	return refuse(http.StatusUnprocessableEntity, "Validation Failed",
		object{"resource": resource, "field": field, "code": "custom", "message": message})
}

// id is a number of the path. The description has held it to be one.
func (c *call) id(name string) int64 {
	n, err := strconv.ParseInt(c.params[name], 10, 64)
	if err != nil {
		return 0 // nothing has it
	}
	return n
}

// decode reads the body, which the description has held to be what v is.
func decode[T any](c *call) T {
	var v T
	if len(c.body) > 0 {
		if err := json.Unmarshal(c.body, &v); err != nil {
			panic(fmt.Sprintf("githubtest: %s %s: the description let through a body that is not a %T: %v", c.r.Method, c.r.URL.Path, v, err))
		}
	}
	return v
}

// page cuts out the asked page and gives the Link header to the others. per_page above 100 is 100, as with GitHub.
func page[T any](c *call, all []T) ([]T, http.Header) {
	number := max(1, positive(c.query.Get("page"), 1))
	size := min(maxPage, max(1, positive(c.query.Get("per_page"), 30)))
	last := max(1, (len(all)+size-1)/size)
	var links []string
	link := func(rel string, to int) {
		u := *c.r.URL
		q := u.Query()
		q.Set("page", strconv.Itoa(to))
		u.RawQuery = q.Encode()
		links = append(links, fmt.Sprintf(`<http://%s%s>; rel=%q`, c.r.Host, u.RequestURI(), rel))
	}
	if number > 1 {
		link("prev", min(number-1, last))
	}
	if number < last {
		link("next", number+1)
		link("last", last)
	}
	if number > 1 {
		link("first", 1)
	}
	header := http.Header{}
	if len(links) > 0 {
		header.Set("Link", strings.Join(links, ", "))
	}
	from := min(len(all), (number-1)*size)
	return all[from:min(len(all), from+size)], header
}

func positive(s string, otherwise int) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return otherwise
	}
	return n
}

// each shows all things of a page.
func each[T any](all []T, show func(T) object) []object {
	shown := make([]object, len(all))
	for i, v := range all {
		shown[i] = show(v)
	}
	return shown
}

// paged is a page of a list as the whole answer.
func paged[T any](c *call, all []T, show func(T) object) answer {
	part, header := page(c, all)
	return answer{status: http.StatusOK, header: header, body: each(part, show)}
}

// counted is a page of a list under its name, beside the count of all.
func counted[T any](c *call, name string, all []T, show func(T) object) answer {
	part, header := page(c, all)
	return answer{status: http.StatusOK, header: header, body: object{"total_count": len(all), name: each(part, show)}}
}

func api(format string, a ...any) string {
	return "https://api.github.com/repos/" + repository + fmt.Sprintf(format, a...)
}

func web(format string, a ...any) string {
	return "https://github.com/" + repository + fmt.Sprintf(format, a...)
}

func showUser(u User) object {
	id := number(u.Login)
	if u.Login == "github-actions[bot]" {
		id = 41898282
	}
	return object{
		"login":    u.Login,
		"id":       id,
		"type":     u.Type,
		"url":      "https://api.github.com/users/" + url.PathEscape(u.Login),
		"html_url": "https://github.com/" + url.PathEscape(u.Login),
	}
}

func showRepository(fullName string) object {
	owner, name, _ := strings.Cut(fullName, "/")
	return object{
		"id":             repoID(fullName),
		"name":           name,
		"full_name":      fullName,
		"owner":          showUser(known(User{Login: owner})),
		"private":        false,
		"fork":           fullName != repository,
		"default_branch": defaultBranch,
		"url":            "https://api.github.com/repos/" + fullName,
		"html_url":       "https://github.com/" + fullName,
	}
}

// getUser answers a person's token alone.
func getUser(c *call) answer {
	if c.by.Type == "Bot" {
		return refuse(http.StatusForbidden, "Resource not accessible by integration")
	}
	shown := showUser(c.by)
	shown["user_view_type"] = "private"
	return ok(shown)
}

func getRepository(*call) answer { return ok(showRepository(repository)) }

// getPermission tells the old four words and the role behind them.
func getPermission(c *call) answer {
	login := c.params["username"]
	role := c.state.roles[strings.ToLower(login)]
	if role == "" {
		role = "read"
	}
	permission := map[string]string{"maintain": "write", "triage": "read"}[role]
	if permission == "" {
		permission = role
	}
	user := showUser(known(User{Login: login}))
	user["role_name"] = role
	return ok(object{"permission": permission, "role_name": role, "user": user})
}
