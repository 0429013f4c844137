package program

import (
	"os"
	"syscall"

	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
)

func dieWithParent(attr *syscall.SysProcAttr, by syscall.Signal) { attr.Pdeathsig = by }

// groupGone says whether no process of the group is alive. kill(2) still counts
// those that have ended but were not waited for, hence the look at /proc.
func groupGone(leader *os.Process) bool {
	return syscall.Kill(-leader.Pid, 0) != nil || len(supervise.Members(leader.Pid)) == 0
}
