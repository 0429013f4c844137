package copilotruntime

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

func findNPM(prod product) (string, error) {
	npm, err := program.Find("npm", os.Environ())
	if err != nil {
		return "", &bridge.Error{
			Code:    bridge.CodeUnavailable,
			Message: "npm was not found, and it is needed to install the " + prod.title,
			Remedy: fmt.Sprintf("Install Node.js with npm 7 or newer and run `%s`, or set COPILOT_CLI_PATH to a Copilot program that you have.",
				prod.setup),
			Cause: err,
		}
	}
	return npm, nil
}

// fetch has npm put the package into the staging directory.
//
// With a carried lock npm accepts only the content whose hash the lock has.
// Platforms without one (see lock/update.sh) are installed by exact version,
// checked only against the hash that the registry gives; they are untried.
func (s site) fetch(ctx context.Context, staging, npm string, p Progress) error {
	text := fmt.Sprintf("installing the %s %s with npm", s.product.title, s.product.version)
	packageJSON, packageLock, locked := s.lockFiles()
	args := []string{"ci"}
	if locked {
		if err := os.WriteFile(filepath.Join(staging, "package-lock.json"), packageLock, 0o600); err != nil {
			return err
		}
	} else {
		text += fmt.Sprintf(" (untried on %s: its content is checked only against what npm's registry says)", s.platform)
		// Without a package.json npm would look for a project further up.
		packageJSON = []byte(`{"private":true}`)
		args = []string{"install", "--no-save", s.packageName() + "@" + s.product.version}
	}
	if err := os.WriteFile(filepath.Join(staging, "package.json"), packageJSON, 0o600); err != nil {
		return err
	}

	step := Step{Text: text, Total: s.product.sizes[s.platform]}
	p.report(step)
	stop := watchSize(ctx, staging, p, step)
	defer stop()
	return s.runNPM(ctx, staging, npm, args)
}

// npmFlags keep npm quiet and to this directory, whatever the user's own
// configuration says; registry, proxy, certificates and cache remain theirs.
func npmFlags() []string {
	return []string{
		"--ignore-scripts", "--no-audit", "--no-fund", "--no-progress", "--no-update-notifier",
		"--loglevel=error", "--prefer-offline",
		"--global=false", "--package-lock=true", "--dry-run=false", "--install-strategy=hoisted", "--no-bin-links",
	}
}

func (s site) runNPM(ctx context.Context, dir, npm string, args []string) error {
	c, err := program.New(program.Place{Dir: dir, Env: npmEnv(os.Environ())}, npm, append(args, npmFlags()...)...)
	if err != nil {
		return err
	}
	stderr := &program.Tail{Limit: 8 << 10}
	exit, err := c.Run(ctx, program.RunOptions{Stderr: stderr})
	if err == nil {
		err = exit.Err()
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	said := npmSaid(stderr.String())
	return &bridge.Error{
		Code:    bridge.CodeUnavailable,
		Message: fmt.Sprintf("npm could not install %s %s%s", s.packageName(), s.product.version, quoted(said)),
		Remedy:  npmRemedy(said, s.product.setup),
		Cause:   err,
	}
}

var (
	npmNoise    = regexp.MustCompile(`^npm (error|ERR!) (A complete log of this run|.*_logs[/\\])`)
	npmPrefix   = regexp.MustCompile(`^npm (error|ERR!)\s?`)
	npmCode     = regexp.MustCompile(`(?m)^code (\w+)$`)
	urlUserInfo = regexp.MustCompile(`(://)[^/\s@]+@`)
)

// npmSaid reduces what npm wrote to its error lines, without the decoration
// and without the password that a registry's address may hold.
func npmSaid(stderr string) string {
	var kept []string
	for line := range strings.Lines(stderr) {
		line = strings.TrimRight(line, "\r\n")
		if npmNoise.MatchString(line) || strings.HasPrefix(line, "npm warn") || strings.HasPrefix(line, "npm WARN") {
			continue
		}
		if line = strings.TrimSpace(npmPrefix.ReplaceAllString(line, "")); line != "" {
			kept = append(kept, line)
		}
	}
	return urlUserInfo.ReplaceAllString(strings.Join(kept, "\n"), "$1")
}

// npmRemedy says what to do about npm's error code.
func npmRemedy(said, setup string) string {
	var code string
	if found := npmCode.FindStringSubmatch(said); found != nil {
		code = found[1]
	}
	again := fmt.Sprintf(", then run `%s`.", setup)
	switch code {
	case "ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENETUNREACH", "EHOSTUNREACH",
		"ERR_SOCKET_TIMEOUT", "EIDLETIMEOUT", "EPROTO":
		return "See that the network works and, behind a proxy, that HTTPS_PROXY is set" + again
	case "ENOTCACHED":
		return "npm is set to work offline and does not have the package in its cache: unset npm_config_offline or connect to the network" + again
	case "ENOSPC", "EDQUOT":
		return "Free some disk space (the install and npm's cache need about 500 MB)" + again
	case "EACCES", "EPERM", "EROFS":
		return "See that the directory and npm's cache can be written" + again
	case "EINTEGRITY":
		return "The package is not the one this program was built for. Clear npm's cache with `npm cache clean --force`, see that the registry in use is a true mirror" + again
	case "E404", "ETARGET":
		return "The registry in use does not have the package: see `npm config get registry` and `npm config get @github:registry`" + again
	case "E401", "E403":
		return "The registry in use refused: log in to it or choose another with `npm config`" + again
	case "SELF_SIGNED_CERT_IN_CHAIN", "UNABLE_TO_GET_ISSUER_CERT_LOCALLY", "DEPTH_ZERO_SELF_SIGNED_CERT":
		return "Let npm know your network's certificate with NODE_EXTRA_CA_CERTS or `npm config set cafile`" + again
	default:
		return "See that npm 7 or newer works here and that the network and the disk are in order" + again
	}
}

// npmEnv leaves npm everything but our own secrets. A registry's token stays:
// npm's configuration may refer to it.
func npmEnv(env []string) []string {
	return filterEnv(env, func(name string) bool {
		return strings.HasPrefix(name, "COPILOT_") || strings.HasPrefix(name, "OPENCLAW_") ||
			strings.HasSuffix(name, "_API_KEY")
	})
}
