//go:build race

package search

// raced makes the trees smaller under the race detector, where everything
// takes longer.
const raced = true
