package sessionstore

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

func TestUnknownMembersOutliveEveryChange(t *testing.T) {
	s := newStore(t)
	seed(t, s, everyMember)
	put(t, s, sample("s-1"), sample("s-3"))
	if err := s.Update(t.Context(), "s-2", func(e *Entry) error { e.Title = "t"; return nil }); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), "s-3"); err != nil {
		t.Fatal(err)
	}
	// What stands beside the sessions stays where it is.
	if got, want := read(t, s.single()), `{"version":1,"sessions":[
],"future":{"b":[1,2.50,1e400,12345678901234567890],"a":"<&>\u2028"},"Version":"not ours"}
`; got != want {
		t.Errorf("top level: %s", got)
	}
	var first, second struct{ Sessions []map[string]any }
	if err := errors.Join(json.Unmarshal([]byte(read(t, s.fileOf("s-1"))), &first), json.Unmarshal([]byte(read(t, s.fileOf("s-2"))), &second)); err != nil {
		t.Fatal(err)
	}
	if first := first.Sessions[0]; first["starred"] != true || first["ID"] != "not ours" || first["title"] != sample("").Title {
		t.Errorf("first session: %v", first)
	}
	if second := second.Sessions[0]; second["state"] != "archived" || second["title"] != "t" {
		t.Errorf("second session: %v", second)
	}
}

// TestRefusedFilesStay: a file of a newer version is left alone, byte for byte,
// by every method.
func TestRefusedFilesStay(t *testing.T) {
	files := map[string]string{
		"newer":      `{"version":2,"sessions":[{"id":"s-1"}]}`,
		"much newer": `{"version":99}`,
	}
	for name, data := range files {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			seed(t, s, data)
			_, getErr := s.Get(t.Context(), "s-1")
			_, listErr := s.List(t.Context())
			calls := map[string]error{
				"Get": getErr, "List": listErr,
				"Put":    s.Put(t.Context(), sample("s-1")),
				"Delete": s.Delete(t.Context(), "s-1"),
				"Update": s.Update(t.Context(), "s-1", func(*Entry) error { return nil }),
			}
			for call, err := range calls {
				var refused *bridge.Error
				if !errors.As(err, &refused) || refused.Code != bridge.CodeConflict || refused.Remedy == "" {
					t.Errorf("%s: %v", call, err)
				} else if !strings.Contains(refused.Message, s.single()) {
					t.Errorf("%s does not name the file: %v", call, err)
				}
			}
			if after := read(t, s.single()); after != data {
				t.Errorf("the file is now %q", after)
			}
			left, err := os.ReadDir(filepath.Dir(s.dir))
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, entry := range left {
				names = append(names, entry.Name())
			}
			if !slices.Equal(names, []string{"sessions.json", "sessions.json.lock", "sessions.json.lock.queue"}) {
				t.Errorf("the directory holds %q", names)
			}
		})
	}
}

func TestEmptyFileIsEmptyStore(t *testing.T) {
	s := newStore(t)
	seed(t, s, "")
	put(t, s, sample("s-1"))
	if got := getFirst(t, s); got.ID != "s-1" {
		t.Errorf("got %+v", got)
	}
}

func TestContexts(t *testing.T) {
	s := newStore(t)
	put(t, s, sample("s-1"))
	unlock, err := durable.Lock(t.Context(), s.single()+".lock")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	wantCode(t, s.Put(ctx, sample("s-2")), bridge.CodeBusy)
	getFirst(t, s) // reading does not wait for the writer
	if err := unlock(); err != nil {
		t.Fatal(err)
	}

	canceled, cancelNow := context.WithCancel(t.Context())
	cancelNow()
	_, err = s.List(canceled)
	wantCode(t, err, bridge.CodeCanceled)
	wantCode(t, s.Delete(canceled, "s-1"), bridge.CodeCanceled)
	getFirst(t, s)
}

func TestUnreadableStore(t *testing.T) {
	s := newStore(t)
	if err := os.MkdirAll(s.single(), 0o700); err != nil { // in the file's place
		t.Fatal(err)
	}
	if _, err := s.List(t.Context()); err == nil {
		t.Error("a directory was taken for an empty store")
	}
}

func TestEntryJSON(t *testing.T) {
	e := sample("s-1")
	e.Created, e.Updated = noon, noon.Add(500*time.Millisecond).In(time.FixedZone("", 7200))
	data, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"created":"2025-06-01T12:00:00.000Z"`, `"updated":"2025-06-01T12:00:00.500Z"`} {
		if !strings.Contains(string(data), part) {
			t.Errorf("%s lacks %s", data, part)
		}
	}
}
