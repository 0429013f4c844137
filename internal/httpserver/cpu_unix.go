//go:build unix

package httpserver

import "syscall"

// cpuSeconds is the time that this process has computed.
func cpuSeconds() (float64, bool) {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0, false
	}
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9, true
}
