package contract

import "errors"

// Envelope is one line of the protocol: *Hello, *Run, *Happened, *Final or
// *Fatal, and from a host *Cancel or *Ping, which are answered by *Pong.
type Envelope interface{ value() any }

// The envelopes.
type (
	// Hello is the first line of a sidecar.
	Hello struct {
		ContractVersion string
		Backend         Backend
		Capabilities    Manifest
		Mode            Mode
	}
	// Run asks for a run.
	Run struct {
		ID        string
		WorkOrder WorkOrder
	}
	// Happened carries an event of a run.
	Happened struct {
		RefID string
		Event Event
	}
	// Final ends a run with its receipt.
	Final struct {
		RefID   string
		Receipt Receipt
	}
	// Fatal ends one that has none.
	Fatal struct {
		RefID *string
		Error string
		Code  *ErrorCode
	}
	// Cancel asks to end a run.
	Cancel struct {
		RefID  string
		Reason *string
	}
	// Ping asks for a sign of life.
	Ping struct{ Seq uint64 }
	// Pong is one.
	Pong struct{ Seq uint64 }
)

type tag string

var (
	tags     = []tag{"hello", "run", "event", "final", "fatal"}
	hostTags = append(tags[:len(tags):len(tags)], "cancel", "ping")
)

// ParseEnvelope reads a line as strictly as ABP does.
func ParseEnvelope(line []byte) (Envelope, error) { return reader{}.envelope(line, tags) }

// ParseHostLine reads a line from a host: absent parts of a work order are
// empty, and cancel and ping are understood as well.
func ParseHostLine(line []byte) (Envelope, error) {
	return reader{lenient: true}.envelope(line, hostTags)
}

func (r reader) envelope(line []byte, known []tag) (Envelope, error) {
	// What kind it is may be said last, so all of it must be sound.
	v, err := ParseValue(line)
	if err != nil {
		return nil, err
	}
	if _, ok := v.(Object); !ok {
		return nil, unexpected(v, "internally tagged enum Envelope")
	}
	var t tag
	kind := func(v any) error {
		s, ok := v.(string)
		if !ok {
			return unexpected(v, "variant identifier")
		}
		return variant(&t, known)(s)
	}
	if err := r.structure(v, "Envelope", field{"t", always, kind}); err != nil {
		var at *fieldError
		if errors.As(err, &at) {
			err = at.err
		}
		return nil, err
	}
	switch t {
	case "hello":
		e := &Hello{Mode: Mapped}
		return e, r.structure(v, "Hello", field{"contract_version", always, text(&e.ContractVersion)}, field{"backend", always, r.backend(&e.Backend)},
			field{"capabilities", always, r.manifest(&e.Capabilities)}, field{"mode", optional, variant(&e.Mode, modes)})
	case "run":
		e := &Run{}
		return e, r.structure(v, "Run", field{"id", always, text(&e.ID)}, field{"work_order", always, r.workOrder(&e.WorkOrder)})
	case "event":
		e := &Happened{}
		return e, r.structure(v, "Event", field{"ref_id", always, text(&e.RefID)}, field{"event", always, r.event(&e.Event)})
	case "final":
		e := &Final{}
		return e, r.structure(v, "Final", field{"ref_id", always, text(&e.RefID)}, field{"receipt", always, r.receipt(&e.Receipt)})
	case "fatal":
		e := &Fatal{}
		return e, r.structure(v, "Fatal", field{"ref_id", optional, maybe(&e.RefID, text)}, field{"error", always, text(&e.Error)},
			field{"error_code", optional, maybe(&e.Code, errorCode)})
	case "cancel":
		e := &Cancel{}
		return e, r.structure(v, "Cancel", field{"ref_id", always, text(&e.RefID)}, field{"reason", optional, maybe(&e.Reason, text)})
	default:
		e := &Ping{}
		return e, r.structure(v, "Ping", field{"seq", always, natural(&e.Seq)})
	}
}

// AppendEnvelope writes a line, without its end.
func AppendEnvelope(to []byte, e Envelope) []byte { return appendValue(to, e.value(), false) }

func (e *Hello) value() any {
	return record{{"t", "hello"}, {"contract_version", e.ContractVersion}, {"backend", e.Backend.value()}, {"capabilities", e.Capabilities.value()}, {"mode", string(e.Mode)}}
}

func (e *Run) value() any {
	return record{{"t", "run"}, {"id", e.ID}, {"work_order", e.WorkOrder.value()}}
}

func (e *Happened) value() any {
	return record{{"t", "event"}, {"ref_id", e.RefID}, {"event", e.Event.value()}}
}

func (e *Final) value() any {
	return record{{"t", "final"}, {"ref_id", e.RefID}, {"receipt", e.Receipt.value(orNull(e.Receipt.SHA256))}}
}

func (e *Fatal) value() any {
	out := record{{"t", "fatal"}, {"ref_id", orNull(e.RefID)}, {"error", e.Error}}
	if e.Code != nil {
		out = append(out, Member{"error_code", string(*e.Code)})
	}
	return out
}

func (e *Cancel) value() any {
	return record{{"t", "cancel"}, {"ref_id", e.RefID}, {"reason", orNull(e.Reason)}}
}

func (e *Ping) value() any { return record{{"t", "ping"}, {"seq", e.Seq}} }

func (e *Pong) value() any { return record{{"t", "pong"}, {"seq", e.Seq}} }
