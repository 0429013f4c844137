//go:build race

package load

// raced says that the program under test is built with the race detector too,
// which makes it slower, and large: what it takes for that it never returns.
const raced = true
