package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"strings"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// Call calls a method of the runtime by its name, for this session where it is a
// session's. It judges nothing: the engine has asked the gate.
func (s *session) Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	exit, err := s.enter()
	if err != nil {
		return nil, err
	}
	defer exit()
	var out []reflect.Value
	err = s.proc.call(func(c *copilot.Client) error {
		f := callable(method)
		if !f.IsValid() {
			return &bridge.Error{Code: bridge.CodeNotFound, Message: "the SDK has no call for the runtime's method " + method,
				Remedy: "`copilot-bridge capabilities` lists the methods"}
		}
		in := []reflect.Value{receiver(c.RPC, s.sdk.RPC, method), reflect.ValueOf(ctx)}
		if f.Type().NumIn() == 3 {
			of := f.Type().In(2)
			if f.Type().IsVariadic() { // the parameters may be left out
				of = of.Elem()
			}
			p := reflect.New(of)
			if err := decodeParams(params, p.Interface()); err != nil {
				return &bridge.Error{Code: bridge.CodeInvalid, Message: "the parameters of " + method + " do not fit", Cause: err}
			}
			in = append(in, p.Elem())
		}
		out = f.Call(in)
		err, _ := out[len(out)-1].Interface().(error)
		return err
	})
	if err != nil {
		return nil, s.host.explain(err, "call "+method)
	}
	if len(out) < 2 {
		return json.RawMessage("{}"), nil
	}
	return json.Marshal(out[0].Interface())
}

// decodeParams is strict: a misspelled parameter would be left out in silence.
func decodeParams(params json.RawMessage, to any) error {
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	dec := json.NewDecoder(bytes.NewReader(params))
	dec.DisallowUnknownFields()
	return dec.Decode(to)
}

// Callable reports whether the SDK has a call for a method of the runtime.
func Callable(method string) bool { return callable(method).IsValid() }

// callable finds the SDK's function for a method, whose first parameter is its
// receiver. It finds none of the runtime's inner methods, which the SDK keeps to itself,
// nor any that the guard always refuses.
func callable(method string) reflect.Value {
	f := named(method)
	if !f.IsValid() || f.Type().NumIn() == 1 { // a group of methods
		return reflect.Value{}
	}
	return f
}

// sdkCall is a function of the SDK for a method of the runtime, or for a group in
// a method's name. Looked up as methods by their names they would make the linker keep
// every method of every type.
type sdkCall struct {
	name     string
	function any
}

func named(name string) reflect.Value {
	for _, c := range sdkCalls {
		if strings.EqualFold(c.name, name) {
			return reflect.ValueOf(c.function)
		}
	}
	return reflect.Value{}
}

// receiver goes from the SDK's client down the groups in the name of a callable
// method, by field or by the group's function.
func receiver(server *rpc.ServerRPC, session *rpc.SessionRPC, method string) reflect.Value {
	path := strings.Split(method, ".")
	api, from := reflect.ValueOf(server), 0
	if strings.EqualFold(path[0], "session") {
		api, from = reflect.ValueOf(session), 1
	}
	for i := from; i < len(path)-1; i++ {
		next := api.Elem().FieldByNameFunc(func(name string) bool { return strings.EqualFold(name, path[i]) })
		if !next.IsValid() {
			next = named(strings.Join(path[:i+1], ".")).Call([]reflect.Value{api})[0]
		}
		api = next
	}
	return api
}
