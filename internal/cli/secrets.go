package cli

import (
	"slices"
	"strings"

	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/redact"
	"github.com/assay-ci/assay/internal/run"
)

// looksLikeKey tells whether a variable is named like a key or a token. Inputs of the action have dashes in their names.
func looksLikeKey(name string) bool {
	upper := strings.ReplaceAll(strings.ToUpper(name), "-", "_")
	return strings.HasSuffix(upper, "_API_KEY") || strings.HasSuffix(upper, "_TOKEN") || strings.HasSuffix(upper, "_SECRET_ACCESS_KEY")
}

// secrets are the values of the environment that no file of a run may hold: those of the named variables, and of all that
// are named like keys, since an agent could print those too.
func (x IO) secrets(names []string) []redact.Secret {
	for _, kv := range x.Env {
		if name, _, ok := strings.Cut(kv, "="); ok && looksLikeKey(name) {
			names = append(slices.Clip(names), name)
		}
	}
	var list []redact.Secret
	for _, name := range names {
		if value := x.getenv(name); value != "" {
			list = append(list, redact.Secret{Name: name, Value: value})
		}
	}
	return list
}

// redactor takes out of what is kept of a run what agents must not have told: the keys of its models among others.
func (w *work) redactor(x IO, cells []plan.Cell) (*redact.Redactor, error) {
	names, err := w.kit.KeyNames(cells)
	if err != nil {
		return nil, w.project.relate(err)
	}
	return redact.New(x.secrets(names)), nil
}

// cleaned has what happens in a run told without secrets.
func cleaned(secrets *redact.Redactor, tell func(run.Event)) func(run.Event) {
	return func(e run.Event) {
		if e.Result != nil {
			r := *e.Result
			r.Detail = secrets.String(r.Detail)
			e.Result = &r
		}
		tell(e)
	}
}
