package chat

import (
	"regexp"
	"strings"
)

const agentPrefix = "agent/"

// vendors are prefixes by which routers and catalogues name models.
var vendors = []string{"anthropic", "openai", "github", "google", "copilot", "azure", "xai", "x-ai", "meta", "mistral", "deepseek", "github_copilot", "github-copilot"}

// dated matches what vendors add to the name of a model to fix its version.
var dated = regexp.MustCompile(`-(20\d{6}|20\d{2}-\d{2}-\d{2}|latest)$`)

// versionDash matches a dash between two numbers of a version.
var versionDash = regexp.MustCompile(`(\d)-(\d)`)

// find returns the id among ids that a client means by name: the very same,
// or the only one of the same family and version. Names differ in case, in
// vendor prefixes, in dates, and in dots against dashes; nothing else is
// guessed.
func find(name string, ids []string) (string, bool) {
	for _, id := range ids {
		if id == name {
			return id, true
		}
	}
	want, date := family(name)
	if want == "" {
		return "", false
	}
	var same, near []string // with the same date, and with a date on one side only
	for _, id := range ids {
		switch base, d := family(id); {
		case base != want:
		case d == date:
			same = append(same, id)
		case d == "" || date == "":
			near = append(near, id)
		}
	}
	if len(same) == 0 {
		same = near
	}
	if len(same) != 1 {
		return "", false
	}
	return same[0], true
}

// family is a name without what may differ, and its date.
func family(name string) (base, date string) {
	base = strings.ToLower(strings.TrimSpace(name))
	for {
		vendor, rest, ok := strings.Cut(base, "/")
		if !ok || !isVendor(vendor) {
			break
		}
		base = rest
	}
	if m := dated.FindString(base); m != "" {
		base = strings.TrimSuffix(base, m)
		if m != "-latest" {
			date = strings.ReplaceAll(m, "-", "")
		}
	}
	// Twice, since matches do not overlap: 3-5-1.
	base = versionDash.ReplaceAllString(base, "$1.$2")
	base = versionDash.ReplaceAllString(base, "$1.$2")
	return base, date
}

func isVendor(s string) bool {
	for _, v := range vendors {
		if s == v {
			return true
		}
	}
	return false
}
