package cli

import (
	"fmt"
	"maps"
	"slices"

	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
)

// policyText are the rules in force in a directory, with the files that they
// come from.
func policyText(home, dir string) (string, error) {
	user, err := policy.LoadUser(home)
	if err != nil {
		return "", err
	}
	local, trusted, err := policy.LoadTrusted(home, dir)
	if err != nil {
		return "", err
	}
	text, rows := "", [][]string{{"LIST", "RULE", "FROM"}}
	for _, file := range []*policy.File{user, local} {
		if file == nil {
			continue
		}
		about := ""
		if file == local && !trusted {
			about = " (not trusted: only its restrictions count)"
		}
		text += file.Path + about + "\n"
		rows = append(rows, ruleRows(file)...)
	}
	if text == "" {
		return "No policy file is in force: the defaults decide.\n", nil
	}
	if len(rows) > 1 {
		text += "\n" + view.Table(rows, 0)
	}
	return text, nil
}

func ruleRows(file *policy.File) (rows [][]string) {
	if r := file.Rules; r.ReadOnly != nil {
		rows = append(rows, []string{"readOnly", fmt.Sprint(*r.ReadOnly), r.ReadOnlySource.String()})
	}
	for _, list := range slices.Sorted(maps.Keys(file.Rules.Lists)) {
		for _, r := range file.Rules.Lists[list] {
			rows = append(rows, []string{list, r.Pattern, r.Source.String()})
		}
	}
	return rows
}
