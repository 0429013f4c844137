package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

// Options is everything that Load looks at.
type Options struct {
	Flags     map[string]string // by setting key; only those that the user gave
	FlagNames map[string]string // what errors call them, by setting key; "" for the key
	Environ   []string          // as os.Environ returns it
	Dir       string            // working directory, where .env is looked for; "" for the process's own
	HomeDir   string            // the user's home; "" if it has none
	File      *string           // what to take config.yaml to hold, before it is written; nil for what it holds
	// Trusted reports whether the user trusts a file with exactly these bytes,
	// by the record in the bridge's home. Without it nothing is trusted.
	Trusted func(home, file string, data []byte) (bool, error)
}

// DotEnvName is the name of the file with settings in the working directory.
const DotEnvName = ".env"

const (
	fileName = "config.yaml"
	homeName = ".copilot-bridge"
	maxFile  = 64 << 10
)

// given is a value and where it was found.
type given struct {
	value  string
	origin Origin
}

// loader is the state of one Load.
type loader struct {
	opts     Options
	table    []setting
	cfg      *Config
	layers   []map[string]given // strongest first; by setting key
	environ  map[string]string
	problems []problem
	bad      map[string]bool // settings whose value is unusable: no use checking them against others

	incomplete bool // a source could not be read
}

// Load reads, validates and combines all sources. The first that has a setting
// decides: flags, environment, .env in the working directory, config.yaml in
// the bridge's home, defaults. All problems are reported at once, in one
// *bridge.Error with a line for each; no Config is returned then.
func Load(opts Options) (*Config, error) {
	var err error
	if opts.Dir, err = filepath.Abs(opts.Dir); err == nil && opts.HomeDir != "" {
		opts.HomeDir, err = filepath.Abs(opts.HomeDir)
	}
	if err != nil {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "the current directory does not exist any more", Cause: err,
			Remedy: "change into a directory that exists"}
	}
	l := &loader{opts: opts, bad: map[string]bool{}, cfg: &Config{origins: map[string]Origin{}}}
	l.table = settings(l.cfg)
	l.readFlags()
	l.readEnviron()
	for _, s := range l.table {
		l.apply(&s)
		if s.key == "home" {
			// Only now is it known where config.yaml and the record of
			// trusted files are.
			l.defaultHome()
			if err := l.readDotEnv(); err != nil {
				return nil, err
			}
			l.readFile()
		}
	}
	l.check()
	l.keepVariables()
	if len(l.problems) > 0 {
		return nil, l.failure()
	}
	return l.cfg, nil
}

func (l *loader) add(layer map[string]given) { l.layers = append(l.layers, layer) }

func (l *loader) readFlags() {
	layer := map[string]given{}
	for _, key := range slices.Sorted(maps.Keys(l.opts.Flags)) {
		if find(l.table, key) == nil {
			l.problems = append(l.problems, problem{source: SourceFlag, subject: key, text: "is no setting" + didYouMean(l.table, key)})
			continue
		}
		layer[key] = given{l.opts.Flags[key], Origin{Source: SourceFlag, Where: key}}
	}
	l.add(layer)
}

func (l *loader) readEnviron() {
	values := map[string]string{}
	for _, entry := range l.opts.Environ {
		name, value, _ := strings.Cut(entry, "=")
		if runtime.GOOS == "windows" { // where the case of names does not count; untried
			name = strings.ToUpper(name)
		}
		values[name] = value
	}
	l.environ = values
	l.cfg.unknown = l.unknownVariables(values)
	layer := map[string]given{}
	for _, s := range l.table {
		if value, ok := values[s.env]; ok {
			layer[s.key] = given{value, Origin{Source: SourceEnvironment, Where: s.env}}
		}
	}
	l.add(layer)
}

func (l *loader) readFile() {
	layer := map[string]given{}
	l.add(layer)
	if l.cfg.Home == "" {
		l.incomplete = true
		return
	}
	file := l.cfg.Path(fileName)
	data, err := readLimited(file)
	if l.opts.File != nil {
		data, err = []byte(*l.opts.File), nil
		if len(data) > maxFile {
			err = errTooLarge
		}
	}
	if err != nil {
		l.problems = append(l.problems, problem{source: SourceFile, subject: file, text: err.Error()})
		l.incomplete = true
		return
	}
	values, faults := parseYAML(data, l.table)
	l.incomplete = l.incomplete || values == nil
	for _, f := range faults {
		l.problems = append(l.problems, problem{source: SourceFile, subject: fmt.Sprintf("%s:%d", file, f.line), text: f.text})
	}
	for key, v := range values {
		layer[key] = given{v.value, Origin{Source: SourceFile, Where: fmt.Sprintf("%s:%d", fileName, v.line)}}
	}
}

// located is a value of a file and the line it begins on.
type located struct {
	value string
	line  int
}

var errTooLarge = fmt.Errorf("is larger than %d KiB", maxFile>>10)

// readLimited returns nothing for a file that does not exist. Its errors do
// not name the file.
func readLimited(file string) (data []byte, err error) {
	var f *os.File
	if err = durable.RefusePipe(file); err == nil {
		f, err = os.Open(file)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(f, maxFile+1))
		err = errors.Join(err, f.Close())
	}
	var pathErr *fs.PathError
	switch {
	case errors.As(err, &pathErr):
		return nil, fmt.Errorf("cannot be read: %w", pathErr.Err)
	case err != nil:
		return nil, fmt.Errorf("cannot be read: %w", err)
	case len(data) > maxFile:
		return nil, errTooLarge
	}
	return data, nil
}

// lookup returns the value in force. An empty one counts as unset.
func (l *loader) lookup(key string) (given, bool) {
	for _, layer := range l.layers {
		if g := layer[key]; strings.TrimSpace(g.value) != "" {
			return g, true
		}
	}
	return given{origin: Origin{Source: SourceDefault}}, false
}

func (l *loader) apply(s *setting) {
	g, ok := l.lookup(s.key)
	l.cfg.origins[s.key] = g.origin
	if !ok {
		if s.fallback == "" {
			return
		}
		g.value = s.fallback
	}
	where := place{dir: l.opts.Dir, home: l.opts.HomeDir}
	if g.origin.Source == SourceFile {
		where.dir = l.cfg.Home
	}
	err := s.set(g.value, where)
	if err == nil {
		return
	}
	r := &refusal{}
	_ = errors.As(err, &r) // errNotAllowed has no text
	l.reject(s, cmp.Or(r.text, "must be "+s.allowed), r.hide)
}

// defaultHome makes the default out of the user's home, if nothing else is set.
func (l *loader) defaultHome() {
	if l.cfg.Home != "" || l.bad["home"] {
		return
	}
	if l.opts.HomeDir == "" {
		l.missing("home", "must be set, because your home directory is not known")
		return
	}
	l.cfg.Home = filepath.Join(l.opts.HomeDir, homeName)
}
