package sessionstore

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

func TestFilter(t *testing.T) {
	dir, used := t.TempDir(), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	e := Entry{ID: "41bd9d7b-1", WorkingDirectory: filepath.Join(dir, "work"), Repository: "acme/Widgets", Branch: "main", Model: "gpt-5", Title: "Fix the Über test", Updated: used}
	for name, c := range map[string]struct {
		filter Filter
		want   bool
	}{
		"all":                {Filter{}, true},
		"directory":          {Filter{Directory: filepath.Join(dir, "work")}, true},
		"directory above":    {Filter{Directory: dir}, true},
		"directory below":    {Filter{Directory: filepath.Join(dir, "work", "sub")}, false},
		"directory beside":   {Filter{Directory: filepath.Join(dir, "wor")}, false},
		"repository":         {Filter{Repository: "ACME/widgets"}, true},
		"part of it":         {Filter{Repository: "widgets"}, false},
		"branch":             {Filter{Branch: "main"}, true},
		"another branch":     {Filter{Branch: "Main"}, false},
		"since then":         {Filter{Since: used}, true},
		"since later":        {Filter{Since: used.Add(time.Second)}, false},
		"title":              {Filter{Text: "über TEST"}, true},
		"model":              {Filter{Text: "GPT"}, true},
		"id":                 {Filter{Text: "41bd"}, true},
		"middle of the id":   {Filter{Text: "9d7b"}, false},
		"nothing of it":      {Filter{Text: "lorem"}, false},
		"all that it is":     {Filter{Directory: dir, Repository: "acme/widgets", Branch: "main", Since: used, Text: "fix"}, true},
		"one that it is not": {Filter{Directory: dir, Repository: "acme/widgets", Branch: "dev", Since: used, Text: "fix"}, false},
	} {
		if got := c.filter.Match(e); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if (Filter{Directory: dir}).Match(Entry{}) {
		t.Error("a session without a directory is in one")
	}
}

func TestLast(t *testing.T) {
	s := Open(t.TempDir())
	if _, err := s.Get(t.Context(), Last); bridge.CodeOf(err) != bridge.CodeNotFound {
		t.Errorf("in an empty list: %v", err)
	}
	base := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i, id := range []string{"aaaa", "cccc", "bbbb"} {
		if err := s.Put(t.Context(), Entry{ID: id, State: StateIdle, Profile: ProfileAgent, Updated: base.Add(time.Duration(i%2) * time.Hour)}); err != nil {
			t.Fatal(err)
		}
	}
	if e, err := s.Get(t.Context(), Last); err != nil || e.ID != "cccc" {
		t.Errorf("%s, %v", e.ID, err)
	}
}
