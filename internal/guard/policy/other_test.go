package policy

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Whatever two machines' policies say, and whatever is called, the answer is
// never milder than that of either one, also after the way to the other
// machine.
func TestOtherIsNeverEased(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(11, 12))}
	verdicts := map[Verdict]int{}
	for range 4000 {
		layers := func() (out []Layer) {
			for range g.IntN(3) {
				out = append(out, Layer{Rules: g.rules(t), Trusted: g.IntN(3) > 0})
			}
			return out
		}
		mine, theirs, d := layers(), layers(), g.defaults()
		data, err := EncodeLayers(theirs)
		if err != nil {
			t.Fatal(err)
		}
		sent, err := DecodeLayers("the coordinator's", data)
		if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		a, b, both := Combine(d, mine...), Combine(d, theirs...), under(d, mine, &Other{Layers: sent})
		for range 5 {
			action := g.action()
			if g.IntN(2) == 0 {
				action = g.ordinary()
			}
			action.Wall = Wall(g.IntN(3))
			x, y, z := a.Evaluate(action), b.Evaluate(action), both.Evaluate(action)
			verdicts[z.Verdict]++
			if z.Verdict > x.Verdict || z.Verdict > y.Verdict {
				t.Fatalf("%+v\n mine: %s %s\ntheirs: %s %s\n  both: %s %s", action, x.Verdict, x.Reason, y.Verdict, y.Reason, z.Verdict, z.Reason)
			}
			if len(z.Lasting) > 0 {
				t.Fatalf("a rule is offered that only one machine would keep: %v", z.Lasting)
			}
			for _, p := range action.Paths {
				if both.MayRead("view", p.Rel) && (!a.MayRead("view", p.Rel) || !b.MayRead("view", p.Rel)) ||
					both.MayWrite(p.Rel) && (!a.MayWrite(p.Rel) || !b.MayWrite(p.Rel)) {
					t.Fatalf("%q may be read or written", p.Rel)
				}
			}
		}
		if both.AllHosts() && (!a.AllHosts() || !b.AllHosts()) {
			t.Fatal("the network is open though one policy shuts it")
		}
		if only, _ := both.ReadOnly(); !only {
			if one, _ := a.ReadOnly(); one {
				t.Fatal("my read-only is lost")
			}
			if one, _ := b.ReadOnly(); one {
				t.Fatal("their read-only is lost")
			}
		}
	}
	for _, v := range []Verdict{Deny, Ask, Allow} {
		if verdicts[v] < 50 {
			t.Errorf("%s came up %d times only", v, verdicts[v])
		}
	}
}

func TestOtherPlaces(t *testing.T) {
	mine := []Layer{{mustYAML(t, "mine", "sandbox: {read: [/a, /b/c, /d], write: [/e/f, /g]}\nshell: {allow: [make]}"), true}}
	theirs := &Other{Layers: []Layer{{mustYAML(t, "theirs", "sandbox: {read: [/a/x, /b, /g], write: [/e]}\nshell: {allow: [npm]}"), true}}}
	read, write := under(DefaultsRun(), mine, theirs).Places()
	if !slices.Equal(read, []string{"/a/x", "/b/c", "/e/f", "/g"}) || !slices.Equal(write, []string{"/e/f"}) {
		t.Errorf("read %v, write %v", read, write)
	}
	// No rules are rules too: the defaults.
	p := under(DefaultsRun(), mine, &Other{})
	if out := p.Evaluate(Action{Tool: "bash", Kind: KindShell, Commands: run("make")}); out.Verdict != Ask {
		t.Errorf("%s: %s", out.Verdict, out.Reason)
	}
	if read, write := p.Places(); len(read)+len(write) > 0 {
		t.Errorf("read %v, write %v", read, write)
	}
}

func TestDecodeLayersIsStrict(t *testing.T) {
	for text, want := range map[string]string{
		`{"schema":2,"layers":[]}`:          "version 2",
		`{"schema":1,"layers":[],"more":1}`: "unknown field",
		`{"schema":1,"layers":[{"source":"p","lists":{"tools.maybe":[{"pattern":"a"}]}}]}`: `no list "tools.maybe"`,
		`{"schema":1,"layers":[{"source":"p","lists":{"reads.deny":[{"pattern":"[a"}]}}]}`: "[a",
		`{"schema":1,"layers":[{},{},{},{},{},{},{},{},{}]}`:                               "9 layers",
		`{"schema":1,"layers":[]} {}`:                                                      "follows",
		``:                                                                                 "EOF",
	} {
		if layers, err := DecodeLayers("the coordinator's", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v %v", text, layers, err)
		}
	}
}

// The files of the coordinator speak on the worker, by their names.
func TestFileLayersAcross(t *testing.T) {
	home, root := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{filepath.Join(home, UserFile): "# mine alone\nshell: {deny: ['rm *']}\n", filepath.Join(root, WorkspaceFile): "shell: {allow: [make, rm]}\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	layers, err := FileLayers(home, root)
	if err != nil {
		t.Fatal(err)
	}
	data, err := EncodeLayers(layers)
	if err != nil || strings.Contains(string(data), home) || strings.Contains(string(data), "mine alone") {
		t.Fatalf("%s %v", data, err)
	}
	sent, err := DecodeLayers("the coordinator's", data)
	if err != nil {
		t.Fatal(err)
	}
	live := &Live{Home: t.TempDir(), Root: t.TempDir(), Defaults: DefaultsRun(), Other: &Other{Source: "the coordinator's policy", Layers: sent}}
	now := live.Now()
	if out := now.Policy.Evaluate(Action{Tool: "bash", Kind: KindShell, Commands: run("rm", "x")}); out.Verdict != Deny || !strings.Contains(out.Reason, "the coordinator's policy.yaml:2") {
		t.Errorf("%s: %s", out.Verdict, out.Reason)
	}
	if out := now.Policy.Evaluate(Action{Tool: "bash", Kind: KindShell, Commands: run("make")}); out.Verdict != Ask {
		t.Errorf("an untrusted file of theirs allows: %s", out.Reason)
	}
	if !slices.Contains(now.Sources, "the coordinator's policy") {
		t.Error(now.Sources)
	}
}
