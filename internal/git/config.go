package git

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// entry is a setting and where it comes from: system, global, local, worktree
// or command.
type entry struct {
	scope string
	setting
}

// local says whether the repository brings it along.
func (e entry) local() bool { return e.scope == "local" || e.scope == "worktree" }

// users says whether it is the user's or the machine's.
func (e entry) users() bool { return e.scope == "global" || e.scope == "system" }

// readConfig lists all settings that git would use in the repository, with
// their includes. git runs nothing for that.
func (r *Repository) readConfig(ctx context.Context) ([]entry, error) {
	out, _, err := r.answer(ctx, r.Top, r.named(), Call{Args: []string{"config", "--list", "-z", "--show-scope", "--includes"}})
	if err != nil {
		return nil, err
	}
	fields := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	if len(fields)%2 != 0 {
		return nil, &bridge.Error{Code: bridge.CodeInternal, Message: "git config gave a list that cannot be read"}
	}
	var list []entry
	for pair := range slices.Chunk(fields, 2) {
		key, value, hasValue := strings.Cut(pair[1], "\n")
		if !hasValue {
			value = "true" // which a name alone means
		}
		list = append(list, entry{pair[0], setting{key, value}})
	}
	return list, nil
}

// harmless are the settings that are taken over from a repository: they say
// how contents and names are read, written and merged, and name no program.
// core.excludesFile and core.attributesFile name files with patterns; without
// the former, files that the user hides would be seen.
var harmless = strings.Fields(`core.filemode core.ignorecase core.precomposeunicode core.symlinks core.autocrlf core.eol core.bigfilethreshold
	core.checkstat core.trustctime core.protecthfs core.protectntfs core.compression core.loosecompression core.longpaths core.checkroundtripencoding
	core.sparsecheckout core.sparsecheckoutcone core.excludesfile core.attributesfile index.version
	merge.renames merge.renamelimit merge.directoryrenames merge.conflictstyle merge.renormalize diff.renames diff.renamelimit diff.algorithm`)

// ours is the configuration for the view. What comes later wins. It goes to
// git by the environment: the user's may hold secrets, which no file gets.
func (r *Repository) ours(list []entry) []setting {
	var out []setting
	for _, e := range list {
		if e.users() && !structural(e.key) {
			out = append(out, e.setting)
		}
	}
	for _, e := range list {
		if e.local() && slices.Contains(harmless, e.key) {
			out = append(out, e.setting)
		}
	}
	out = append(out, required(list)...)
	for _, s := range [][2]string{{"core.hookspath", filepath.Join(r.view, "no-hooks")}, {"core.fsmonitor", "false"}, {"core.untrackedcache", "false"},
		{"core.splitindex", "false"}, {"core.safecrlf", "false"}, {"core.quotepath", "false"}, {"gc.auto", "0"}, {"maintenance.auto", "false"},
		{"submodule.recurse", "false"}, {"diff.submodule", "short"}, {"diff.ignoresubmodules", "dirty"}, {"status.submodulesummary", "false"},
		{"index.sparse", "false"}, {"advice.addembeddedrepo", "false"}} {
		out = append(out, setting{s[0], s[1]})
	}
	return out
}

// structural settings are about a repository, not about a user, or have been
// followed already; and no hooks are run, the user's neither.
func structural(key string) bool {
	section, _, _ := strings.Cut(key, ".")
	switch section {
	case "include", "includeif", "extensions", "hook", "safe":
		return true
	}
	return key == "core.worktree" || key == "core.bare"
}

// required are those of the repository's own filters that must not be left
// out silently: git then refuses files that it cannot convert, instead of
// storing or writing them raw.
func required(list []entry) []setting {
	theirs, mine := programs(list, entry.local), programs(list, entry.users)
	var out []setting
	for _, e := range list {
		section, name, variable := parts(e.key)
		if e.local() && section == "filter" && variable == "required" && mine[section+"."+name] == nil && theirs[section+"."+name] != nil {
			out = append(out, e.setting)
		}
	}
	return out
}

// warnings name the filters and merge drivers that only the repository
// defines, or that it defines otherwise than the user.
func warnings(list []entry) []string {
	theirs, mine := programs(list, entry.local), programs(list, entry.users)
	var out []string
	for _, driver := range slices.Sorted(maps.Keys(theirs)) {
		if maps.Equal(theirs[driver], mine[driver]) {
			continue
		}
		keys := driver + "." + strings.Join(slices.Sorted(maps.Keys(theirs[driver])), ", "+driver+".")
		out = append(out, fmt.Sprintf("the repository's own configuration names programs that are not run: %q; if you trust them, set them with `git config --global`", keys))
	}
	return out
}

// programs are the filters and merge drivers of some entries: what each of
// them runs, by variable.
func programs(list []entry, some func(entry) bool) map[string]map[string]string {
	out := map[string]map[string]string{}
	for _, e := range list {
		section, name, variable := parts(e.key)
		isProgram := section == "filter" && slices.Contains([]string{"clean", "smudge", "process"}, variable) || section == "merge" && variable == "driver"
		if !isProgram || name == "" || !some(e) {
			continue
		}
		driver := section + "." + name
		if out[driver] == nil {
			out[driver] = map[string]string{}
		}
		out[driver][variable] = e.value
	}
	return out
}

// configuredHooks are the names of hooks that newer versions of git find in a
// configuration.
func configuredHooks(list []entry) []string {
	var out []string
	for _, e := range list {
		if section, name, _ := parts(e.key); section == "hook" && name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// parts takes a key apart: section.variable, or section.name.variable where
// the name may hold dots.
func parts(key string) (section, name, variable string) {
	section, rest, _ := strings.Cut(key, ".")
	if i := strings.LastIndexByte(rest, '.'); i >= 0 {
		return section, rest[:i], rest[i+1:]
	}
	return section, "", rest
}
