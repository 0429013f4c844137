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
		api, path := reflect.ValueOf(c.RPC), method
		if name, ok := strings.CutPrefix(method, "session."); ok {
			api, path = reflect.ValueOf(s.sdk.RPC), name
		}
		f := callable(api, strings.Split(path, "."))
		if !f.IsValid() {
			return &bridge.Error{Code: bridge.CodeNotFound, Message: "the SDK has no call for the runtime's method " + method,
				Remedy: "`copilot-bridge capabilities` lists the methods"}
		}
		in := []reflect.Value{reflect.ValueOf(ctx)}
		if f.Type().NumIn() == 2 {
			of := f.Type().In(1)
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

var contextType = reflect.TypeFor[context.Context]()

// callable finds the SDK's function for a method, part by part of its name. The
// SDK keeps the runtime's inner methods to itself; those are not found.
func callable(api reflect.Value, path []string) (f reflect.Value) {
	for i, part := range path {
		same := func(name string) bool { return strings.EqualFold(name, part) }
		if i == len(path)-1 {
			if f = api.MethodByName(methodNamed(api.Type(), same)); f.IsValid() && f.Type().NumIn() > 0 && f.Type().In(0) == contextType {
				return f
			}
			return reflect.Value{}
		}
		next := api.Elem().FieldByNameFunc(func(name string) bool { return same(name) && name[0] <= 'Z' })
		if !next.IsValid() {
			getter := api.MethodByName(methodNamed(api.Type(), same))
			if !getter.IsValid() || getter.Type().NumIn() != 0 || getter.Type().NumOut() != 1 {
				return reflect.Value{}
			}
			next = getter.Call(nil)[0]
		}
		if api = next; api.Kind() != reflect.Pointer || api.IsNil() {
			return reflect.Value{}
		}
	}
	return reflect.Value{}
}

func methodNamed(t reflect.Type, same func(string) bool) string {
	for i := range t.NumMethod() {
		if name := t.Method(i).Name; same(name) {
			return name
		}
	}
	return ""
}

// Callable reports whether the SDK has a call for a method of the runtime.
func Callable(method string) bool {
	if name, ok := strings.CutPrefix(method, "session."); ok {
		return callable(reflect.ValueOf(rpc.NewSessionRPC(nil, "")), strings.Split(name, ".")).IsValid()
	}
	return callable(reflect.ValueOf(rpc.NewServerRPC(nil)), strings.Split(method, ".")).IsValid()
}
