// Package toolbus serves the workspace's tools to programs that plan by
// themselves: JSON-RPC 2.0 over WebSocket and HTTP POST. It also has the client
// that `copilot-bridge rpc` uses. It knows no policy, which is the Workspace's,
// and does not listen, which is internal/httpserver's. internal/app puts these
// together.
package toolbus
