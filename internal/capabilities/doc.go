// Package capabilities is the inventory of what Copilot's runtime and its Go
// SDK offer, and of what the bridge does with each piece. The runtime's half
// is read from the schemas that its package carries, the SDK's half and the
// places of use are found by the generator beside this package, and what both
// cannot know, why something is left alone, is the table in marks.go.
//
// It reads files and renders text; it starts nothing and asks nobody. The
// command line calls it, and package probe gives it what was found by trying.
//
// Without a Go toolchain the binary can read a runtime's schemas, compare them
// with the inventory that it carries, tell two of them apart and render the
// document. Only the generator, run by `make generate`, looks at Go code.
package capabilities

//go:generate go run ./generate -out inventory.json
