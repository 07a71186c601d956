package publish

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/go-github/v62/github"
)

// A Hub is one repository on GitHub, seen with one token.
type Hub struct {
	client      *github.Client
	owner, repo string
	now         func() time.Time
	log         func(string)
}

// NewHub makes the client. api is the base address of the REST API as GITHUB_API_URL holds it, of github.com or of a
// server of one's own. The token is sent to that address alone, whatever an answer redirects to. log is told, in one
// line, when GitHub makes us wait.
func NewHub(token, api, owner, repo string, now func() time.Time, log func(string)) (*Hub, error) {
	return newHub(http.DefaultTransport, token, api, owner, repo, now, log)
}

func newHub(base http.RoundTripper, token, api, owner, repo string, now func() time.Time, log func(string)) (*Hub, error) {
	address, err := url.Parse(strings.TrimSuffix(api, "/") + "/")
	if err != nil {
		return nil, fmt.Errorf("address of the GitHub API: %w", err)
	}
	if address.Scheme != "https" && address.Scheme != "http" || address.Host == "" {
		return nil, fmt.Errorf("address of the GitHub API: %q is not like https://api.github.com", api)
	}
	if owner == "" || repo == "" {
		return nil, fmt.Errorf("repository %q: not like owner/name", owner+"/"+repo)
	}
	client := github.NewClient(&http.Client{Transport: newTransport(base, address.Host, token, log)})
	client.BaseURL = address
	client.UserAgent = "assay"
	return &Hub{client: client, owner: owner, repo: repo, now: now, log: log}, nil
}
