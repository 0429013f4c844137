package openclaw

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/openclaw/gateway"
	"github.com/copilot-bridge/copilot-bridge/internal/openclaw/memory"
)

// Options say where OpenClaw is.
type Options struct {
	Places  Places
	Host    string // of the gateway, "" for none
	Port    int
	Token   string // secret; "" for that of OpenClaw's configuration
	Version string // ours
	// Identity is the file of the key by which a gateway on another machine
	// knows this one.
	Identity string
	Logger   *slog.Logger
	// Patience is how long the gateway may take before the files are read
	// instead, 3 s.
	Patience time.Duration
	// Rest is how long it is not asked again for what took it longer, 30 s. It
	// continues after its caller has given up, and its first search makes an
	// index.
	Rest time.Duration
}

// Memory is what OpenClaw remembers. Its methods may be called concurrently.
type Memory struct {
	opts  Options
	index *memory.Index

	mu     sync.Mutex
	client *gateway.Client      // nil until it is needed
	agent  string               // as the gateway calls it
	broken error                // why there is no client
	slow   map[string]time.Time // until when the gateway is not asked, by method
}

// Open returns the memory of an installation. Nothing is read or connected
// before it is asked. The caller must close it.
func Open(opts Options) *Memory {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Patience <= 0 {
		opts.Patience = 3 * time.Second
	}
	if opts.Rest <= 0 {
		opts.Rest = 30 * time.Second
	}
	return &Memory{opts: opts, index: memory.New(opts.Places.folders()...), agent: opts.Places.Agent, slow: map[string]time.Time{}}
}

// Close ends the connection to the gateway.
func (m *Memory) Close() {
	m.mu.Lock()
	client := m.client
	m.client, m.broken = nil, &bridge.Error{Code: bridge.CodeUnavailable, Message: "the memory is closed"}
	m.mu.Unlock()
	if client != nil {
		client.Close()
	}
}

// Source says who has answered.
type Source string

// The sources.
const (
	FromGateway Source = "gateway"
	FromFiles   Source = "files"
)

// Hit is something that was found.
type Hit struct {
	File    string  `json:"file"`                                               // relative to the workspace
	Heading string  `json:"heading,omitempty" jsonschema:"with those above it"` // of the section, if it is known
	Line    int     `json:"line"`
	EndLine int     `json:"endLine,omitempty"`
	Score   float64 `json:"score"`
	Snippet string  `json:"snippet"`
}

// Found is the answer of a search.
type Found struct {
	Hits   []Hit  `json:"hits" jsonschema:"best first"`
	Source Source `json:"source" jsonschema:"who answered: OpenClaw's gateway, or its files"`
}

// Search looks for a few words, at the gateway first. If that is not there,
// cannot search, or finds nothing, the files are searched.
func (m *Memory) Search(ctx context.Context, query string, limit int) (Found, error) {
	if strings.TrimSpace(query) == "" {
		return Found{}, &bridge.Error{Code: bridge.CodeInvalid, Message: "the query is empty", Remedy: "search for a few words"}
	}
	limit = min(max(limit, 1), 50)
	var answer struct {
		Results []struct {
			Path      string  `json:"path"`
			StartLine int     `json:"startLine"`
			EndLine   int     `json:"endLine"`
			Score     float64 `json:"score"`
			Snippet   string  `json:"snippet"`
		} `json:"results"`
	}
	params := map[string]any{"query": query, "maxResults": limit}
	if a := m.opts.Places.Agent; a != "" {
		params["agentId"] = a
	}
	if err := m.ask(ctx, "memory.search", params, &answer); err == nil && len(answer.Results) > 0 {
		found := Found{Source: FromGateway, Hits: []Hit{}}
		for _, r := range answer.Results[:min(limit, len(answer.Results))] {
			found.Hits = append(found.Hits, Hit{File: filepath.ToSlash(r.Path), Heading: heading(r.Snippet), Line: r.StartLine, EndLine: r.EndLine, Score: r.Score, Snippet: r.Snippet})
		}
		return found, nil
	} else if ctx.Err() != nil {
		return Found{}, context.Cause(ctx)
	}
	local, err := m.index.Search(ctx, query, limit)
	if err != nil {
		return Found{}, err
	}
	found := Found{Source: FromFiles, Hits: []Hit{}}
	for _, h := range local.Hits {
		found.Hits = append(found.Hits, Hit{File: h.File, Heading: h.Heading, Line: h.Line, EndLine: h.EndLine, Score: h.Score, Snippet: h.Snippet})
	}
	return found, nil
}

// heading is the first one in a piece of Markdown.
func heading(text string) string {
	for line := range strings.Lines(text) {
		if rest := strings.TrimLeft(line, "#"); rest != line && strings.HasPrefix(rest, " ") {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// Document is a file of the memory.
type Document struct {
	File      string `json:"file"`
	Content   string `json:"content"`
	Truncated bool   `json:"truncated"` // Content is not all of it
	Source    Source `json:"source" jsonschema:"who answered: OpenClaw's gateway, or its files"`
}

// maxContent is how much of a file is returned.
const maxContent = 256 << 10

// Read returns a file of the memory; "" is MEMORY.md.
func (m *Memory) Read(ctx context.Context, file string) (Document, error) {
	if file == "" {
		file = longTerm
	}
	name, err := clean(file)
	if err != nil {
		return Document{}, err
	}
	doc, err := m.document(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return Document{}, &bridge.Error{Code: bridge.CodeNotFound, Message: fmt.Sprintf("OpenClaw's memory has no file %q", file),
			Remedy: "search the memory to see which files there are"}
	}
	return doc, err
}

// Preferences returns what OpenClaw knows of its user's preferences.
func (m *Memory) Preferences(ctx context.Context) (Document, error) {
	doc, err := m.document(ctx, userFile)
	if errors.Is(err, fs.ErrNotExist) {
		return Document{}, &bridge.Error{Code: bridge.CodeNotFound, Message: "OpenClaw has no preferences of its user",
			Remedy: "write them to " + filepath.Join(m.opts.Places.Workspace, userFile)}
	}
	return doc, err
}

// clean makes a name of memory of what a caller wrote: relative to the
// workspace or, as it was of old, to the directory of notes.
func clean(file string) (string, error) {
	wrong := func(why string) error {
		return &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("%.200q is not a file of the memory: %s", file, why),
			Remedy: "name MEMORY.md, USER.md or a Markdown file under memory/"}
	}
	slashed := strings.ReplaceAll(file, `\`, "/")
	name := path.Clean(slashed)
	switch {
	case len(file) > 1024 || !utf8.ValidString(file) || strings.ContainsFunc(file, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", wrong("it holds characters that no name has")
	case !filepath.IsLocal(filepath.FromSlash(slashed)) || !filepath.IsLocal(filepath.FromSlash(name)) || strings.Contains(name, ":"):
		return "", wrong("it leads outside")
	case !memory.IsMarkdown(name):
		return "", wrong("it is no Markdown")
	case name == longTerm, name == userFile, strings.HasPrefix(name, notes+"/"):
		return name, nil
	}
	return notes + "/" + name, nil
}

// document asks the gateway for a file, then looks in the workspace, then in
// the places of old.
func (m *Memory) document(ctx context.Context, name string) (Document, error) {
	if content, ok := m.fetch(ctx, name); ok {
		return document(name, content, FromGateway), nil
	}
	if ctx.Err() != nil {
		return Document{}, context.Cause(ctx)
	}
	type place struct{ dir, name string }
	places := []place{{m.opts.Places.Workspace, name}, {m.opts.Places.State, name}}
	if name == longTerm {
		places[1].name = notes + "/" + longTerm
	}
	for _, p := range places {
		content, err := readFile(p.dir, p.name)
		if err == nil {
			return document(name, content, FromFiles), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return Document{}, &bridge.Error{Code: bridge.CodeDenied, Message: fmt.Sprintf("%s of OpenClaw's memory cannot be read", name), Cause: unplaced(err),
				Remedy: "see that it is a file, and that no link leads out of the workspace"}
		}
	}
	return Document{}, fs.ErrNotExist
}

// unplaced is an error about a path without the path.
func unplaced(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func document(name, content string, from Source) Document {
	d := Document{File: name, Content: strings.ToValidUTF8(content, "\uFFFD"), Source: from}
	if len(d.Content) > maxContent {
		cut := maxContent
		for cut > 0 && !utf8.RuneStart(d.Content[cut]) {
			cut--
		}
		d.Content, d.Truncated = d.Content[:cut], true
	}
	return d
}

// readFile reads a file below a directory; no link leads out of it.
func readFile(dir, name string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }()
	// A pipe would wait for a writer when it is opened.
	if info, err := root.Stat(name); err != nil {
		return "", err
	} else if !info.Mode().IsRegular() {
		return "", errors.New("it is not a file")
	}
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxContent+1))
	return string(data), err
}

// fetch asks the gateway for a file.
func (m *Memory) fetch(ctx context.Context, name string) (string, bool) {
	agent := m.knownAgent(ctx)
	if agent == "" {
		return "", false
	}
	var answer struct {
		File struct {
			Missing  bool    `json:"missing"`
			Content  *string `json:"content"`
			Encoding string  `json:"encoding"`
		} `json:"file"`
	}
	method, params := "agents.workspace.get", map[string]any{"agentId": agent, "path": name}
	if name == longTerm || name == userFile {
		method, params = "agents.files.get", map[string]any{"agentId": agent, "name": name}
	}
	if err := m.ask(ctx, method, params, &answer); err != nil || answer.File.Missing || answer.File.Content == nil {
		return "", false
	}
	content := *answer.File.Content
	if answer.File.Encoding == "base64" {
		data, err := base64.StdEncoding.DecodeString(content)
		if err != nil {
			return "", false
		}
		content = string(data)
	}
	return content, true
}

// knownAgent returns the id of the agent whose memory it is, or "".
func (m *Memory) knownAgent(ctx context.Context) string {
	m.mu.Lock()
	agent := m.agent
	m.mu.Unlock()
	if agent != "" {
		return agent
	}
	var list struct {
		DefaultID string `json:"defaultId"`
	}
	if m.ask(ctx, "agents.list", map[string]any{}, &list) == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.agent = list.DefaultID
	}
	return list.DefaultID
}

// ask calls the gateway, within bounds.
func (m *Memory) ask(ctx context.Context, method string, params, into any) error {
	client, err := m.connect(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	resting := time.Now().Before(m.slow[method])
	m.mu.Unlock()
	if resting {
		return &bridge.Error{Code: bridge.CodeTimeout, Message: "OpenClaw's gateway was too slow a moment ago"}
	}
	bounded, cancel := context.WithTimeout(ctx, m.opts.Patience)
	defer cancel()
	answer, err := client.Call(bounded, method, params)
	if bounded.Err() != nil && ctx.Err() == nil {
		m.mu.Lock()
		m.slow[method] = time.Now().Add(m.opts.Rest)
		m.mu.Unlock()
	}
	if err == nil {
		err = json.Unmarshal(answer, into)
	}
	if err != nil {
		m.opts.Logger.Debug("OpenClaw's gateway was of no help", "method", method, "error", err)
	}
	return err
}

func (m *Memory) connect(ctx context.Context) (*gateway.Client, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.client != nil || m.broken != nil {
		return m.client, m.broken
	}
	o := gateway.Options{URL: m.opts.URL(), Token: m.opts.Token, Version: m.opts.Version, Logger: m.opts.Logger}
	if o.Token == "" {
		o.Token = m.opts.Places.token
	}
	switch {
	case m.opts.Host == "":
		m.broken = &bridge.Error{Code: bridge.CodeUnavailable, Message: "OpenClaw's gateway is not to be used"}
	case !loopback(m.opts.Host) && m.opts.Identity != "":
		o.Identity, m.broken = gateway.LoadIdentity(ctx, m.opts.Identity)
	}
	if m.broken == nil {
		m.client = gateway.New(o)
	}
	return m.client, m.broken
}

// URL is where the gateway is. Beyond this machine its token is only sent
// encrypted.
func (o Options) URL() string {
	scheme := "wss://"
	if loopback(o.Host) {
		scheme = "ws://"
	}
	return scheme + net.JoinHostPort(o.Host, strconv.Itoa(o.Port))
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback() || strings.EqualFold(host, "localhost")
}

// Gateway asks the gateway who it is.
func (m *Memory) Gateway(ctx context.Context) (version string, err error) {
	client, err := m.connect(ctx)
	if err != nil {
		return "", err
	}
	hello, err := client.Hello(ctx)
	return hello.Server.Version, err
}
