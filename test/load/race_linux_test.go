//go:build race

package load

// raced reports that the program under test is built with the race detector.
// That makes it slower, and memory that the detector takes is never freed.
const raced = true
