// Package capabilities has the tests that make the inventory in
// internal/capabilities (`make generate`) and that try out the runtime
// (`make probe`). It is for maintainers, not part of the binary: it needs a Go
// toolchain and the runtime, and nothing imports it.
package capabilities
