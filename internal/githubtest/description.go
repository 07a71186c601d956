package githubtest

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
)

// openapi is GitHub's description, cut to our calls by testdata/cut.
//
//go:embed testdata/openapi.json
var openapi []byte

// slashed are the paths whose last part may have slashes in it, which OpenAPI cannot say, and how the router is told.
var slashed = map[string]string{
	inRepo + "/commits/{ref}":       inRepo + "/commits/{ref:.+}",
	inRepo + "/contents/{path}":     inRepo + "/contents/{path:.*}",
	inRepo + "/releases/tags/{tag}": inRepo + "/releases/tags/{tag:.+}",
}

// description is the router of GitHub's description, parsed once in a process. It is only read.
var description = sync.OnceValues(func() (routers.Router, error) {
	doc, err := openapi3.NewLoader().LoadFromData(openapi)
	if err != nil {
		return nil, fmt.Errorf("testdata/openapi.json: %w", err)
	}
	doc.Servers = openapi3.Servers{{URL: "/"}}
	for described, routed := range slashed {
		doc.Paths.Set(routed, doc.Paths.Value(described))
		doc.Paths.Delete(described)
	}
	return gorillamux.NewRouter(doc)
})

var checks = &openapi3filter.Options{
	AuthenticationFunc:                openapi3filter.NoopAuthenticationFunc,
	MultiError:                        true,
	RejectWhenRequestBodyNotSpecified: true,
	SkipSettingDefaults:               true,
}

// checkRequest holds a call against the description. Beyond it, names in the query and in the body that the description does
// not know are refused: GitHub ignores them, so each is a mistake that nothing else would show.
func checkRequest(route *openapi3filter.RequestValidationInput, body []byte) error {
	route.Request.Body = io.NopCloser(bytes.NewReader(body))
	if err := openapi3filter.ValidateRequest(context.Background(), route); err != nil {
		return err
	}
	operation := route.Route.Operation
	for _, name := range slices.Sorted(maps.Keys(route.Request.URL.Query())) {
		if operation.Parameters.GetByInAndName(openapi3.ParameterInQuery, name) == nil {
			return fmt.Errorf("query %q is not in the description", name)
		}
	}
	if operation.RequestBody == nil || len(body) == 0 {
		return nil
	}
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return fmt.Errorf("body: %w", err)
	}
	return unknownNames(operation.RequestBody.Value.Content["application/json"].Schema.Value, v, "body")
}

func unknownNames(schema *openapi3.Schema, v any, at string) error {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			property := schema.Properties[name]
			if property == nil {
				return fmt.Errorf("%s.%s is not in the description", at, name)
			}
			if err := unknownNames(property.Value, v[name], at+"."+name); err != nil {
				return err
			}
		}
	case []any:
		if schema.Items == nil {
			return nil
		}
		for i, item := range v {
			if err := unknownNames(schema.Items.Value, item, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkAnswer holds an answer against the description. A success must be described; GitHub gives more errors than it
// describes.
func checkAnswer(route *openapi3filter.RequestValidationInput, status int, header http.Header, body []byte) error {
	options := *checks
	options.IncludeResponseStatus = status < http.StatusBadRequest
	return openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: route,
		Status:                 status,
		Header:                 header,
		Body:                   io.NopCloser(bytes.NewReader(body)),
		Options:                &options,
	})
}

// object is a JSON object of an answer: what the server knows, the rest is completed from the description.
type object = map[string]any

// complete gives v every field that the description requires and that the server does not know: null where it may be, else
// the empty value of its type. It refuses a field that the description does not have.
func complete(schema *openapi3.Schema, v any, at string) (any, error) {
	if len(schema.OneOf) > 0 && v != nil {
		return completeOneOf(schema.OneOf, v, at)
	}
	switch v := v.(type) {
	case object:
		return completeObject(schema, v, at)
	case []object:
		if schema.Items == nil {
			return nil, fmt.Errorf("%s: is not a list in the description", at)
		}
		items := make([]any, len(v))
		for i, item := range v {
			whole, err := complete(schema.Items.Value, item, fmt.Sprintf("%s[%d]", at, i))
			if err != nil {
				return nil, err
			}
			items[i] = whole
		}
		return items, nil
	case time.Time:
		if v.IsZero() {
			return nil, nil
		}
		return v.UTC().Format(time.RFC3339), nil
	}
	return v, nil
}

func completeObject(schema *openapi3.Schema, v object, at string) (any, error) {
	whole := object{}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		property := schema.Properties[name]
		if property == nil {
			return nil, fmt.Errorf("%s.%s is not in the description", at, name)
		}
		value, err := complete(property.Value, v[name], at+"."+name)
		if err != nil {
			return nil, err
		}
		whole[name] = value
	}
	for _, name := range schema.Required {
		if _, known := whole[name]; known {
			continue
		}
		value, err := empty(schema.Properties[name].Value, at+"."+name)
		if err != nil {
			return nil, err
		}
		whole[name] = value
	}
	return whole, nil
}

func completeOneOf(variants openapi3.SchemaRefs, v any, at string) (any, error) {
	var first error
	for _, variant := range variants {
		whole, err := complete(variant.Value, v, at)
		if err == nil {
			err = fits(variant.Value, whole)
		}
		if err == nil {
			return whole, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, fmt.Errorf("%s: none of the variants fits: %w", at, first)
}

func fits(schema *openapi3.Schema, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var plain any
	if err := json.Unmarshal(data, &plain); err != nil {
		return err
	}
	return schema.VisitJSON(plain)
}

func empty(schema *openapi3.Schema, at string) (any, error) {
	switch {
	case schema.Nullable:
		return nil, nil
	case len(schema.Enum) > 0:
		return schema.Enum[0], nil
	case schema.Type.Is(openapi3.TypeObject):
		return completeObject(schema, object{}, at)
	case schema.Type.Is(openapi3.TypeArray):
		return []any{}, nil
	case schema.Type.Is(openapi3.TypeString) && schema.Format == "date-time":
		return start.Format(time.RFC3339), nil
	case schema.Type.Is(openapi3.TypeString) && schema.Format == "uri":
		return "https://api.github.com/repos/" + repository, nil
	case schema.Type.Is(openapi3.TypeString):
		return "", nil
	case schema.Type.Is(openapi3.TypeInteger), schema.Type.Is(openapi3.TypeNumber):
		return 0, nil
	case schema.Type.Is(openapi3.TypeBoolean):
		return false, nil
	}
	return nil, fmt.Errorf("%s: no empty value of this type", at)
}
