package runtimetest_test

import (
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

func TestPathIsTheNativeRuntime(t *testing.T) {
	options := copilotruntime.Options{Home: t.TempDir(), CLIPath: runtimetest.Path(t)}
	rt, err := copilotruntime.Find(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	if !rt.Native || rt.Path != runtimetest.Path(t) {
		t.Errorf("got %+v", rt)
	}
}

func TestCLIPathIsTheCLI(t *testing.T) {
	options := copilotruntime.Options{Home: t.TempDir(), CLIPath: runtimetest.CLIPath(t)}
	rt, err := copilotruntime.FindCLI(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	if rt.Native || rt.Version != copilotruntime.CLIVersion {
		t.Errorf("got %+v", rt)
	}
}
