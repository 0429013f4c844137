package engine

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// MachineMemory is what this process may use with all that it starts: the
// machine's, or less if its control group has a limit.
func MachineMemory() int64 {
	memory := int64(defaultMemory)
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kb int64
		if _, err := fmt.Sscanf(string(b), "MemTotal: %d kB", &kb); err == nil {
			memory = kb << 10
		}
	}
	if b, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil {
			memory = min(memory, n)
		}
	}
	return memory
}
