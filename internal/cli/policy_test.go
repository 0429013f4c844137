package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
)

// policyWorld is a world without a sandbox, with a policy file in its home.
func policyWorld(t *testing.T, text string) (w *world, file string) {
	t.Helper()
	w = newWorld(t)
	home, err := filepath.EvalSymlinks(w.home)
	if err != nil {
		t.Fatal(err)
	}
	w.Environ = append(w.Environ, "COPILOT_BRIDGE_SANDBOX=off", "COPILOT_BRIDGE_HOME="+home)
	file = filepath.Join(home, policy.UserFile)
	if text != "" {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return w, file
}

func TestPolicyRules(t *testing.T) {
	w, file := policyWorld(t, "# mine\nshell:\n  deny: [git push] # never\n")
	dir, err := filepath.EvalSymlinks(w.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args, out string
		code      int
	}{
		{"policy list", file + "\n\nLIST        RULE      FROM\nshell.deny  git push  " + file + ":3\n", 0},
		{"policy add shell.deny rm -rf", "✓ shell.deny: \"rm -rf\" is in " + file + "\n", 0},
		{"policy add shell.deny rm -rf", "✓ shell.deny: \"rm -rf\" is in " + file + "\n", 0},
		{"policy add reads.deny **/.env", "✓ reads.deny: \"**/.env\" is in " + file + "\n", 0},
		{"policy test git push origin", "✗ it would be denied\n  reason        running \"git\" is denied by shell.deny \"git push\" (" + file + ":3)\n  rule          shell.deny git push\n  from          " + file + ":3\n  in a sandbox  no\n", 0},
		{"policy test make", "? it would be asked about\n  reason        running \"make\" needs consent (built-in default)\n  rule          default\n  from          built-in default\n  in a sandbox  no\n  always        always.shell: \"" + dir + ": make\"\n", 0},
		{"policy test view .env", "✗ it would be denied\n  reason        reading \".env\" is denied by reads.deny \"**/.env\" (" + file + ":6)\n  rule          reads.deny **/.env\n  from          " + file + ":6\n  in a sandbox  no\n", 0},
		{"policy remove shell.deny git push", "✓ shell.deny: \"git push\" is no longer in " + file + "\n", 0},
		{"policy test ls -l", "✓ it would run without a question\n  reason        running \"ls\" is allowed by builtin:read-only (built-in default)\n  rule          builtin:read-only\n  from          built-in default\n  in a sandbox  no\n", 0},
	} {
		w.out, w.err = &buffer{}, &buffer{}
		w.Stdout, w.Stderr = w.out, w.err
		if code := w.run(strings.Fields(tt.args)...); code != tt.code || w.out.String() != tt.out {
			t.Errorf("%s: exit %d\n%s\nwant\n%s\n%s", tt.args, code, w.out, tt.out, w.err)
		}
	}
	const want = "# mine\nshell:\n  deny: [\"rm -rf\"] # never\nreads:\n  deny:\n    - \"**/.env\"\n"
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
}

func TestPolicyErrors(t *testing.T) {
	w, file := policyWorld(t, "readOnly: true\n")
	for args, want := range map[string]string{
		"policy add shell.dny x":            "copilot-bridge: there is no list \"shell.dny\"\n  → did you mean shell.deny?\n",
		"policy add shell.allow":            "copilot-bridge: `copilot-bridge policy add` accepts a list and a rule; got 1 argument\n  → see `copilot-bridge policy add --help`\n",
		"policy add network.allow http://x": "copilot-bridge: this rule: network.allow \"http://x\": ",
		"policy add sandbox.read data":      "copilot-bridge: this rule: sandbox.read \"data\": write an absolute path; ~ and variables are not expanded\n  → see docs/reference/policy-rules.md for what rules can say\n",
		"policy remove shell.deny git push": "copilot-bridge: there is no rule shell.deny: \"git push\" in " + file + "\n  → see `copilot-bridge policy list`\n",
		"policy test":                       "copilot-bridge: `copilot-bridge policy test` accepts a call; got 0 arguments\n  → see `copilot-bridge policy test --help`\n",
		"policy test create {path":          "copilot-bridge: the arguments of create are not JSON: ",
		"policy tst":                        "copilot-bridge: there is no command \"copilot-bridge policy tst\"\n  → did you mean `copilot-bridge policy list`, `copilot-bridge policy test`?\n",
		"trust":                             "copilot-bridge: there is no .agent-policy.yaml in " + w.Dir + ", and no .env file with settings of the bridge\n  → name the root of a workspace that has one\n",
	} {
		w.err = &buffer{}
		w.Stderr = w.err
		if code := w.run(strings.Fields(args)...); code == 0 || !strings.HasPrefix(w.err.String(), want) {
			t.Errorf("%s: exit %d\n%s\nwant\n%s", args, code, w.err, want)
		}
	}
}

func TestTrustSaysWhatItLoosens(t *testing.T) {
	w, _ := policyWorld(t, "")
	local := filepath.Join(w.Dir, policy.WorkspaceFile)
	text := "readOnly: false\nshell:\n  allow: [npm test, \"builtin:read-only\"]\n  deny: [git push]\nnetwork:\n  allow: [\"*\"]\n"
	if err := os.WriteFile(local, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := w.run("trust"); code != 2 || w.err.String() != "copilot-bridge: trust needs --yes where nobody can be asked\n  → see `copilot-bridge trust --help`\n" {
		t.Errorf("exit %d: %s", code, w.err)
	}
	for _, want := range []string{"  │   deny: [git push]\n",
		"It loosens: files may be written where the default is read-only, as in serve\nIt loosens: these commands run without a question: npm test\nIt loosens: every host is reached without a question\n"} {
		if !strings.Contains(w.out.String(), want) {
			t.Errorf("it lacks %q:\n%s", want, w.out)
		}
	}
	if file, trusted, err := policy.LoadTrusted(filepath.Dir(w.home), w.Dir); file == nil || trusted || err != nil {
		t.Errorf("%v %v %v", file, trusted, err)
	}
	if code := w.run("trust", "--yes"); code != 0 || !strings.Contains(w.out.String(), "✓ trusted as it stands above: ") {
		t.Errorf("exit %d: %s%s", code, w.out, w.err)
	}
}
