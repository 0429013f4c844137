// Package toolbus is the door for programs that plan by themselves and want
// the workspace's tools: reading, searching, patching, formatting, running.
// It speaks JSON-RPC 2.0 over WebSocket, and without notifications over HTTP
// POST.
//
// It knows no policy: the Workspace behind it decides what may happen. Nor
// does it listen; the front does, and checks Host, Origin and token for what
// comes through it. What this package checks of these itself is what a
// WebSocket needs beyond that, see Options.
//
// One table (methods.go) declares the methods. Requests are decoded by it, and
// rpc.discover shows it as an OpenRPC document. A second (codes.go) maps the
// domain's error codes to those of JSON-RPC.
package toolbus
