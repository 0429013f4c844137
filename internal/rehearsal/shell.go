package rehearsal

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// dialect writes commands for the shell that a request offers. PowerShell is
// what the runtime offers on Windows; its commands are untried.
type dialect struct{ power bool }

func (b *toolbox) dialect() dialect {
	t := b.find(shelling)
	return dialect{power: t != nil && strings.Contains(strings.ToLower(t.Name), "powershell")}
}

// sh calls the shell tool.
func (b *toolbox) sh(command, description string) []callStep {
	return b.call(shelling, map[string]any{"command": command, "description": clip(description, 90)})
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./][A-Za-z0-9_./-]*$`)

// quote makes s one word.
func (d dialect) quote(s string) string {
	switch {
	case plainWord.MatchString(s):
		return s
	case d.power:
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// file quotes a name, which must not be taken for an option.
func (d dialect) file(name string) string {
	if strings.HasPrefix(name, "-") {
		name = "./" + name
	}
	return d.quote(name)
}

func (d dialect) write(name, text string) string {
	f := d.file(name)
	if d.power {
		return fmt.Sprintf("New-Item -Force -ItemType File -Path %s -Value %s", f, d.quote(text))
	}
	prefix := ""
	if dir := path.Dir(name); dir != "." && dir != "/" {
		prefix = d.makeDir(dir) + " && "
	}
	if text == "" {
		return prefix + ": > " + f
	}
	end := "REHEARSAL"
	for strings.Contains(text, end) {
		end += "_END"
	}
	return fmt.Sprintf("%scat > %s <<'%s'\n%s%s", prefix, f, end, line(text), end)
}

func (d dialect) appendTo(name, text string) string {
	if d.power {
		return fmt.Sprintf("Add-Content -LiteralPath %s -Value %s", d.file(name), d.quote(strings.TrimSuffix(text, "\n")))
	}
	return fmt.Sprintf(`printf '%%s\n' %s >> %s`, d.quote(strings.TrimSuffix(text, "\n")), d.file(name))
}

var sedSpecial = regexp.MustCompile(`[][\\/.*^$&]`)

// replace is the edit tool's work where there is none. It cannot span lines.
func (d dialect) replace(name, old, text string) string {
	f := d.file(name)
	if d.power {
		return fmt.Sprintf("Set-Content -NoNewline -LiteralPath %[1]s -Value (Get-Content -Raw -LiteralPath %[1]s).Replace(%[2]s, %[3]s)", f, d.quote(old), d.quote(text))
	}
	escape := func(s string) string { return sedSpecial.ReplaceAllString(s, `\$0`) }
	program := "s/" + escape(old) + "/" + escape(text) + "/"
	changed := d.file(name + ".rehearsal")
	return fmt.Sprintf("sed -e %s %s > %s && mv %s %s", d.quote(program), f, changed, changed, f)
}

func (d dialect) read(name string) string {
	if d.power {
		return "Get-Content -LiteralPath " + d.file(name)
	}
	return "cat " + d.file(name)
}

func (d dialect) remove(name string) string {
	if d.power {
		return "Remove-Item -LiteralPath " + d.file(name)
	}
	return "rm " + d.file(name)
}

// removeDir removes an empty directory and no other.
func (d dialect) removeDir(name string) string {
	if d.power {
		return "[IO.Directory]::Delete(" + d.quote(name) + ")"
	}
	return "rmdir " + d.file(name)
}

func (d dialect) makeDir(name string) string {
	if d.power {
		return "New-Item -Force -ItemType Directory -Path " + d.file(name)
	}
	return "mkdir -p " + d.file(name)
}

func (d dialect) list(name string) string {
	if name == "" {
		name = "."
	}
	if d.power {
		return "Get-ChildItem -Name -LiteralPath " + d.file(name)
	}
	return "ls " + d.file(name)
}

func (d dialect) find(dir, pattern string) string {
	if dir == "" {
		dir = "."
	}
	pattern = path.Base(pattern)
	if d.power {
		return fmt.Sprintf("Get-ChildItem -Recurse -File -Name -Path %s -Filter %s", d.file(dir), d.quote(pattern))
	}
	return fmt.Sprintf("find %s -type f -name %s", d.file(dir), d.quote(pattern))
}

func (d dialect) search(dir, pattern string) string {
	if dir == "" {
		dir = "."
	}
	if d.power {
		return fmt.Sprintf("Get-ChildItem -Recurse -File -Path %s | Select-String -Pattern %s", d.file(dir), d.quote(pattern))
	}
	return fmt.Sprintf("grep -rnE -e %s %s", d.quote(pattern), d.file(dir))
}
