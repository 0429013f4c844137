// Package acp is the bridge as an agent of the Agent Client Protocol: an
// editor or another client starts it, speaks JSON-RPC with it over its
// standard streams, and gets Copilot's sessions under the bridge's policy.
// What the policy asks about is put to the client as a permission request.
//
// It translates between acpwire's messages and bridge's types, and keeps what
// belongs to a connection: which sessions are open, which turn runs in each,
// its mode and its model. It does not know the engine, an agent or the guard;
// app gives it a Service.
//
// Of what a client can serve, the door uses fs/read_text_file (for files that
// a prompt mentions, so that unsaved changes count) and elicitation/create. It
// uses neither fs/write_text_file nor terminal/*: what Copilot writes and runs
// it does with its own tools, inside the process tree that the bridge watches
// and where the policy's decisions and the record are made.
package acp
