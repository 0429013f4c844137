package httpserver

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// metricsPage is a page of metrics in Prometheus' text format. Its client library
// would be 2.2 MB of the binary. Writing to it cannot fail.
type metricsPage struct{ bytes.Buffer }

var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func label(name, value string) string { return name + `="` + labelEscapes.Replace(value) + `"` }

func (p *metricsPage) head(name, kind, help string) {
	fmt.Fprintf(p, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (p *metricsPage) sample(name, labels string, value float64) {
	if labels != "" {
		labels = "{" + labels + "}"
	}
	fmt.Fprintf(p, "%s%s %s\n", name, labels, number(value))
}

// number is a value as the format has it.
func number(v float64) string {
	if math.IsInf(v, 1) {
		return "+Inf"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

func (p *metricsPage) gauge(name, help string, value float64) {
	p.head(name, "gauge", help)
	p.sample(name, "", value)
}

// counters writes the series of one name, by their labels. One without series is left out.
func (p *metricsPage) counters(name, help string, series map[string]float64) {
	if len(series) == 0 {
		return
	}
	p.head(name, "counter", help)
	for _, labels := range slices.Sorted(maps.Keys(series)) {
		p.sample(name, labels, series[labels])
	}
}

func (p *metricsPage) histograms(name, help string, series map[string]*histogram) {
	if len(series) == 0 {
		return
	}
	p.head(name, "histogram", help)
	for _, labels := range slices.Sorted(maps.Keys(series)) {
		h, total := series[labels], uint64(0)
		for i, bound := range append(slices.Clone(h.bounds), math.Inf(1)) {
			total += h.counts[i]
			p.sample(name+"_bucket", labels+","+label("le", number(bound)), float64(total))
		}
		p.sample(name+"_sum", labels, h.sum)
		p.sample(name+"_count", labels, float64(total))
	}
}

// started is when this process began, as near as matters.
var started = time.Now()

// process tells of the process what Prometheus' own collectors tell, by the same
// names. What only Linux knows is left out elsewhere.
func (p *metricsPage) process() {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	p.head("go_info", "gauge", "Information about the Go environment.")
	p.sample("go_info", label("version", runtime.Version()), 1)
	p.gauge("go_goroutines", "Number of goroutines that currently exist.", float64(runtime.NumGoroutine()))
	p.gauge("go_memstats_heap_alloc_bytes", "Number of heap bytes allocated and currently in use.", float64(mem.HeapAlloc))
	p.gauge("go_memstats_heap_inuse_bytes", "Number of heap bytes that are in use.", float64(mem.HeapInuse))
	p.gauge("go_memstats_heap_objects", "Number of currently allocated objects.", float64(mem.HeapObjects))
	p.gauge("go_memstats_sys_bytes", "Number of bytes obtained from system.", float64(mem.Sys))
	p.counters("go_gc_cycles_total", "Number of completed garbage collections.", map[string]float64{"": float64(mem.NumGC)})
	p.gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.", float64(started.Unix()))
	if cpu, ok := cpuSeconds(); ok {
		p.counters("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", map[string]float64{"": cpu})
	}
	if fds, err := os.ReadDir("/proc/self/fd"); err == nil {
		p.gauge("process_open_fds", "Number of open file descriptors.", float64(len(fds)))
	}
	var size, resident float64 // in pages
	if statm, err := os.ReadFile("/proc/self/statm"); err == nil {
		if _, err := fmt.Sscan(string(statm), &size, &resident); err == nil {
			p.gauge("process_resident_memory_bytes", "Resident memory size in bytes.", resident*float64(os.Getpagesize()))
			p.gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.", size*float64(os.Getpagesize()))
		}
	}
}
