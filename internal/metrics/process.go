package metrics

import (
	"os"
	"runtime/metrics"
	"strconv"
	"strings"
)

// Process adds what the system and Go's runtime say of this process, under the
// names that Prometheus' own library gives them.
func (r *Registry) Process() {
	for _, m := range []struct {
		name, help string
		samples    []string
	}{
		{"go_goroutines", "Goroutines.", []string{"/sched/goroutines:goroutines"}},
		{"go_memstats_heap_alloc_bytes", "Bytes of the heap's objects.", []string{"/memory/classes/heap/objects:bytes"}},
		{"go_memstats_heap_inuse_bytes", "Bytes of the heap's spans that are in use.", []string{"/memory/classes/heap/objects:bytes", "/memory/classes/heap/unused:bytes"}},
	} {
		r.Func(m.name, m.help, func() (sum float64) {
			samples := make([]metrics.Sample, len(m.samples))
			for i, name := range m.samples {
				samples[i].Name = name
			}
			metrics.Read(samples)
			for _, s := range samples {
				sum += float64(s.Value.Uint64())
			}
			return sum
		})
	}
	if Resident() > 0 {
		r.Func("process_resident_memory_bytes", "Memory of this process, without Copilot's runtime.", Resident)
	}
}

// Resident is the memory of this process in bytes, where the system says so in
// /proc, and else 0.
func Resident() float64 {
	data, err := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(data))
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseFloat(fields[1], 64)
	if err != nil {
		return 0
	}
	return pages * float64(os.Getpagesize())
}
