package traces

import (
	"encoding/binary"
	"math"
	"slices"
	"time"
)

// message is a protobuf message under construction. The numbers below are those of
// opentelemetry/proto/trace/v1/trace.proto, which no longer change.
type message []byte

func (m *message) tag(field, wire uint64) { *m = binary.AppendUvarint(*m, field<<3|wire) }

func (m *message) number(field, v uint64) {
	m.tag(field, 0)
	*m = binary.AppendUvarint(*m, v)
}

func (m *message) fixed(field, v uint64) {
	m.tag(field, 1)
	*m = binary.LittleEndian.AppendUint64(*m, v)
}

func (m *message) bytes(field uint64, b []byte) {
	m.tag(field, 2)
	*m = binary.AppendUvarint(*m, uint64(len(b)))
	*m = append(*m, b...)
}

func (m *message) text(field uint64, s string) { m.bytes(field, []byte(s)) }

func (m *message) attrs(field uint64, attrs []attr) {
	for _, a := range attrs {
		var kv message
		kv.text(1, a.key)
		kv.bytes(2, anyValue(a.value))
		m.bytes(field, kv)
	}
}

func anyValue(v any) (m message) {
	switch v := v.(type) {
	case string:
		m.text(1, v)
	case bool:
		n := uint64(0)
		if v {
			n = 1
		}
		m.number(2, n)
	case int64:
		m.number(3, uint64(v))
	case float64:
		m.fixed(4, math.Float64bits(v))
	case []string:
		var list message
		for _, s := range v {
			list.bytes(1, anyValue(s))
		}
		m.bytes(5, list)
	}
	return m
}

// encode makes spans an ExportTraceServiceRequest. The runtime's are those of a
// service of their own.
func (e *exporter) encode(spans []*Span) []byte {
	var request message
	for _, foreign := range []bool{false, true} {
		var scope, list message
		resource := e.settings.resource
		if foreign {
			resource = slices.Clone(resource)
			for i := range resource {
				if resource[i].key == "service.name" {
					resource[i].value = runtimeService
				}
			}
			scope.text(1, runtimeService)
		} else {
			scope.text(1, scopeName)
			scope.text(2, e.version)
		}
		list.bytes(1, scope)
		n := 0
		for _, s := range spans {
			if s.foreign == foreign {
				list.bytes(2, s.encode())
				n++
			}
		}
		if n == 0 {
			continue
		}
		var of, whole message
		of.attrs(1, resource)
		whole.bytes(1, of)
		whole.bytes(2, list)
		request.bytes(1, whole)
	}
	return request
}

func (s *Span) encode() (m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.bytes(1, s.trace[:])
	m.bytes(2, s.span[:])
	if s.parent != [8]byte{} {
		m.bytes(4, s.parent[:])
	}
	m.text(5, s.name)
	m.number(6, uint64(s.kind))
	m.fixed(7, nanos(s.start))
	m.fixed(8, nanos(s.end))
	m.attrs(9, s.attrs)
	if s.failed {
		var status message
		status.number(3, 2) // STATUS_CODE_ERROR
		m.bytes(15, status)
	}
	return m
}

func nanos(t time.Time) uint64 { return uint64(max(t.UnixNano(), 0)) }
