//go:build race

package orchestrate

// kills are fewer under the race detector, where everything takes longer.
const kills = 10
