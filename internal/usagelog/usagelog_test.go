package usagelog

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("USAGELOG_TEST_DIR"); dir != "" {
		os.Exit(writer(dir))
	}
	goleak.VerifyTestMain(m)
}

const writes = 40 // of each process in TestManyProcesses

// writer is a process that writes to the log in dir.
func writer(dir string) int {
	for range writes {
		if err := Open(dir).Add(context.Background(), Record{Door: "run", Model: "gpt-5", Turns: 1, Premium: 1.5}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

func total(records []Record) (sum Record) {
	for _, r := range records {
		sum = sum.Add(r)
	}
	return sum
}

func TestManyProcesses(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "usage")
	var all []*exec.Cmd
	for range 4 {
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Env, cmd.Stderr = append(os.Environ(), "USAGELOG_TEST_DIR="+dir), os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	for _, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	records, err := Open(dir).Read(time.Now())
	if sum := total(records); err != nil || sum.Turns != 4*writes || sum.Premium != 4*writes*1.5 {
		t.Errorf("%+v, %v", sum, err)
	}
}

// A day's file does not grow beyond its bound, and nothing is lost of the sums.
func TestFilesAreBounded(t *testing.T) {
	t.Parallel()
	for name, session := range map[string]func(i int) string{
		"few sessions":  func(i int) string { return fmt.Sprint(i % 5) },
		"many sessions": func(i int) string { return fmt.Sprintf("%040d", i) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := Open(t.TempDir())
			var records []Record
			for i := range 9000 {
				records = append(records, Record{Session: session(i), Door: "mcp", Model: "m", Turns: 1, Requests: 2, Credits: 0.5, InputTokens: 10, OutputTokens: 1})
			}
			for part := range slices.Chunk(records, 3000) {
				if err := l.Add(t.Context(), part...); err != nil {
					t.Fatal(err)
				}
			}
			read, err := l.Read(time.Now())
			if got, want := total(read), (Record{Turns: 9000, Requests: 18000, Credits: 4500, InputTokens: 90000, OutputTokens: 9000}); err != nil || got != want {
				t.Errorf("%+v, %v", got, err)
			}
			files, err := filepath.Glob(filepath.Join(l.dir, "*"+suffix))
			if err != nil || len(files) != 1 {
				t.Fatal(files, err)
			}
			info, err := os.Stat(files[0])
			if err != nil || info.Size() > maxFile {
				t.Error(info.Size(), err)
			}
			if kept := slices.ContainsFunc(read, func(r Record) bool { return r.Session == "1" }); kept != (name == "few sessions") {
				t.Errorf("sessions are told apart: %v", kept)
			}
		})
	}
}

// Hours are told apart, in a file that is summed too.
func TestHours(t *testing.T) {
	t.Parallel()
	l := Open(t.TempDir())
	for hour := range 24 {
		l.now = func() time.Time { return time.Date(2026, 3, 1, hour, 30, 0, 0, time.UTC) }
		for range 40 {
			if err := l.Add(t.Context(), slices.Repeat([]Record{{Door: "cli", Model: "m", Turns: 1, Cost: 0.5, FirstWordMs: 100, FirstWords: 1}}, 5)...); err != nil {
				t.Fatal(err)
			}
		}
	}
	records, err := l.Read(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	if records = Sum(records); err != nil || len(records) != 24 {
		t.Fatal(records, err)
	}
	want := Record{Day: "2026-03-01", Hour: "07", Door: "cli", Model: "m", Turns: 200, Cost: 100, FirstWordMs: 20000, FirstWords: 200}
	if records[7] != want {
		t.Errorf("%+v", records[7])
	}
}

// Only whole days since a time are read, days long past are removed, and half a
// line that a power cut left costs nothing else.
func TestDays(t *testing.T) {
	t.Parallel()
	l := Open(t.TempDir())
	at := func(day string) {
		t.Helper()
		l.now = func() time.Time {
			when, err := time.Parse(time.DateOnly, day)
			if err != nil {
				t.Error(err)
			}
			return when.Add(12 * time.Hour)
		}
		if err := l.Add(t.Context(), Record{Turns: 1}); err != nil {
			t.Fatal(err)
		}
	}
	at("2025-01-02")
	at("2025-12-30")
	file := filepath.Join(l.dir, "2025-12-30"+suffix)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(data, `{"day":"2025-12-30","tur`...), 0o600); err != nil {
		t.Fatal(err)
	}
	at("2025-12-30")
	at("2026-03-01")
	for since, want := range map[string]int{"2020-01-01": 3, "2025-12-30": 3, "2025-12-31": 1, "2026-03-02": 0} {
		when, err := time.Parse(time.DateOnly, since)
		if err != nil {
			t.Fatal(err)
		}
		records, err := l.Read(when.Add(20 * time.Hour))
		if n := total(records).Turns; err != nil || n != want {
			t.Errorf("since %s: %d turns, %v", since, n, err)
		}
	}
}

func TestAddNeedsADirectory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Open(file).Add(t.Context(), Record{}); err == nil || !strings.Contains(err.Error(), file) {
		t.Error(err)
	}
	if records, err := Open(filepath.Join(file, "none")).Read(time.Now()); len(records) > 0 || err == nil {
		t.Error(records, err)
	}
	if records, err := Open(filepath.Join(t.TempDir(), "none")).Read(time.Now()); len(records) > 0 || err != nil {
		t.Error(records, err)
	}
}
