package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

var printedURL = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// ask [HEADER:VALUE…] METHOD PATH [FILE] sends a request to the server of the
// script's job, with the file as JSON body. Afterwards stdout holds the status,
// the content type and the body.
func ask(ts *testscript.TestScript, _ bool, args []string) {
	header := http.Header{}
	for len(args) > 0 && strings.Contains(args[0], ":") && !strings.HasPrefix(args[0], "/") {
		name, value, _ := strings.Cut(args[0], ":")
		header.Set(name, value)
		args = args[1:]
	}
	if len(args) < 2 {
		ts.Fatalf("usage: ask [HEADER:VALUE…] METHOD PATH [FILE]")
	}
	url := printedURL.FindString(jobOf(ts).out.String() + jobOf(ts).err.String())
	var body io.Reader
	if len(args) > 2 {
		body = bytes.NewReader([]byte(ts.ReadFile(args[2])))
		header.Set("Content-Type", "application/json")
	}
	r, err := http.NewRequest(args[0], url+args[1], body)
	ts.Check(err)
	r.Header = header
	r.Host = header.Get("Host")
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	ts.Check(err)
	text, err := io.ReadAll(resp.Body)
	ts.Check(err)
	ts.Check(resp.Body.Close())
	_, err = fmt.Fprintf(ts.Stdout(), "%d %s\n%s\n", resp.StatusCode, resp.Header.Get("Content-Type"), text)
	ts.Check(err)
}
