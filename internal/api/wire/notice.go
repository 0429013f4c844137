package wire

import (
	"bytes"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// NoticeHeader tells a client what it should know about an answer. There may be
// several.
const NoticeHeader = "X-Copilot-Bridge-Notice"

// maxNamed is how many fields a notice names.
const maxNamed = 16

// fieldName matches the names that may stand in a header.
var fieldName = regexp.MustCompile(`^[A-Za-z0-9_.\[\]-]{1,64}$`)

// silent are fields that no answer depends on.
var silent = []string{"client_metadata", "metadata", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "safety_identifier", "service_tier", "store", "user"}

// NoticeIgnored tells the client which fields of its request have no effect.
func NoticeIgnored(w http.ResponseWriter, fields []string) {
	var names []string
	for _, name := range fields {
		if fieldName.MatchString(name) && !slices.Contains(silent, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	if n := len(names) - maxNamed; n > 0 {
		names = append(names[:maxNamed], fmt.Sprintf("%d more", n))
	}
	w.Header().Add(NoticeHeader, "without effect here: "+strings.Join(names, ", "))
}

// Members names the members of an object that was decoded; null and false count
// as absent.
func Members(object jsontext.Value) []string {
	dec := jsontext.NewDecoder(bytes.NewReader(object), lenient)
	var names []string
	if _, err := dec.ReadToken(); err != nil {
		return nil // there are none
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return names
		}
		key := name.String()
		if value, err := dec.ReadValue(); err != nil {
			return names
		} else if kind := value.Kind(); kind != 'n' && kind != 'f' {
			names = append(names, key)
		}
	}
	return names
}
