package bridge_test

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// A full disk has a code and a remedy, however deep in the chain it is.
func TestFullDiskIsTold(t *testing.T) {
	at := &fs.PathError{Op: "write", Path: "/home/x/state", Err: syscall.ENOSPC}
	for err, want := range map[error]string{
		fmt.Errorf("saving: %w", at):                        "the disk of /home/x is full",
		errors.Join(errors.New("and"), at):                  "the disk of /home/x is full",
		fmt.Errorf("saving: %w", syscall.EDQUOT):            "the disk is full",
		fmt.Errorf("saving: %w", syscall.EIO):               "",
		fmt.Errorf("saving: %w", bridge.DiskFull("/y", at)): "the disk of /y is full",
	} {
		e := bridge.AsError(err)
		if e.Message != want || want != "" && (e.Code != bridge.CodeUnavailable || bridge.CodeOf(err) != e.Code || e.Remedy == "") {
			t.Errorf("%v: %#v", err, e)
		}
	}
}

// A call whose decision could not be recorded was not denied by a policy.
func TestDenied(t *testing.T) {
	full := bridge.DiskFull("/home/x", nil)
	if err := (bridge.Decision{Reason: "r", Failure: full}).Denied("m", "change the policy"); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
	if e := bridge.AsError((bridge.Decision{Reason: "r"}).Denied("m", "change the policy")); e.Code != bridge.CodeDenied || e.Remedy != "change the policy" {
		t.Errorf("%v", e)
	}
}
