package cli

import (
	"fmt"
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

// redactor takes out of what is kept of a run what agents must not have told: the keys of its models among others. keys
// looks up those that are going to be used; nil when none is. One that is too short to be taken out is refused.
func (w *work) redactor(x IO, cells []plan.Cell, keys func(string) string) (*redact.Redactor, error) {
	names, err := w.kit.KeyNames(cells)
	if err != nil {
		return nil, w.project.relate(err)
	}
	for _, name := range names {
		if keys != nil && keys(name) != "" && redact.TooShort(keys(name)) {
			return nil, usage(fmt.Errorf("the key in %s has fewer than 8 bytes: to take it out of what is kept would take other "+
				"text out too; give it a real key, or any longer text if the provider wants none", name))
		}
	}
	return redact.New(x.secrets(names)), nil
}

// A hidden error says what another one says, without secrets.
type hidden struct {
	error
	text string
}

func (h *hidden) Error() string { return h.text }
func (h *hidden) Unwrap() error { return h.error }

// hide takes secrets out of what an error says.
func hide(secrets *redact.Redactor, err error) error {
	if err == nil {
		return nil
	}
	if text := secrets.String(err.Error()); text != err.Error() {
		return &hidden{err, text}
	}
	return err
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
