// Package examples holds three small programs that use the public API: chat,
// an agent with a tool and an approval prompt, and the APIs inside an existing
// server. Its tests build and run them.
package examples
