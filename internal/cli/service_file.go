package cli

import (
	"encoding/xml"
	"strings"
)

// describe is the file by which the system starts the service.
func (s *service) describe(args []string, dir string, env [][2]string) string {
	if s.system == "darwin" {
		return plist(args, dir, s.log, env)
	}
	return unit(args, dir, s.log, env)
}

// unit is a user unit of systemd. A server that is stopped stays so, one that
// fails is started again.
func unit(args []string, dir, log string, env [][2]string) string {
	quoted := make([]string, 0, len(args))
	for _, a := range args {
		quoted = append(quoted, unitWord(a))
	}
	var variables strings.Builder
	for _, v := range env {
		// In these a $ is an ordinary character.
		variables.WriteString("Environment=" + strings.ReplaceAll(unitWord(v[0]+"="+v[1]), "$$", "$") + "\n")
	}
	percent := strings.NewReplacer("%", "%%")
	return `# Written by: copilot-bridge service install
[Unit]
Description=Copilot Bridge
Documentation=https://github.com/copilot-bridge/copilot-bridge

[Service]
ExecStart=` + strings.Join(quoted, " ") + `
WorkingDirectory=` + percent.Replace(dir) + `
` + variables.String() + `StandardError=append:` + percent.Replace(log) + `
UMask=0077
Restart=on-failure
RestartSec=5
TimeoutStopSec=60

[Install]
WantedBy=default.target
`
}

// unitWord is a word as systemd reads it from a command line.
func unitWord(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$", "\n", `\n`).Replace(s) + `"`
}

// plist is an agent of launchd.
func plist(args []string, dir, log string, env [][2]string) string {
	var b strings.Builder
	key := func(name, value string) { b.WriteString("\t<key>" + name + "</key>\n\t" + value + "\n") }
	text := func(s string) string {
		var out strings.Builder
		out.WriteString("<string>")
		_ = xml.EscapeText(&out, []byte(s)) // a Builder takes all
		return out.String() + "</string>"
	}
	list, variables := "<array>", "<dict>"
	for _, a := range args {
		list += "\n\t\t" + text(a)
	}
	for _, v := range env {
		variables += "\n\t\t<key>" + v[0] + "</key>" + text(v[1])
	}
	b.WriteString(xml.Header + `<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- Written by: copilot-bridge service install -->
<plist version="1.0">
<dict>
`)
	key("Label", text(launchdLabel))
	key("ProgramArguments", list+"\n\t</array>")
	key("EnvironmentVariables", variables+"\n\t</dict>")
	key("WorkingDirectory", text(dir))
	key("StandardErrorPath", text(log))
	key("RunAtLoad", "<true/>")
	key("KeepAlive", "<dict><key>SuccessfulExit</key><false/></dict>") // one that fails is started again
	key("ExitTimeOut", "<integer>60</integer>")
	key("Umask", "<integer>63</integer>") // 0077
	b.WriteString("</dict>\n</plist>\n")
	return b.String()
}
