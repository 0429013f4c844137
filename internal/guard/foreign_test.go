package guard

import (
	"fmt"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

func TestCheckEnviron(t *testing.T) {
	own := []string{"PATH=/bin", "HOME=/home/me", "LANG=C", "Mixed=1"}
	refused := []string{"PATH", "path", "HOME", "LANG", "MIXED", "BASH_FUNC_ls%%", "BASH_ENV", "ENV", "SHELLOPTS", "IFS", "CDPATH", "PS4", "PROMPT_COMMAND",
		"LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "GIT_SSH_COMMAND", "GIT_CONFIG_COUNT", "GIT_EXTERNAL_DIFF", "GIT_DIR",
		"NODE_OPTIONS", "NODE_EXTRA_CA_CERTS", "npm_config_script_shell", "PYTHONPATH", "PYTHONSTARTUP", "PERL5OPT", "RUBYOPT", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS",
		"DOTNET_STARTUP_HOOKS", "GOFLAGS", "RUSTC_WRAPPER", "CARGO_BUILD_RUSTC", "MAKEFLAGS", "CC", "LESSOPEN", "PAGER", "MANPAGER", "GH_PAGER", "EDITOR", "KUBE_EDITOR",
		"RIPGREP_CONFIG_PATH", "GREP_OPTIONS", "TAR_OPTIONS", "HTTPS_PROXY", "https_proxy", "SSL_CERT_FILE", "SSLKEYLOGFILE", "SSH_AUTH_SOCK", "SSH_ASKPASS",
		"XDG_CONFIG_HOME", "TMPDIR", "COPILOT_HOME", "COPILOT_BRIDGE_X", "GITHUB_TOKEN", "GH_TOKEN", "ABP_COPILOT_CMD", "OTEL_EXPORTER_OTLP_ENDPOINT",
		"GCC_EXEC_PREFIX", "CCACHE_PREFIX", "CCACHE_PREFIX_CPP", "CCACHE_COMPILER", "R_PROFILE_USER", "OPENSSL_ENGINES", "UNZIP", "ZIPOPT", "GZIP", "BZIP", "XZ_DEFAULTS", "ZSTD_CLEVEL",
		"CTAGS", "MORE", "LESSKEY", "CHROME_BIN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ACCESS_KEY_ID", "PGHOST", "RBENV_VERSION", "PYENV_ROOT", "GRAPHVIZ_DOT", "FLASK_APP",
		"SASS_BINARY_SITE", "ELECTRON_MIRROR", "REQUESTS_CA_BUNDLE", "DBUS_SESSION_BUS_ADDRESS", "TF_CLI_ARGS_plan", "ANSIBLE_STRATEGY", "HGMERGE", "P4PORT", "TEXINPUTS",
		"DEPENDENCIES_OUTPUT", "SQLITE_HISTORY", "TMUX_TMPDIR", "XML_CATALOG_FILES", "DISPLAY", "ASPELL_CONF", "RSH", "VIMRUNTIME",
		"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "KUBECONFIG", "DOCKER_HOST", "tz", "", "A B", "A=B", "1A", "A\x00", "É"}
	for _, name := range refused {
		err := CheckEnviron(map[string]string{"FINE": "1", name: "evil-value"}, own)
		if bridge.CodeOf(err) != bridge.CodeDenied || !strings.Contains(err.Error(), fmt.Sprintf("%q", name)) || strings.Contains(err.Error(), "evil-value") {
			t.Errorf("%q: %v", name, err)
		}
	}
	fine := map[string]string{"FROM_ORDER": "42", "CI": "1", "DEBUG": "app:*", "TZ": "UTC", "LC_ALL": "C", "DATABASE_URL": "postgres://h/db", "API_KEY": "k", "LOG_LEVEL": "info",
		"my_flag": "x", "BASE_URL": "http://localhost:3000", "DB_HOST": "db", "REDIS_URL": "redis://h", "PORT": "1", "ENVIRONMENT": "test", "STAGE": "dev", "NO_COLOR": "1", "SEED": "7",
		"CI_JOB_ID": "3", "PATH": "/bin", "HOME": "/home/me"}
	if err := CheckEnviron(fine, own); err != nil {
		t.Errorf("what is fine: %v", err)
	}
	for zone, fine := range map[string]bool{"Europe/Berlin": true, "CET-1CEST": true, ":/etc/x": false, "/etc/x": false, "../x": false, "a/../../x": false, "": false} {
		if err := CheckEnviron(map[string]string{"TZ": zone}, own); (err == nil) != fine {
			t.Errorf("TZ=%s: %v", zone, err)
		}
	}
	if err := CheckEnviron(map[string]string{"FINE": "a\x00b"}, own); bridge.CodeOf(err) != bridge.CodeDenied {
		t.Errorf("NUL in a value: %v", err)
	}
}

func TestServerCall(t *testing.T) {
	tests := []struct {
		name   string
		server bridge.MCPServer
		want   string // the command or the url; "" for an error
	}{
		{"plain", bridge.MCPServer{Command: "npx", Args: []string{"-y", "it's; rm x"}, Dir: "/w", Env: map[string]string{"GITHUB_TOKEN": "s3cret"}}, `npx -y "it's; rm x"`},
		{"its directory", bridge.MCPServer{Command: "npx", Dir: "/w/sub dir"}, `cd '/w/sub dir' && npx`},
		{"a variable that counts", bridge.MCPServer{Command: "npx", Env: map[string]string{"PATH": "s3cret", "NODE_OPTIONS": "s3cret"}}, `NODE_OPTIONS='(hidden)' PATH='(hidden)' npx`},
		{"no variable", bridge.MCPServer{Command: "npx", Env: map[string]string{"BASH_FUNC_npx%%": "() { x; }"}}, ""},
		{"a NUL", bridge.MCPServer{Command: "npx\x00"}, ""},
		{"remote", bridge.MCPServer{URL: "https://user:s3cret@h.example:8443/mcp?key=s3cret#f", Headers: map[string]string{"Authorization": "s3cret"}}, "https://h.example:8443/mcp"},
		{"no host", bridge.MCPServer{URL: "file:///etc"}, ""},
		{"nothing", bridge.MCPServer{}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			call, err := ServerCall("them", tt.server, "/w")
			if (err != nil) != (tt.want == "") {
				t.Fatalf("error %v", err)
			}
			args, _ := call.Args.(map[string]any)
			if got := args["command"]; got == nil && args["url"] != tt.want && tt.want != "" || got != nil && got != tt.want {
				t.Errorf("got %q, want %q", args, tt.want)
			}
			if strings.Contains(fmt.Sprint(call, err), "s3cret") {
				t.Errorf("a secret in %v", call)
			}
		})
	}
}
