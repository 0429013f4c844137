package copilotruntime

import (
	"slices"
	"strings"
	"testing"
)

func TestNPMSaid(t *testing.T) {
	const stderr = "npm warn Unknown user config\n" +
		"npm error code E401\r\n" +
		"npm error 401 Unauthorized - GET https://user:hunter2@registry.example/x\n" +
		"npm error\n" +
		"npm error A complete log of this run can be found in: /home/u/.npm/_logs/x.log\n" +
		"plain words\n"
	const want = "code E401\n401 Unauthorized - GET https://registry.example/x\nplain words"
	if got := npmSaid(stderr); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := npmSaid("npm ERR! code ENOSPC\n"); got != "code ENOSPC" {
		t.Errorf("got %q", got)
	}
}

func TestNPMRemedy(t *testing.T) {
	for code, want := range map[string]string{
		"ENOTFOUND": "HTTPS_PROXY", "ETIMEDOUT": "network", "ENOTCACHED": "npm_config_offline", "ENOSPC": "disk space",
		"EACCES": "written", "EINTEGRITY": "npm cache clean", "E404": "registry", "E403": "refused",
		"SELF_SIGNED_CERT_IN_CHAIN": "NODE_EXTRA_CA_CERTS", "EOTHER": "npm 7",
	} {
		got := npmRemedy("code "+code+"\nmore", "copilot-bridge setup")
		if !strings.Contains(got, want) || !strings.HasSuffix(got, "then run `copilot-bridge setup`.") {
			t.Errorf("%s: %q", code, got)
		}
	}
}

func TestEnvironments(t *testing.T) {
	env := []string{"PATH=/bin", "COPILOT_GITHUB_TOKEN=a", "copilot_offline=true", "X_API_KEY=b", "GH_TOKEN=c",
		"AWS_SECRET_ACCESS_KEY=d", "HTTPS_PROXY=p", "NPM_TOKEN=e", "OPENCLAW_GATEWAY_TOKEN=f", "=C:=C:\\"}
	if got, want := checkEnv(env), []string{"PATH=/bin", "HTTPS_PROXY=p", "=C:=C:\\"}; !slices.Equal(got, want) {
		t.Errorf("a program under check gets %q, want %q", got, want)
	}
	want := []string{"PATH=/bin", "GH_TOKEN=c", "AWS_SECRET_ACCESS_KEY=d", "HTTPS_PROXY=p", "NPM_TOKEN=e", "=C:=C:\\"}
	if got := npmEnv(env); !slices.Equal(got, want) {
		t.Errorf("npm gets %q, want %q", got, want)
	}
}

func TestQuotedIsShort(t *testing.T) {
	long := strings.Repeat("line\n", 50) + strings.Repeat("é", 2000)
	got := quoted(long)
	if len(got) > 802 || !strings.HasPrefix(got, ": ") || !strings.HasSuffix(got, "é") {
		t.Errorf("got %d bytes: %q", len(got), got)
	}
	if got := quoted(" \n"); got != "" {
		t.Errorf("got %q", got)
	}
}
