//go:build !linux

package engine

// MachineMemory is not asked for here.
func MachineMemory() int64 { return defaultMemory }
